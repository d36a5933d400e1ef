"""Comparisons where one thing alone is compared, hardly anything differs, or little was seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from capplan.estimate.acceptance_changes import compare_acceptance, mean_contrast, traced_tasks
from capplan.estimate.comparison import Contrast, Ratio, difference_error, ratio_error
from capplan.estimate.context_ranges import by_context, context_contrasts, traced_ranges
from capplan.estimate.profile_settings import reported, settings_changed
from capplan.estimate.step_changes import compare_steps
from capplan.estimate.student import student_quantile
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.difference import Quality
from capplan.schema.profile import EngineMemory, MemoryRecord
from capplan.schema.verdict import Stability, Verdict


def contrast(**changes: Any) -> Contrast:
    values: dict[str, Any] = {
        "quality": Quality.STEP_TIME, "label": "code", "before": 2.0, "after": 2.5,
        "difference": 0.5, "standard_error": 0.1, "degrees": 10.0, "samples": (6, 7),
        "num_speculative_tokens": 4, "paired": True,
    }  # fmt: skip
    return Contrast(**{**values, **changes})


# ---- one row


def test_the_mean_of_one_task_is_that_task() -> None:
    mean = mean_contrast([contrast()], "alone")
    assert (mean.quality, mean.num_speculative_tokens, mean.paired) == (Quality.STEP_TIME, 4, True)
    assert (mean.before, mean.after, mean.difference) == (2.0, 2.5, 0.5)
    assert (mean.standard_error, mean.degrees) == (pytest.approx(0.1), pytest.approx(10.0))
    assert mean.samples == (6, 7)


@pytest.mark.parametrize(
    ("difference", "is_log", "is_rounding"),
    [
        (0.99e-9, True, True), (1.01e-9, True, False), (-1.01e-9, True, False),
        (1.99e-9, False, True), (2.01e-9, False, False),
    ],
)  # fmt: skip
def test_a_billionth_of_the_figure_is_rounding(
    difference: float, is_log: bool, is_rounding: bool
) -> None:
    row = contrast(difference=difference, is_log=is_log).change(0.05)
    assert row.difference is not None
    assert (row.difference.mid == 0.0) is is_rounding


def test_what_a_request_adds_by_hand() -> None:
    # 2 + 6 tokens in 1 + 3 rounds: 2 a round, and neither departs; 3 + 5 depart by 1 in 4
    even = Ratio.of(np.array([2.0, 6.0]), np.array([1.0, 3.0]))
    assert (even.value, even.parts.tolist()) == (2.0, [0.0, 0.0])
    uneven = Ratio.of(np.array([3.0, 5.0]), np.array([1.0, 3.0]))
    assert (uneven.value, uneven.parts.tolist()) == (2.0, [0.25, -0.25])
    assert ratio_error(uneven.parts) == (pytest.approx(0.5), 1.0)


# ---- steps


def step(*seconds: float, stability: Stability = Stability.STABLE, batch: int = 1) -> TimingCell:
    return TimingCell(
        role=Role.TARGET, phase=Phase.DECODE, batch=batch, tokens_per_sequence=1, context=64,
        seconds=seconds, verdict=Verdict(stability=stability),
    )  # fmt: skip


def test_an_unusable_cell_does_not_hide_those_after_it(synthetic: Any) -> None:
    cells = (
        step(9.0, stability=Stability.INVALID),
        step(0.0, batch=3),
        step(2.0),
        step(4.0, batch=2),
    )
    profile = synthetic.profile(timing=cells)[0]
    rows, by_batch = compare_steps(profile, profile)
    assert rows[0].samples == (2, 2)
    assert rows[0].before == pytest.approx(math.sqrt(8.0))
    assert [row.before for row in by_batch] == pytest.approx([2.0, 4.0])


# ---- acceptance and contexts


def rounds_profile(synthetic: Any, *cells: tuple[list[list[int]], dict[str, Any]]) -> Any:
    """Return an engine's rounds of N = 3, a cell each; inner lists are requests."""
    arrays, made = {}, []
    for index, (requests, more) in enumerate(cells):
        flat = np.array([one for request in requests for one in request], dtype=np.uint8)
        prefix = f"acceptance/{index}"
        arrays |= {
            f"{prefix}/offsets": np.cumsum([0, *map(len, requests)]),
            f"{prefix}/accepted": flat,
            f"{prefix}/drafted": np.full(len(flat), 3, dtype=np.uint8),
        }
        fields = {"trace_kind": "per_round", "max_num_speculative_tokens": 3} | more
        made.append(synthetic.acceptance_cell(len(requests), 10, **fields))
    return synthetic.profile(acceptance=tuple(made))[0], arrays


UNEVEN = [[3, 0, 1], [2, 2], [0, 0, 0, 1]]


def test_of_two_tasks_the_mean_and_of_one_its_own_rows(synthetic: Any) -> None:
    both = rounds_profile(synthetic, (UNEVEN, {}), ([[1], [2, 3]], {"task": "chat"}))
    overall, by_task = compare_acceptance(traced_tasks(*both), traced_tasks(*both), [2])
    assert [row.num_speculative_tokens for row in (*overall, *by_task)] == [2, 2, 2]
    assert overall[0].samples == (5, 5)
    assert overall[0].before == pytest.approx((by_task[0].before + by_task[1].before) / 2)
    one = rounds_profile(synthetic, (UNEVEN, {}))
    overall, by_task = compare_acceptance(traced_tasks(*both), traced_tasks(*one), [2])
    assert [row.label for row in overall] == ["code, temperature 0"]
    assert by_task == []


@pytest.mark.parametrize("backend", ["server", "import"])
def test_requests_recorded_in_any_order_are_not_paired(synthetic: Any, backend: str) -> None:
    profile, arrays = rounds_profile(synthetic, (UNEVEN, {}))
    named = profile.backend.model_copy(update={"name": backend})
    lost = traced_tasks(profile.model_copy(update={"backend": named}), arrays)
    assert lost[0].prompts is None
    assert traced_tasks(profile, arrays)[0].prompts == ("0" * 64, 3)


def test_a_range_has_the_interval_of_its_requests(synthetic: Any) -> None:
    profile, arrays = rounds_profile(synthetic, (UNEVEN, {}))
    (table,) = by_context(profile, arrays, 3)
    (row,) = table.rows
    tokens, rounds = np.array([7.0, 6.0, 5.0]), np.array([3.0, 2.0, 4.0])
    value = 18 / 9
    left = (tokens - value * rounds) / 9
    error = math.sqrt(3 / 2 * float(left @ left))
    assert (row.label, row.samples, row.rounds) == ("0-255 tokens", 3, 9.0)
    assert row.tokens_per_round.mid == pytest.approx(value)
    reach = student_quantile(0.05, 2) * error / value
    assert row.tokens_per_round.high == pytest.approx(value * math.exp(reach), rel=1e-6)
    assert row.tokens_per_round.low == pytest.approx(value * math.exp(-reach), rel=1e-6)


def test_cells_of_one_temperature_are_put_together_and_probabilistic_drafts_left_out(
    synthetic: Any,
) -> None:
    profile, arrays = rounds_profile(
        synthetic,
        ([[3], [3, 3]], {"temperature": 0.7}),
        (UNEVEN, {}),
        ([[0], [0]], {"task": "chat", "max_num_speculative_tokens": 2}),
        ([[3], [0]], {"draft_sampling": "probabilistic"}),
    )
    cold, hot = traced_ranges(profile, arrays, 5)
    assert (cold.temperature, cold.num_speculative_tokens) == (0.0, 2)
    assert (hot.temperature, hot.num_speculative_tokens) == (0.7, 3)
    assert cold.places.request.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4]
    ratio, rounds = cold.ratio(0, 256)
    # at N = 2 the three of the first round count for two
    assert (ratio.value, rounds) == (pytest.approx((6 + 6 + 5 + 2) / 11), 11.0)
    assert len(ratio.parts) == 5


def test_two_profiles_differ_in_a_range_by_errors_that_add(synthetic: Any) -> None:
    before = traced_ranges(*rounds_profile(synthetic, (UNEVEN, {})), 3)
    after = traced_ranges(*rounds_profile(synthetic, ([[3, 3], [1, 2, 3], [0, 3]], {})), 3)
    (row,) = context_contrasts(before, after)
    expected = difference_error(
        before[0].ratio(0, 256)[0], after[0].ratio(0, 256)[0], paired=False
    )
    assert (row.standard_error, row.degrees) == pytest.approx(expected)
    assert row.samples == (3, 3)


def test_ranges_that_one_side_never_met_are_not_compared(synthetic: Any) -> None:
    long = rounds_profile(synthetic, ([[0] * 3, [1] * 3], {"prompt_tokens": 600}))
    wide = rounds_profile(synthetic, ([[0] * 200, [1] * 200], {"prompt_tokens": 400}))
    before, after = traced_ranges(*long, 3), traced_ranges(*wide, 3)
    assert before[0].edges == [0.0, 256.0, 512.0]
    assert after[0].edges == [0.0, 256.0, 512.0, 1024.0]
    for one, two in ((before, after), (after, before)):
        labels = [row.label for row in context_contrasts(one, two)]
        assert labels == ["256-511 tokens, temperature 0"]


@pytest.mark.parametrize("known", [(0,), (1,), (0, 1)])
def test_prompts_are_known_where_those_of_all_cells_are(
    synthetic: Any, known: tuple[int, ...]
) -> None:
    profile, arrays = rounds_profile(synthetic, (UNEVEN, {}), ([[1], [2]], {"task": "chat"}))
    arrays |= {f"acceptance/{k}/prompt_tokens": np.full(3 - k, 9) for k in known}
    (ranges,) = traced_ranges(profile, arrays, 3)
    assert ranges.places.own_prompts is (len(known) == 2)


# ---- settings and memory


def test_every_memory_figure_that_differs_is_reported(synthetic: Any) -> None:
    def with_memory(factor: float) -> Any:
        engine = EngineMemory(
            num_speculative_tokens=0, kv_capacity_tokens=int(1000 * factor), kv_block_tokens=16,
            max_model_len=4096, model_bytes=2e9 * factor, kv_pool_bytes=1e9 * factor,
        )  # fmt: skip
        record = MemoryRecord(
            role=Role.TARGET, weight_bytes=2e8 * factor, kv_bytes_per_token=8192.0 * factor,
            peak_bytes=5e8 * factor,
        )  # fmt: skip
        return synthetic.profile(engine_memory=(engine,), memory=(record,))[0]

    found = reported(with_memory(1.0), with_memory(2.0))
    assert [(one.name, one.unit, one.before, one.after) for one in found] == [
        ("KV capacity", "tokens", 1000, 2000), ("KV pool", "bytes", 1e9, 2e9),
        ("weights", "bytes", 2e9, 4e9), ("target weights", "bytes", 2e8, 4e8),
        ("target KV a token", "bytes", 8192.0, 16384.0), ("target peak", "bytes", 5e8, 1e9),
    ]  # fmt: skip
    assert reported(with_memory(1.0), with_memory(1.0)) == ()


def test_one_draft_a_round_may_be_asked_for(synthetic: Any) -> None:
    tasks = traced_tasks(*synthetic.profile())
    assert [row.num_speculative_tokens for row in compare_acceptance(tasks, tasks, [1])[0]] == [1]
    assert [row.num_speculative_tokens for row in compare_acceptance(tasks, tasks)[0]] == [1, 3, 5]
    assert compare_acceptance(tasks, tasks, [0, 17]) == ([], [])


def test_weights_are_named_by_the_first_twelve_letters_of_their_hash(synthetic: Any) -> None:
    before = synthetic.profile()[0]
    target = before.target.model_copy(update={"weight_sha256": "0123456789abcdef" * 4})
    changed = settings_changed(before, before.model_copy(update={"target": target}))
    assert ("target weights", "0123456789ab") in [(one.name, one.after) for one in changed]
