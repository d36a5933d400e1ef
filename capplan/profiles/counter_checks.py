"""Identities that an engine's counters must keep, and what follows where they do not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from capplan.profiles.engine_counters import EngineWindow
from capplan.profiles.first_engine import counts_of_first_engine
from capplan.schema.observation import Flag, SpeculationCounts, Use

ALL_USES: tuple[Use, ...] = ("capacity", "latency", "acceptance", "step_time")

_COUNTING_ERROR = 0.01
"""Requests at the window's edges and cut last steps move honest counters by less."""
_FEW_ROUNDS = 200
"""Even independent rounds leave +-7 points of acceptance here (two standard errors)."""
_AGAIN = "Take both scrapes from one server under one load."


def speculation_of(window: EngineWindow) -> tuple[SpeculationCounts | None, tuple[Flag, ...]]:
    """Return the speculation of a window, and what is wrong with its counters.

    None with a flag where the counters contradict themselves or no draft was made, None without
    one where the engine does not count speculation.
    """
    if "emitted" in window.counters:
        counts, derived = counts_of_first_engine(window)
        return counts, (*derived, *(() if counts or derived else _no_drafts(window)))
    drafted, accepted, derived = _drafted_and_accepted(window)
    if drafted is None or accepted is None:
        return None, _told_by_gauges(window)
    drafts, derived_drafts = _drafts(window, accepted)
    flags = derived + derived_drafts
    if not drafts or not drafted:
        return None, (*flags, *_no_drafts(window))
    if accepted > drafted:
        return None, (*flags, _contradiction(f"{accepted:g} accepted of {drafted:g} drafted"))
    positions = window.accepted_at
    counts = SpeculationCounts(
        num_speculative_tokens=_length(positions, drafts, drafted),
        drafts=drafts,
        drafted=drafted,
        accepted=accepted,
        accepted_per_position=positions,
        rounds=window.rounds,
    )
    found = (
        *(check(counts) for check in _CHECKS),
        _one_position(window),
        _emitted_agrees(window, counts),
    )
    return counts, (*flags, *(flag for flag in found if flag is not None))


def _drafted_and_accepted(
    window: EngineWindow,
) -> tuple[float | None, float | None, tuple[Flag, ...]]:
    """Return (drafted, accepted), from verification calls where they are not counted."""
    drafted, accepted = window.counters.get("drafted"), window.counters.get("accepted")
    calls, depth = window.counters.get("rounds"), window.gauges.get("spec_steps")
    if drafted is not None or not calls or not depth or window.decoded_tokens is None:
        return drafted, accepted, ()
    derived = max(window.decoded_tokens - calls, 0.0)
    flag = Flag(
        check="accepted_derived",
        text=f"Accepted tokens are not counted: {window.decoded_tokens:g} decoded tokens less "
        f"{calls:g} verification calls; drafted is calls times {depth:g} steps.",
    )
    return calls * depth, derived, (flag,)


def _drafts(window: EngineWindow, accepted: float) -> tuple[float | None, tuple[Flag, ...]]:
    """Return rounds with a draft; derived, and said so, where the engine does not count them."""
    counted = window.counters.get("drafts")
    if counted is not None:
        return counted, ()
    calls = window.counters.get("rounds")
    if calls is not None:
        return calls, ()
    emitted = window.decoded_tokens
    if emitted is None or emitted <= accepted:
        return None, ()
    return emitted - accepted, (
        Flag(
            check="drafts_derived",
            text=f"Rounds are not counted: {emitted:g} emitted less {accepted:g} accepted tokens "
            "gives them if every round had a draft.",
        ),
    )


def _length(positions: tuple[float, ...], drafts: float, drafted: float) -> int | None:
    if positions:
        return len(positions)
    mean = drafted / drafts
    return round(mean) if mean >= 1 and abs(mean - round(mean)) < 1e-9 else None


def _told_by_gauges(window: EngineWindow) -> tuple[Flag, ...]:
    """Say what gauges tell of speculation: the latest interval, nothing that can be subtracted."""
    told = []
    if rate := window.gauges.get("acceptance_rate"):
        told.append(f"acceptance rate {rate:.3f}")
    if length := window.gauges.get("acceptance_length"):
        told.append(f"{length:.2f} tokens a round")
    if skipped := window.sums.get("skipped"):
        told.append(f"{skipped:g} accepted tokens, drafted ones not counted")
    if told:
        return (
            Flag(
                check="acceptance_not_counted",
                text=f"{window.software} gives {' and '.join(told)} without the counts behind it: "
                "a value of the latest interval, not of this window.",
                remedy="Use a version that counts drafted and accepted tokens.",
                unusable_for=("acceptance",),
            ),
        )
    emitted = window.emitted_per_round
    if emitted is not None and emitted > 1 + _COUNTING_ERROR * 5:
        text = f"{emitted:.2f} tokens came out of a step, yet no speculation is counted."
        return (Flag(check="uncounted_speculation", text=text, unusable_for=("acceptance",)),)
    return ()


def _no_drafts(window: EngineWindow) -> tuple[Flag, ...]:
    if window.output_tokens == 0:
        return ()
    return (
        Flag(
            check="no_drafts",
            text="Speculation is configured and not one draft was made.",
            remedy="Look at the schedule of draft lengths, and at what the lookup can find.",
        ),
    )


def _contradiction(what: str) -> Flag:
    return Flag(
        check="counters_contradict",
        text=f"The counters contradict themselves: {what}.",
        remedy=_AGAIN,
        unusable_for=("acceptance",),
    )


def _positions_add_up(counts: SpeculationCounts) -> Flag | None:
    positions = counts.accepted_per_position
    if positions and abs(sum(positions) - counts.accepted) > _COUNTING_ERROR * counts.accepted:
        return _contradiction(
            f"positions add up to {sum(positions):g}, accepted is {counts.accepted:g}"
        )
    if any(later > earlier for earlier, later in pairwise(positions)):
        return _contradiction("a later position was accepted more often than an earlier one")
    if positions and positions[0] > counts.drafts:
        return _contradiction(f"{positions[0]:g} first tokens of {counts.drafts:g} drafts")
    return None


def _drafted_fits_length(counts: SpeculationCounts) -> Flag | None:
    length = counts.num_speculative_tokens
    if length is None:
        return None
    full = length * counts.drafts
    if counts.drafted > full * (1 + _COUNTING_ERROR):
        return _contradiction(f"{counts.drafted:g} drafted exceed {length} a draft")
    if counts.drafted < full * (1 - _COUNTING_ERROR):
        return Flag(
            check="variable_drafts",
            text=f"Drafts are {counts.drafted / counts.drafts:.2f} tokens long on average, not "
            f"{length}: rates of later positions count shorter drafts as misses.",
        )
    return None


def _rounds_without_draft(counts: SpeculationCounts) -> Flag | None:
    rounds, mean = counts.tokens_per_round, counts.tokens_per_draft_round
    if counts.rounds is None or rounds is None or mean is None:
        return None
    share = counts.drafts / counts.rounds
    if share > 1 + _COUNTING_ERROR * 5:
        return Flag(
            check="more_drafts_than_rounds",
            text=f"{counts.drafts:g} drafts, but only {counts.rounds:g} decode steps: the window "
            "misses requests, or drafts were padded after a prefix-cache hit.",
            remedy=_AGAIN,
        )
    if share >= 1 - _COUNTING_ERROR:
        return None
    return Flag(
        check="rounds_without_draft",
        text=f"Only {share:.0%} of the rounds had a draft: over all rounds {rounds:.2f} tokens "
        f"come out of one, not the {mean:.2f} of the engine's own mean.",
    )


def _emitted_agrees(window: EngineWindow, counts: SpeculationCounts) -> Flag | None:
    emitted, accepted = window.emitted_per_round, counts.tokens_per_round
    if emitted is None or accepted is None:
        return None
    if abs(emitted - accepted) <= _COUNTING_ERROR * accepted:
        return None
    if emitted > accepted:
        return Flag(
            check="emitted_differs_from_accepted",
            text=f"{emitted:.3f} tokens came out of a round, and no more than {accepted:.3f} can: "
            "the counters of tokens and of rounds are of different requests.",
            remedy=_AGAIN,
        )
    return Flag(
        check="emitted_differs_from_accepted",
        text=f"{emitted:.3f} tokens really came out of a round, {accepted:.3f} were accepted "
        "(accepted tokens are counted before a text is cut at its end).",
        remedy="With short outputs trust the emitted ones.",
    )


def _one_position(window: EngineWindow) -> Flag | None:
    if window.software != "tensorrt-llm" or len(window.accepted_at) != 1:
        return None
    return Flag(
        check="one_position",
        text="Only the first position is counted, which is all of N = 1. With a longer N this "
        "server adds all positions up there, and the tokens of a round are not to be had from it.",
        remedy="Compare N in the server's configuration.",
    )


def _enough_rounds(counts: SpeculationCounts) -> Flag | None:
    if counts.drafts >= _FEW_ROUNDS:
        return None
    return Flag(
        check="few_rounds",
        text=f"Only {counts.drafts:g} rounds had a draft: acceptance is uncertain by more than "
        "7 points.",
        remedy="Observe longer.",
        unusable_for=("acceptance",),
    )


_Check = Callable[[SpeculationCounts], Flag | None]
_CHECKS: tuple[_Check, ...] = (
    _positions_add_up,
    _drafted_fits_length,
    _rounds_without_draft,
    _enough_rounds,
)
