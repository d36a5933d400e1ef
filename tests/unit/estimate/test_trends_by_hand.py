"""Trends of a served load against normal equations, and the ranges that its windows fall into."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from capplan.estimate.drift import (
    FEWEST_WINDOWS,
    ServedWindow,
    by_hour,
    hourly_trend,
    served_windows,
)
from capplan.estimate.observed import tokens_per_round
from capplan.estimate.student import student_quantile, two_sided_p
from capplan.estimate.uncertainty import LogEstimate
from capplan.schema.observation import Observation, SpeculationCounts


def served(hour: float, tokens: float, context: float | None = None, rounds: float = 100.0,
           n: int | None = 3) -> ServedWindow:  # fmt: skip
    return ServedWindow(
        hour, context, LogEstimate(tokens, 0.01 * rounds), rounds, rounds * (tokens - 1), n
    )


def expected_trend(columns: list[np.ndarray], values: np.ndarray, rounds: np.ndarray) -> Any:
    """Return slope, reach and p-value by normal equations."""
    design, weights = np.stack(columns, axis=1), np.sqrt(rounds)
    weights = weights / weights.mean()
    inverse = np.linalg.inv((design * weights[:, None]).T @ design)
    coefficients = inverse @ ((design * weights[:, None]).T @ values)
    left = np.sqrt(weights) * (values - design @ coefficients)
    count, terms = design.shape
    seen = float(left[1:] @ left[:-1] / (left @ left))
    alike = min(max(seen + (terms + 3 * max(seen, 0.0)) / count, 0.0), 0.9)
    error = math.sqrt(left @ left / (count - terms) * inverse[1, 1] * (1 + alike) / (1 - alike))
    degrees = max(count * (1 - alike) / (1 + alike) - terms, 1.0)
    slope = float(coefficients[1])
    return (
        slope,
        student_quantile(0.05, degrees) * error,
        two_sided_p(slope / error, degrees),
        alike,
    )


WAVES = {
    "apart": np.array([1, -1, 1, -1, 1, -1, 1, -1]),
    "little alike": np.array([1, 1, -1, 1, -1, -1, 1, -1]),
    "one wave": np.array([1, 2, 3, 4, 3, 2, 1, -16]),
}


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize("with_context", [True, False])
def test_eight_windows_tell_a_trend_beside_their_contexts(wave: str, with_context: bool) -> None:
    hours = np.arange(8.0)
    contexts = np.array([900.0, 400, 2000, 1500, 300, 800, 2500, 600])
    rounds = np.array([100.0, 225, 64, 400, 100, 81, 144, 100])
    tokens = 3 - 0.02 * hours - 0.3 * np.log(contexts) + 0.01 * WAVES[wave]
    seen = [
        served(float(h), float(t), float(c) if with_context or h else None, float(r))
        for h, t, c, r in zip(hours, tokens, contexts, rounds, strict=True)
    ]
    trend = hourly_trend(seen)
    columns = [np.ones(8), hours - 3.5]
    if with_context:
        columns.append(np.log(contexts) - np.log(contexts).mean())
    slope, reach, p_value, _ = expected_trend(columns, tokens, rounds)
    assert trend is not None
    assert trend.at_same_context is with_context
    assert trend.per_hour.mid == pytest.approx(slope)
    assert trend.per_hour.high - slope == pytest.approx(reach)
    assert trend.p_value == pytest.approx(p_value)


def test_windows_hardly_count_where_they_all_go_up_and_down_together() -> None:
    hours = np.arange(60.0)
    tokens = 3 + 0.5 * np.sin(hours / 10)
    _, reach, _, alike = expected_trend([np.ones(60), hours - 29.5], tokens, np.full(60, 100.0))
    trend = hourly_trend([served(float(h), float(t)) for h, t in zip(hours, tokens, strict=True)])
    assert alike == 0.9
    assert trend is not None
    assert trend.per_hour.high - trend.per_hour.mid == pytest.approx(reach)


def test_contexts_that_grow_with_the_hours_leave_the_whole_fall_to_the_hours() -> None:
    trend = hourly_trend([served(h, 3 - 0.1 * h, 1000 * math.exp(h)) for h in range(9)])
    assert trend is not None
    assert not trend.at_same_context
    assert trend.per_hour.mid == pytest.approx(-0.1)


@pytest.mark.parametrize("lacking", [3, None])
def test_a_context_that_is_not_known_of_every_window_is_known_of_none(lacking: int | None) -> None:
    contexts = [900.0, 400, 2000, 1500, 300, 800, 2500, 600, 700]
    seen = [
        served(h, 3 - 0.1 * h - 0.2 * math.log(c) + 0.01 * (h % 2), None if h == lacking else c)
        for h, c in enumerate(contexts)
    ]
    trend = hourly_trend(seen)
    assert trend is not None
    assert trend.at_same_context is (lacking is None)


def test_contexts_that_differ_by_half_a_token_do_differ() -> None:
    contexts = [100.0, 100.5, 100.2, 100.9, 100.1, 100.4, 100.8, 100.3]
    seen = [served(h, 3 + 0.01 * (h % 3), c) for h, c in enumerate(contexts)]
    trend = hourly_trend(seen)
    assert trend is not None
    assert trend.at_same_context


@pytest.mark.parametrize(("scatter", "is_rounding"), [(5e-10, True), (2e-9, False)])
def test_a_scatter_of_less_than_a_billionth_is_rounding(scatter: float, is_rounding: bool) -> None:
    signs = WAVES["apart"] * np.array([1, 1, -1, -1, 1, 1, -1, -1])
    tokens = 3 * (1 + scatter * signs)
    trend = hourly_trend([served(h, float(t)) for h, t in enumerate(tokens)])
    assert trend is not None
    assert (trend.per_hour.low == trend.per_hour.high == 0.0) is is_rounding


def test_four_windows_at_three_times_are_the_fewest() -> None:
    assert FEWEST_WINDOWS == 4
    tokens = [3.0, 2.9, 2.85, 2.7]
    trend = hourly_trend([served(h, t) for h, t in zip((0, 1, 2, 2), tokens, strict=True)])
    assert trend is not None
    assert trend.windows == 4
    assert hourly_trend([served(h, t) for h, t in zip((0, 0, 1, 1), tokens, strict=True)]) is None
    assert hourly_trend([served(h, t) for h, t in zip((0, 1, 2), tokens, strict=False)]) is None


# ---- ranges


def window(minute: float, accepted: float = 150, drafts: float = 100, n: int = 3,
           **more: Any) -> Observation:  # fmt: skip
    values: dict[str, Any] = {
        "source": "server", "format": "prometheus", "duration_s": None,
        "started_at": f"2026-01-02T{int(minute // 60):02d}:{int(minute % 60):02d}:00Z",
        "speculation": SpeculationCounts(
            num_speculative_tokens=n, drafts=drafts, drafted=drafts * n, accepted=accepted
        ),
    }  # fmt: skip
    return Observation(**(values | more))


def lows(synthetic: Any, *minutes: float) -> list[float]:
    seen = tuple(window(minute) for minute in minutes)
    return [
        row.low for row in by_hour(synthetic.profile(acceptance=(), observations=seen)[0]).rows
    ]


def test_a_watch_of_two_hours_is_told_by_the_hour_and_a_shorter_one_in_quarters(
    synthetic: Any,
) -> None:
    assert lows(synthetic, 0, 59, 60, 119, 120) == [0.0, 1.0, 2.0]
    assert lows(synthetic, 0, 30, 59, 60, 90, 116) == pytest.approx(
        [0.0, 29 / 60, 58 / 60, 87 / 60]
    )
    assert lows(synthetic, 0, 185) == [0.0, 3.0]


def test_a_single_moment_is_one_range(synthetic: Any) -> None:
    seen = (window(5), window(5))
    (row,) = by_hour(synthetic.profile(acceptance=(), observations=seen)[0]).rows
    assert (row.samples, row.low) == (2, 0.0)


def test_two_windows_err_by_what_each_knows_of_itself(synthetic: Any) -> None:
    seen = (window(0, 150, 100), window(10, 320, 300, n=2), window(300))
    table = by_hour(synthetic.profile(acceptance=(), observations=seen)[0])
    first, last = table.rows
    assert first.tokens_per_round.mid == pytest.approx(1 + 470 / 400)
    assert first.rounds == 400.0
    assert first.num_speculative_tokens is None  # two lengths ran
    assert last.num_speculative_tokens == 3
    own = [tokens_per_round(one.speculation).log_sd for one in seen[:2]]
    relative = math.hypot(0.25 * own[0], 0.75 * own[1])
    high = first.tokens_per_round.mid * math.exp(1.96 * relative)
    assert first.tokens_per_round.high == pytest.approx(high, rel=1e-6)


def test_windows_without_a_time_stand_at_no_hour_and_the_first_that_has_one_is_hour_zero() -> None:
    found = served_windows([window(0, started_at=""), window(90), window(30, duration_s=3600.0)])
    # 1:30 and the middle of 0:30 to 1:30
    assert [one.hour for one in found] == [None, pytest.approx(0.5), 0.0]
    assert [one.hour for one in served_windows([window(0, started_at="")])] == [None]
    assert served_windows([]) == []


def test_a_window_that_counted_positions_alone_knows_its_length() -> None:
    counts = SpeculationCounts(
        drafts=100, drafted=200, accepted=90, accepted_per_position=(60, 30), rounds=120
    )
    (found,) = served_windows([window(0, speculation=counts)])
    assert (found.num_speculative_tokens, found.rounds, found.accepted) == (2, 120, 90)
    bare = counts.model_copy(update={"accepted_per_position": (), "rounds": None})
    (found,) = served_windows([window(0, speculation=bare)])
    assert (found.num_speculative_tokens, found.rounds) == (None, 100)
