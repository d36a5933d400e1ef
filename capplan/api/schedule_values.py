"""A computed schedule as a value: its table, its verdict and what must be known beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.adaptive import LengthPlan, LengthTimes
from capplan.estimate.cuda_graphs import largest_captured_batch
from capplan.estimate.framework_tax import framework_tax
from capplan.schema.pairing import Method
from capplan.schema.quantity import Quantity
from capplan.schema.schedule import GraphEdge, LengthAtBatch, LengthAtContext, LengthSchedule
from capplan.units import MS_PER_S

Floats = NDArray[np.float64]

_SHOWN_BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)


@dataclass(frozen=True)
class Scheduled:
    """A schedule over one load, with what it was computed from."""

    times: LengthTimes
    plan: LengthPlan
    load: Floats
    gain_interval: tuple[float, float]
    context: int
    captured: int | None

    @property
    def mean_batch(self) -> float:
        """Mean requests at once."""
        return float(self.load @ self.times.batches)

    @property
    def gain(self) -> Quantity:
        """Gain over the best single length; the middle is what was computed."""
        low, high = self.gain_interval
        mid = self.plan.gain
        return Quantity(low=min(low, mid), mid=mid, high=max(high, mid))


@dataclass(frozen=True)
class Context:
    """The schedule at one number of tokens in each cache."""

    tokens: int
    plan: LengthPlan


def schedule_value(
    found: Scheduled,
    contexts: Sequence[Context],
    *,
    load_words: str,
    origin: str,
    pairing: tuple[str, str, Method],
    data_parallel: int,
) -> LengthSchedule:
    """Put everything together.

    Parameters
    ----------
    found
        At the first context.
    contexts
        The schedule at each context asked for; one alone is not listed again.
    load_words, origin
        Where the load and the times come from.
    pairing
        Target, draft and method.
    data_parallel
        Replicas: with more than one, vLLM must not be told to run them as one engine.
    """
    plan, tax = found.plan, framework_tax(found.mean_batch)
    recommended, reason = _verdict(found)
    target, draft, method = pairing
    return LengthSchedule(
        origin=origin,
        target=target,
        draft=draft,
        method=method.value,
        ranges=_triples(plan),
        num_speculative_tokens=int(plan.chosen.max()),
        best_fixed=plan.fixed,
        recommended="schedule" if recommended else "fixed",
        reason=reason,
        gain=found.gain,
        gain_before_tax=plan.gain_before_tax,
        tax_paid=plan.tax_paid,
        tax_at_load=Quantity(low=tax.low, mid=tax.mid, high=tax.high),
        merge_loss=max(plan.merge_loss, 0.0),
        load=load_words,
        mean_batch=found.mean_batch,
        context_tokens=found.context,
        captured_tokens=found.captured,
        graph_edges=_edges(found),
        at_batch=_at_batch(found),
        at_context=tuple(_at_context(one) for one in contexts) if len(contexts) > 1 else (),
        notes=_notes(found, method, data_parallel),
    )


def _triples(plan: LengthPlan) -> tuple[tuple[int, int, int], ...]:
    return tuple((r.first, r.last, r.num_speculative_tokens) for r in plan.ranges)


def _at_context(one: Context) -> LengthAtContext:
    return LengthAtContext(
        context_tokens=one.tokens,
        ranges=_triples(one.plan),
        best_fixed=one.plan.fixed,
        gain=one.plan.gain,
    )


def _words(length: int) -> str:
    return f"N = {length}" if length else "no speculation"


def _verdict(found: Scheduled) -> tuple[bool, str]:
    """Say whether the schedule is worth running, and why or why not."""
    plan, gain = found.plan, found.gain
    fixed = _words(plan.fixed)
    if len(plan.ranges) == 1 and int(plan.chosen[0]) == plan.fixed:
        return False, f"{fixed} is best at every batch of the load"
    if gain.mid <= 0:
        return False, (
            f"the schedule's N = 0 costs more (its tax, {plan.tax_paid * 100:.1f} %) than its "
            f"other lengths gain over {fixed}"
            if plan.tax_paid > 0
            else f"the schedule gains nothing over {fixed}"
        )
    if gain.low <= 0:
        return False, f"the gain of {gain.mid * 100:.1f} % over {fixed} is within its interval"
    return True, f"the gain over {fixed} is larger than its interval"


def _edges(found: Scheduled) -> tuple[GraphEdge, ...]:
    if found.captured is None:
        return ()
    lengths = sorted({0, *found.plan.chosen.tolist(), found.plan.fixed})
    return tuple(
        GraphEdge(
            num_speculative_tokens=n, largest_batch=largest_captured_batch(found.captured, n)
        )
        for n in lengths
    )


def _at_batch(found: Scheduled) -> tuple[LengthAtBatch, ...]:
    """Return the table: round numbers, and both ends of every range."""
    times, plan = found.times, found.plan
    largest = int(times.batches[-1])
    ends = {end for r in plan.ranges for end in (r.first, r.last)}
    shown = sorted({*(b for b in _SHOWN_BATCHES if b <= largest), *ends})
    seconds = times.token_s * np.where(times.lengths == 0, 1.0 + times.tax[:, None], 1.0)
    fixed = int(np.searchsorted(times.lengths, plan.fixed))
    rows = []
    for batch, following in zip(shown, [*shown[1:], largest + 1], strict=True):
        place = int(np.searchsorted(times.lengths, plan.chosen[batch - 1]))
        rows.append(
            LengthAtBatch(
                batch=batch,
                load_share=min(float(found.load[batch - 1 : following - 1].sum()), 1.0),
                num_speculative_tokens=int(plan.chosen[batch - 1]),
                tpot_ms=float(seconds[batch - 1, place]) * MS_PER_S,
                plain_tpot_ms=float(times.token_s[batch - 1, 0]) * MS_PER_S,
                fixed_tpot_ms=batch / float(times.fixed_rate[batch - 1, fixed]) * MS_PER_S,
            )
        )
    return tuple(rows)


def _notes(found: Scheduled, method: Method, data_parallel: int) -> tuple[str, ...]:
    plan = found.plan
    notes = []
    if 0 in plan.chosen:
        notes.append(
            "N = 0 in a schedule keeps the drafting path in the step: TPOT 6.6 % (2 at once) to "
            "21.6 % (189) above serving without speculation (vLLM issue 49548, V1 runner); it is "
            "counted in every figure here."
        )
    if len(plan.ranges) > 1:
        notes.append(
            "Throughput was seen to collapse at a boundary between two ranges (vLLM issue 49548, "
            "open): watch the load there, and run a single length if it does."
        )
        notes.append(
            "vLLM's V1 runner knows schedules for ngram, eagle, eagle3, mtp, draft_model and "
            "dflash only, and runs them with piecewise CUDA graphs, whose cost above N = 0 is "
            "not measured; the V2 runner keeps full graphs."
        )
    if data_parallel > 1 and len(plan.ranges) > 1:
        notes.append(
            "vLLM ignores a schedule with --data-parallel-size above 1: run the "
            f"{data_parallel} replicas as separate servers."
        )
    if method in (Method.SUFFIX, Method.MEDUSA):
        notes.append(f"vLLM runs no schedule with {method.value}.")
    return tuple(notes)
