"""A schedule of draft lengths by batch and context in words, for the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.reporting.schedule_text import length_words, signed
from capplan.schema.schedule import LengthAtBatch, LengthSchedule

_LEAST_SHARE = 0.0005
"""Of the load; smaller ones would be shown as 0."""
_NO_GAIN = 0.0005
"""A gain that would be shown as 0.0 %."""


@dataclass(frozen=True)
class LengthCell:
    """The best length at one batch and context."""

    text: str
    is_off: bool
    beyond: bool
    """Whether fewer requests of such a context fit into the KV pool."""


@dataclass(frozen=True)
class ScheduleRow:
    """One number of requests at once."""

    batch: str
    share: str
    lengths: tuple[LengthCell, ...]
    """At each context of the table's head."""
    times: tuple[tuple[str, bool], ...]
    """Time of a token with the schedule, without speculation and with the best single length,
    each with whether it is the least of the three, as far as it is shown."""


@dataclass(frozen=True)
class ScheduleView:
    """What the page says of one schedule."""

    advice: str
    facts: tuple[tuple[str, str], ...]
    """Label and text: gain, tax, load, graphs."""
    fixed: str
    """The best single length: ``N = 3``."""
    contexts: tuple[str, ...]
    """Tokens in each cache; the first is the plan's own."""
    rows: tuple[ScheduleRow, ...]
    setting: str
    """Keys for ``--speculative-config``; empty where no range drafts."""
    notes: tuple[str, ...]


def build_schedule(
    found: LengthSchedule | None, planned_length: int | None = None
) -> ScheduleView | None:
    """Return the schedule in words; None where there is none.

    ``planned_length`` is what the plan recommends, which was chosen at one load.
    """
    if found is None:
        return None
    fixed = length_words(found.best_fixed)
    by_context = _by_context(found)
    return ScheduleView(
        advice=" ".join(_advice(found, fixed, planned_length)),
        facts=_facts(found, fixed),
        fixed=fixed,
        contexts=tuple(f"{tokens:,}" for tokens in by_context),
        rows=tuple(_row(row, tuple(by_context.values())) for row in found.at_batch),
        setting=_setting(found),
        notes=found.notes,
    )


def _advice(found: LengthSchedule, fixed: str, planned_length: int | None) -> Iterator[str]:
    if found.recommended == "schedule":
        yield f"Run the schedule: {found.reason}."
        return
    if abs(found.gain.high) < _NO_GAIN:
        yield f"Run {fixed}: a schedule gains nothing over it at this load."
    else:
        yield f"Run {fixed}: {found.reason}."
    if planned_length and planned_length != found.best_fixed:
        yield (
            f"The plan's {length_words(planned_length)} is the best at its one load; here the "
            "load varies, and lengths that are nearly as good are merged."
        )


_Ranges = tuple[tuple[int, int, int], ...]


def _by_context(found: LengthSchedule) -> dict[int, _Ranges]:
    """Return the ranges at each context, the plan's own first and the others by length."""
    others = sorted(found.at_context, key=lambda one: one.context_tokens)
    listed = {one.context_tokens: one.ranges for one in others}
    return {found.context_tokens: found.ranges} | listed


def _facts(found: LengthSchedule, fixed: str) -> tuple[tuple[str, str], ...]:
    tax = found.tax_at_load
    facts = [(f"Gain over {fixed} at every load", f"{signed(found.gain)} tokens/s, 95 % interval")]
    if found.tax_paid > 0:
        facts.append(
            ("Before the tax of its own N = 0", f"{found.gain_before_tax * 100:+.1f} % tokens/s")
        )
    facts.append(
        (
            "Tax of leaving speculation on at N = 0",
            f"TPOT +{tax.mid * 100:.1f} % ({tax.low * 100:.1f} to {tax.high * 100:.1f}) at this "
            "load, counted in the table: no speculation at all may be faster than N = 0",
        )
    )
    mean = "" if "on average" in found.load else f"; mean {found.mean_batch:.3g} at once"
    facts.append(("Load of a replica", f"{found.load}{mean}"))
    if found.graph_edges:
        edges = ", ".join(
            f"{length_words(edge.num_speculative_tokens)} to {edge.largest_batch:,} at once"
            for edge in found.graph_edges
        )
        reach = f"{found.captured_tokens or 0:,} tokens a step: {edges}"
        facts.append(("CUDA graphs reach", f"{reach}; longer steps are not planned"))
    return tuple(facts)


def _row(row: LengthAtBatch, contexts: tuple[_Ranges, ...]) -> ScheduleRow:
    return ScheduleRow(
        batch=fmt.count(row.batch),
        share=_share(row.load_share),
        lengths=tuple(_cell(row.batch, ranges) for ranges in contexts),
        times=_times(row.tpot_ms, row.plain_tpot_ms, row.fixed_tpot_ms),
    )


def _share(share: float) -> str:
    return "under 0.1 %" if share < _LEAST_SHARE else fmt.percent(share)


def _times(*times_ms: float) -> tuple[tuple[str, bool], ...]:
    least = fmt.milliseconds(min(times_ms))
    shown = [fmt.milliseconds(one) for one in times_ms]
    return tuple((text, text == least) for text in shown)


def _cell(batch: int, ranges: _Ranges) -> LengthCell:
    for first, last, length in ranges:
        if first <= batch <= last:
            return LengthCell(str(length), is_off=length == 0, beyond=False)
    return LengthCell("", is_off=False, beyond=True)


def _setting(found: LengthSchedule) -> str:
    if not found.num_speculative_tokens:
        return ""
    ranges = json.dumps([list(one) for one in found.ranges], separators=(",", ":"))
    return (
        f'"num_speculative_tokens":{found.num_speculative_tokens},'
        f'"num_speculative_tokens_per_batch_size":{ranges}'
    )
