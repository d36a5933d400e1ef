"""What really run rounds take beyond the passes they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from capplan.estimate.fitted_step import FittedStep
from capplan.estimate.steptime import verify_seconds
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.schema.cells import RoundsCell
from capplan.schema.profile import Profile

ALL_TASKS = "all"
"""Task of rounds that an engine ran on every task's requests at once."""
FEW_ROUNDS_RELATIVE_SE = 0.06
"""Scatter of a round about its passes where fewer than three cells of rounds tell none: that of
402 published runs (``scatter_dense`` of models_db/engines/vllm.yaml)."""
_FEWEST_SCATTERED = 3


@dataclass(frozen=True)
class RoundPasses:
    """Time of the passes of one round, from fitted step times."""

    target: FittedStep
    draft: FittedStep | None
    context: float

    def seconds(self, cell: RoundsCell, traced: TracedAcceptance | None) -> float:
        """Return the passes of a mean round of this cell.

        How often lookup finds a draft is read from the trace; without one, every round is taken
        to verify the mean number of drafts.
        """
        n = cell.num_speculative_tokens
        if self.draft is None:
            share, drafted = 1.0, cell.drafted / max(cell.rounds, 1)
            if traced is not None:
                share, drafted = traced.drafting(n)
            return float(verify_seconds(self.target, cell.batch, drafted, share, self.context))
        verified = self.target.seconds(cell.batch, n + 1.0, self.context)
        return float(verified + n * self.draft.seconds(cell.batch, 1, self.context))


def trace_of_rounds(
    cell: RoundsCell, traces: Sequence[TracedAcceptance]
) -> TracedAcceptance | None:
    """Return the trace of the very requests that a cell decoded; None if they were not traced.

    Rounds are run on the first requests of a task, so at temperature 0 the text is the same; an
    engine runs those of all tasks side by side.
    """
    alike = [
        trace
        for trace in traces
        if trace.temperature == cell.temperature and trace.draft_sampling == cell.draft_sampling
    ]
    if cell.task == ALL_TASKS and alike:
        return pool(alike)
    own = next((trace for trace in alike if trace.task == cell.task), None)
    return own.of_first(cell.requests) if own is not None else None


def round_overhead(
    profile: Profile, passes: RoundPasses, traces: Sequence[TracedAcceptance]
) -> tuple[float, float]:
    """Return what really run rounds cost beyond the fitted passes, and the scatter about it.

    One or two cells fit themselves: of 120 planted machines whose rounds scatter by 8 % the 95 %
    interval of a round's cost held 55 % with one cell and 89 % with two, before their scatter was
    taken to be that of published rounds at least; 97 % with three. docs/method/speculation.md
    """
    measured, predicted = [], []
    for cell in profile.rounds:
        if cell.rounds > 0:
            measured.append(cell.seconds / cell.rounds)
            predicted.append(passes.seconds(cell, trace_of_rounds(cell, traces)))
    if not measured:
        return 0.0, FEW_ROUNDS_RELATIVE_SE if profile.draft is not None else 0.0
    overhead = max(float(np.median(np.subtract(measured, predicted))), 0.0)
    errors = (np.array(predicted) + overhead) / np.array(measured) - 1.0
    scatter = float(np.sqrt(np.mean(errors**2)))
    if len(measured) < _FEWEST_SCATTERED:
        return overhead, max(scatter, FEW_ROUNDS_RELATIVE_SE)
    return overhead, scatter
