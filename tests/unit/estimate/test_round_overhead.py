"""What rounds take beyond their passes, and how sure one or two runs of them can be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from capplan.estimate.fitted_step import FittedStep
from capplan.estimate.round_overhead import FEW_ROUNDS_RELATIVE_SE, RoundPasses, round_overhead

STEP = FittedStep(10e-3, 0.0, 0.0, 0.0, 0.0, 0.0, relative_se=0.01)
DRAFT = FittedStep(1e-3, 0.0, 0.0, 0.0, 0.0, 0.0, relative_se=0.01)
PASSES = RoundPasses(STEP, DRAFT, 100.0)
ROUND_S = 10e-3 + 4 * 1e-3


def profile(*seconds: float, draft: Any = "a draft") -> Any:
    cells = [
        SimpleNamespace(
            task="code", temperature=0.0, draft_sampling=None, requests=1, batch=1,
            num_speculative_tokens=4, rounds=10, drafted=40, accepted=20, seconds=10 * each,
        )
        for each in seconds
    ]  # fmt: skip
    return SimpleNamespace(rounds=cells, draft=draft)


@pytest.mark.parametrize("cells", [1, 2])
def test_one_or_two_cells_fit_themselves_and_tell_no_scatter(cells: int) -> None:
    overhead, scatter = round_overhead(profile(*[ROUND_S + 1e-3] * cells), PASSES, ())
    assert overhead == pytest.approx(1e-3)
    assert scatter == FEW_ROUNDS_RELATIVE_SE


def test_what_two_cells_differ_by_counts_where_it_is_more() -> None:
    _, scatter = round_overhead(profile(ROUND_S, ROUND_S * 1.4), PASSES, ())
    assert scatter > FEW_ROUNDS_RELATIVE_SE


def test_three_cells_tell_their_own_scatter() -> None:
    overhead, scatter = round_overhead(profile(*[ROUND_S + 2e-3] * 3), PASSES, ())
    assert overhead == pytest.approx(2e-3)
    assert scatter == pytest.approx(0.0, abs=1e-12)


def test_rounds_that_never_ran_are_unknown_unless_nothing_drafts() -> None:
    assert round_overhead(profile(), PASSES, ()) == (0.0, FEW_ROUNDS_RELATIVE_SE)
    assert round_overhead(profile(draft=None), PASSES, ()) == (0.0, 0.0)
