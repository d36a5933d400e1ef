"""Differences: nothing where nothing changed, found where planted, signs that turn."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from capplan.api.comparing import DiffWishes, diff_profiles
from capplan.economics.decomposition import Factor, decompose
from capplan.estimate.acceptance_changes import compare_acceptance, traced_tasks
from capplan.estimate.comparison import changes
from capplan.estimate.drift import ServedWindow, hourly_trend
from capplan.estimate.step_changes import compare_steps
from capplan.estimate.student import student_quantile, two_sided_p
from capplan.estimate.uncertainty import LogEstimate
from capplan.profiles.store import StoredProfile
from capplan.schema.difference import Quality

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

SEEDS = range(40)
TASKS = ("code", "chat", "maths")
REQUESTS, TOKENS = 24, 60


def measured(synthetic: Any, seed: int, *, accept: float = 0.6, slower: float = 1.0) -> Any:
    """Return a profile whose requests and step times scatter as real ones do.

    Requests differ by more than their tokens do, a run is off as a whole by 1 %, and a point by
    another per cent.
    """
    rng = np.random.default_rng(seed)
    cells, arrays = [], {}
    for index, task in enumerate(TASKS):
        each = np.clip(rng.beta(accept * 8, (1 - accept) * 8, REQUESTS), 0.02, 0.98)
        flat = np.clip(
            np.repeat(each, TOKENS) + 0.1 * rng.standard_normal(REQUESTS * TOKENS), 0, 1
        )
        cells.append(
            synthetic.acceptance_cell(REQUESTS, TOKENS, task=task, prompts_sha256=f"{seed:064d}")
        )
        prefix = f"acceptance/{index}"
        arrays[f"{prefix}/offsets"] = np.arange(REQUESTS + 1, dtype=np.int64) * TOKENS
        arrays[f"{prefix}/accept_greedy"] = flat.astype(np.float32)
        arrays[f"{prefix}/accept_probabilistic"] = flat.astype(np.float32)
    run = slower * math.exp(0.01 * rng.standard_normal())
    timing = []
    for role, times in (("target", synthetic.TARGET_TIMES), ("draft", synthetic.DRAFT_TIMES)):
        for cell in synthetic.timing(synthetic.Role(role), times, noise=0.01, seed=seed * 2 + 7):
            middle = cell.seconds[1] * run
            seconds = tuple(middle * np.exp(0.01 * rng.standard_normal(9)))
            timing.append(cell.model_copy(update={"seconds": seconds}))
    profile, _ = synthetic.profile(acceptance=tuple(cells), timing=tuple(timing), id=f"p-{seed}")
    return StoredProfile(profile, arrays, Path(f"{seed}.json"))


def rows(before: Any, after: Any) -> tuple[Any, ...]:
    """Return acceptance and step times compared: what is measured, without what is fitted."""
    tasks = (traced_tasks(one.profile, one.arrays) for one in (before, after))
    steps = compare_steps(before.profile, after.profile)
    return changes([*compare_acceptance(*tasks), *steps])


def changed(found: Any, quality: Quality | None = None) -> list[str]:
    return [row.label for row in found if row.changed and quality in (None, row.quality)]


def test_a_profile_and_itself_differ_in_nothing(synthetic: Any) -> None:
    one = measured(synthetic, 1)
    found = diff_profiles(one, one, wishes=DiffWishes(by=("context", "hour"), fail_over=0.0))
    assert {row.quality for row in found.changes} == set(Quality)
    assert changed(found.changes) == []
    assert all(row.difference.mid == 0 for row in found.changes)
    assert found.settings == found.reported == ()
    assert found.gate is not None
    assert not found.gate.failed


def test_where_nothing_changed_at_most_one_comparison_in_twenty_finds_something(
    synthetic: Any,
) -> None:
    """The 5 % hold for all rows of acceptance and step times together."""
    alarms = sum(
        bool(changed(rows(measured(synthetic, s), measured(synthetic, s + 1000)))) for s in SEEDS
    )
    # 5 % of 40 are 2; more than 5 have a chance of 1 % at that rate
    assert alarms <= 5


def test_step_times_ten_per_cent_longer_are_found(synthetic: Any) -> None:
    found = 0
    for seed in SEEDS:
        after = measured(synthetic, seed + 1000, slower=1.10)
        labels = changed(rows(measured(synthetic, seed), after), Quality.STEP_TIME)
        found += "target decode" in labels
    assert found >= 36


def test_a_slower_machine_is_no_smaller_speedup(synthetic: Any) -> None:
    """All steps alike: the ratio of a round to a plain step stays."""
    for seed in (3, 4):
        after = measured(synthetic, seed + 1000, slower=1.3)
        found = diff_profiles(measured(synthetic, seed), after).changes
        assert "target decode" in changed(found, Quality.STEP_TIME)
        assert changed(found, Quality.SPEEDUP) == []


def test_acceptance_of_other_text_is_found_and_its_signs_turn(synthetic: Any) -> None:
    label = "mean of 3 tasks, temperature 0"
    found = 0
    for seed in SEEDS:
        before, after = measured(synthetic, seed), measured(synthetic, seed + 1000, accept=0.45)
        there, back = rows(before, after), rows(after, before)
        found += label in changed(there, Quality.TOKENS_PER_ROUND)
        for one, two in zip(there, back, strict=True):
            assert one.changed == two.changed
            assert np.sign(one.difference.mid) == -np.sign(two.difference.mid)
            if one.quality is Quality.TOKENS_PER_ROUND:
                assert one.difference.mid == pytest.approx(-two.difference.mid)
                assert one.difference.low == pytest.approx(-two.difference.high)
    assert found >= 36


def test_ten_per_cent_less_on_the_same_requests_is_found(synthetic: Any) -> None:
    """Requests compared with themselves: how hard each is drops out."""
    for seed in SEEDS:
        before, after = measured(synthetic, seed), measured(synthetic, seed)
        weaker = {
            name: values * np.float32(0.9) if "accept_" in name else values
            for name, values in after.arrays.items()
        }
        found = rows(before, StoredProfile(after.profile, weaker, after.path))
        accepted = [row for row in found if row.quality is Quality.TOKENS_PER_ROUND]
        assert all(row.paired and row.difference.high < 0 for row in accepted)


@pytest.mark.parametrize(
    ("error", "degrees", "exact"),
    # Student's t, two-sided: tables of the US National Institute of Standards and Technology
    [
        (0.05, 1, 12.706),
        (0.05, 7, 2.365),
        (0.01, 3, 5.841),
        (0.002, 10, 4.144),
        (0.05, 100, 1.984),
    ],
)
def test_quantiles_of_students_t(error: float, degrees: float, exact: float) -> None:
    assert student_quantile(error, degrees) == pytest.approx(exact, abs=5e-4)
    assert two_sided_p(student_quantile(error, degrees), degrees) == pytest.approx(error, rel=1e-9)


def test_with_many_degrees_students_t_is_the_normal_distribution() -> None:
    assert student_quantile(0.05, math.inf) == pytest.approx(1.959964, abs=1e-6)
    assert student_quantile(0.05, 1e5) == pytest.approx(1.96, abs=1e-3)
    assert two_sided_p(1.959964, math.inf) == pytest.approx(0.05, abs=1e-6)


def windows(seed: int, slope: float, *, like: float = 0.3) -> list[ServedWindow]:
    """Return 24 windows of a quarter of an hour, alike from one to the next."""
    rng = np.random.default_rng(seed)
    noise, found = 0.0, []
    for number in range(24):
        noise = like * noise + 0.05 * rng.standard_normal()
        hour = number / 4
        value = 2.2 + slope * hour + noise
        found.append(ServedWindow(hour, None, LogEstimate(value, 0.02), 500.0, 0.0, 3))
    return found


def test_an_hourly_decline_is_found_and_a_flat_load_seldom_blamed() -> None:
    falls = sum(hourly_trend(windows(seed, -0.06)).declines for seed in SEEDS)
    blamed = sum(hourly_trend(windows(seed, 0.0)).declines for seed in SEEDS)
    assert falls >= 35
    # one-sided 2.5 % of 40 is 1; more than 3 have a chance of 2 % at that rate
    assert blamed <= 3


def test_a_trend_is_not_told_from_one_window_or_one_moment() -> None:
    rows = windows(1, -0.05)
    assert hourly_trend(rows[:3]) is None
    assert hourly_trend([rows[0]] * 8) is None


amounts = st.floats(0.01, 1e7)
factors = st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=1, max_size=8)


@given(amounts, factors)
def test_parts_add_up_to_the_cent_and_turn_their_signs(
    usd: float, pairs: list[tuple[float, float]]
) -> None:
    ratio = math.prod(after / before for before, after in pairs)
    before = Decimal(f"{usd:.4f}")
    after = Decimal(f"{max(float(before) * min(ratio, 1e6), 0.01):.4f}")
    if before <= 0 or ratio > 1e6 or ratio < 1e-9:
        return
    there = decompose(before, after, {str(n): Factor(*pair) for n, pair in enumerate(pairs)})
    back = decompose(after, before, {str(n): Factor(*pair[::-1]) for n, pair in enumerate(pairs)})
    cent = Decimal("0.01")
    assert sum(there.values()) == after.quantize(cent, "ROUND_HALF_UP") - before.quantize(
        cent, "ROUND_HALF_UP"
    )
    for name, part in there.items():
        assert abs(part + back[name]) <= cent  # ties of a rounding may fall to another part


def test_a_factor_that_did_not_move_has_no_part() -> None:
    parts = decompose(Decimal(100), Decimal(150), {"load": Factor(2, 3), "price": Factor(7, 7)})
    assert parts == {"load": Decimal("50.00"), "price": Decimal("0.00")}
