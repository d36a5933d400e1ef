"""Speculation as vLLM's first engine (V0, up to 0.8) counts it: emitted tokens, and no rounds.

Its ``num_accepted_tokens`` counts every position that would pass by itself, those behind a
rejected one too, so a round keeps fewer tokens than it says (``spec_decode_base_sampler.py``).
Rounds follow from N, and N from ``spec_decode_efficiency``: emitted tokens over those of rounds
that keep all. The counters grow by the engine's totals each time they are logged, so their ratios
hold and they are not comparable with any other figure.
"""

from __future__ import annotations

from capplan.profiles.engine_counters import EngineWindow
from capplan.schema.observation import Flag, SpeculationCounts

_OFF_A_WHOLE = 0.2
"""By how much N may miss a whole number: the share is of all time, counters may be of a window."""
_OFF_A_ROUND = 0.02
_LONGEST = 64


def counts_of_first_engine(
    window: EngineWindow,
) -> tuple[SpeculationCounts | None, tuple[Flag, ...]]:
    """Return the speculation of an engine that counts emitted tokens, and what to mind.

    Parameters
    ----------
    window
        Totals with the counter ``emitted``.
    """
    drafted, emitted = window.counters.get("drafted"), window.counters["emitted"]
    if not drafted:
        return None, ()
    length = _length(window, drafted, emitted)
    return (None, (_rounds_unknown(),)) if length is None else of_rounds(drafted, emitted, length)


def of_rounds(
    drafted: float, emitted: float, length: int
) -> tuple[SpeculationCounts | None, tuple[Flag, ...]]:
    """Return what its totals say where N is known.

    Parameters
    ----------
    drafted, emitted
        Totals of one run.
    length
        N.
    """
    rounds = drafted / length
    accepted = emitted - rounds
    if not 0 <= accepted <= drafted:
        return None, (_impossible(emitted, rounds, length),)
    counts = SpeculationCounts(
        num_speculative_tokens=length, drafts=rounds, drafted=drafted, accepted=accepted
    )
    return counts, (_derived(emitted, rounds, length),)


def _length(window: EngineWindow, drafted: float, emitted: float) -> int | None:
    """Return N: emitted / drafted = efficiency (N+1) / N, else from rounds that make it whole."""
    efficiency, accepted = window.gauges.get("efficiency"), window.counters.get("accepted")
    if efficiency and emitted:
        share = efficiency * drafted / emitted
        return _whole(share / (1 - share), _OFF_A_WHOLE) if share < 1 else None
    if accepted is None or emitted <= accepted or "acceptance_rate" in window.gauges:
        return None
    return _whole(drafted / (emitted - accepted), _OFF_A_ROUND)


def _whole(length: float, off: float) -> int | None:
    nearest = round(length) if length < _LONGEST else 0
    return nearest if nearest >= 1 and abs(length - nearest) <= off else None


def _derived(emitted: float, rounds: float, length: int) -> Flag:
    return Flag(
        check="accepted_derived",
        text=f"Accepted tokens are {emitted:g} emitted less {rounds:g} rounds of N = {length}: "
        "the engine's own count is higher, it holds positions behind a rejected one too.",
    )


def _rounds_unknown() -> Flag:
    return Flag(
        check="rounds_unknown",
        text="This engine counts positions behind a rejected one as accepted too, and no rounds; "
        "N cannot be told from its figures.",
        remedy="Keep vllm:spec_decode_efficiency and all counters in the text, or use vLLM 0.9 "
        "or newer.",
        unusable_for=("acceptance",),
    )


def _impossible(emitted: float, rounds: float, length: int) -> Flag:
    return Flag(
        check="counters_contradict",
        text=f"The counters contradict themselves: {emitted:g} emitted in {rounds:g} rounds of "
        f"N = {length}.",
        remedy="Take both scrapes from one server under one load.",
        unusable_for=("acceptance",),
    )
