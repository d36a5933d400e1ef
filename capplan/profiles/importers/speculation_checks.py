"""Acceptance of a file: its counts completed, compared with what is printed, and its worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from capplan.profiles.importers.identities import likely_cause
from capplan.profiles.importers.reading import Reading, Stated, contradiction
from capplan.schema.observation import Flag, Observation, SpeculationCounts, Use

_PRINTED = 0.01
_PERCENT = 100.0
_BEYOND = 0.02
_FEW_ROUNDS = 200
"""Even independent rounds leave 7 points of acceptance (two standard errors)."""
_ACCEPTANCE: tuple[Use, ...] = ("acceptance",)


def completed_counts(reading: Reading) -> tuple[Observation, tuple[Flag, ...]]:
    """Return the observation with counts that follow from what is printed."""
    o, s = reading.observation, reading.stated
    if o.speculation is not None:
        rounds = _all_rounds(o, o.speculation)
        if rounds is None:
            return o, ()
        counts = o.speculation.model_copy(update={"rounds": rounds})
        return o.model_copy(update={"speculation": counts}), (_without_draft(counts),)
    tau = s.tokens_per_draft_round
    if tau is None:
        return o, ()
    n = _drafted_tokens(s, tau)
    decoded = o.output_tokens - (o.completed or 0.0) if o.output_tokens is not None else None
    if n is None or decoded is None or decoded <= 0 or tau < 1:
        return o, (_no_counts(tau, n),)
    if tau > n + 1 + _PRINTED:
        text = f"a round yields {tau:.3g} tokens of at most {n + 1}"
        return o, (contradiction("round_over_limit", text),)
    rounds = decoded / tau
    counts = SpeculationCounts(
        num_speculative_tokens=n,
        drafts=rounds,
        drafted=rounds * n,
        accepted=min(rounds * (tau - 1), rounds * n),
    )
    return o.model_copy(update={"speculation": counts}), (_from_mean(tau, n),)


def _drafted_tokens(s: Stated, tau: float) -> int | None:
    """Return N: stated, or what makes the printed rate and the printed length one."""
    if s.num_speculative_tokens is not None:
        return s.num_speculative_tokens
    rate = _fraction(s.acceptance_rate, None)
    if not rate:
        return None
    n = (tau - 1) / rate
    nearest = round(n)
    return nearest if nearest >= 1 and abs(n / nearest - 1) <= 2 * _PRINTED else None


def _all_rounds(o: Observation, counts: SpeculationCounts) -> float | None:
    """Return all rounds where tokens show that many had no draft; each emits one of its own."""
    if counts.rounds is not None or o.output_tokens is None or o.completed is None:
        return None
    rounds = o.output_tokens - o.completed - counts.accepted
    return rounds if rounds > (1 + 2 * _BEYOND) * counts.drafts else None


def _without_draft(counts: SpeculationCounts) -> Flag:
    share = counts.drafts / (counts.rounds or 1.0)
    return Flag(
        check="rounds_without_draft",
        text=f"output tokens show {counts.rounds:,.0f} rounds, {share:.0%} of them with a draft; "
        "acceptance holds for all rounds together",
        remedy="If every round should draft (not n-gram or suffix), the counters miss some: "
        "save /metrics before and after.",
    )


def _no_counts(tau: float, n: int | None) -> Flag:
    what = "N is not in the file" if n is None else "the number of rounds is not in the file"
    return Flag(
        check="counts_unknown",
        text=f"a round yields {tau:.3g} tokens, but {what}",
        remedy="State it with --num-speculative-tokens, or give /metrics before and after.",
        unusable_for=_ACCEPTANCE,
    )


def _from_mean(tau: float, n: int) -> Flag:
    return Flag(
        check="counts_from_mean",
        text=f"rounds follow from output tokens and the printed {tau:.3g} tokens a round (N={n})",
    )


def speculation_flags(reading: Reading) -> Iterator[Flag]:
    """Yield what the counts contradict, and why acceptance may not be of your traffic."""
    o, s = reading.observation, reading.stated
    counts = o.speculation
    if counts is None:
        return
    if o.format != "prometheus":  # its counters were checked where they were read
        yield from _printed(s, counts)
        yield from _positions(counts)
        yield from _limits(o, counts)
        if counts.drafts < _FEW_ROUNDS:
            yield _few(counts)
    yield from _text(s)
    if o.load.temperature is None:
        yield _TEMPERATURE
    if not counts.by_request:
        yield _NO_CLUSTERS


def _fraction(stated: float | None, counted: float | None) -> float | None:
    """Return a rate as a fraction; what is above 1, or 100 times the counts, is a percentage."""
    if stated is None:
        return None
    if counted is not None:
        return min(stated, stated / _PERCENT, key=lambda rate: abs(rate - counted))
    return stated / _PERCENT if stated > 1 else stated


def _printed(s: Stated, counts: SpeculationCounts) -> Iterator[Flag]:
    rate, length = counts.acceptance_rate, counts.tokens_per_draft_round
    pairs = (
        ("acceptance_rate", "acceptance rate", _fraction(s.acceptance_rate, rate), rate),
        ("acceptance_length", "tokens a round", s.tokens_per_draft_round, length),
        ("position_sum", "sum over positions", sum(s.position_rates) or None, _per_draft(counts)),
    )
    for check, name, stated, counted in pairs:
        if stated is None or counted is None:
            continue
        if abs(stated - counted) > _PRINTED * max(counted, 0.1) + s.rounding:
            cause = likely_cause(stated, counted)
            text = f"{name} is printed as {stated:.4g}, the counts give {counted:.4g}{cause}"
            yield contradiction(check, text)


def _per_draft(counts: SpeculationCounts) -> float | None:
    return counts.accepted / counts.drafts if counts.drafts else None


def _positions(counts: SpeculationCounts) -> Iterator[Flag]:
    rates = counts.cumulative_rates if counts.drafts else ()
    if any(later > earlier * (1 + _PRINTED) for earlier, later in pairwise(rates)):
        yield contradiction("positions_rise", "a later position was accepted more than an earlier")
    if rates and rates[0] > 1 + _PRINTED:
        text = f"position 1 was accepted in {rates[0]:.3g} of its drafts"
        yield contradiction("position_over_one", text)
    n = counts.num_speculative_tokens
    if n is not None and counts.drafted > n * counts.drafts * (1 + _PRINTED):
        text = (
            f"{counts.drafted:,.0f} tokens drafted in {counts.drafts:,.0f} rounds of at most {n}"
        )
        yield contradiction("drafted_over_limit", text)


def _limits(o: Observation, counts: SpeculationCounts) -> Iterator[Flag]:
    """Compare rounds and accepted tokens with what came out."""
    if o.output_tokens is None or counts.by_request:
        return  # requests were compared one by one
    excess = counts.drafts + counts.accepted - o.output_tokens
    n = counts.num_speculative_tokens or round(counts.drafted / counts.drafts) or 1
    room = (o.completed or 0.0) * n + _BEYOND * o.output_tokens
    if excess > room:
        cause = likely_cause(excess + o.output_tokens, o.output_tokens)
        yield Flag(
            check="counters_beyond_the_run",
            text=f"rounds and accepted tokens make {excess:,.0f} tokens more than the run's "
            f"output ({o.output_tokens:,.0f}){cause}: "
            "warm-up or other traffic is counted in",
            remedy="Send nothing else while the benchmark runs.",
            unusable_for=_ACCEPTANCE,
        )
    elif excess > 0:
        yield Flag(
            check="cut_at_the_end",
            text=f"rounds yielded {excess:,.0f} tokens more than were kept: the last round of a "
            "request is cut, and short answers flatter acceptance",
        )


def _few(counts: SpeculationCounts) -> Flag:
    return Flag(
        check="few_rounds",
        text=f"only {counts.drafts:,.0f} rounds had a draft",
        remedy=f"Run until there are {_FEW_ROUNDS} or more.",
        unusable_for=_ACCEPTANCE,
    )


def _text(s: Stated) -> Iterator[Flag]:
    if s.prompt_text == "random tokens":
        yield Flag(
            check="random_prompts",
            text="prompts are random tokens, or all of one length as random ones are: how well "
            "drafts are accepted on them says nothing about text",
            remedy="Benchmark with prompts of your own (for timing alone random ones will do).",
            unusable_for=_ACCEPTANCE,
        )
    elif s.prompt_text == "synthetic text":
        yield Flag(
            check="synthetic_prompts",
            text="prompts are cut from a filler text to a length; acceptance on them is not that "
            "of your traffic",
            remedy="Benchmark with prompts of your own.",
            unusable_for=_ACCEPTANCE,
        )


_TEMPERATURE = Flag(
    check="temperature_unknown",
    text="the file does not say at which temperature acceptance was seen",
    remedy="State it with --temperature; without it plans widen the interval.",
)
_NO_CLUSTERS = Flag(
    check="no_request_counts",
    text="acceptance is a total: tokens of one round and one request depend on each other, so an "
    "interval from the totals alone would be too narrow",
    remedy="--per-request-spec-decode-metrics of vLLM gives counts of each request.",
)


def with_known_length(reading: Reading, n: int | None) -> Reading:
    """Return the reading with N as the user states it."""
    if n is None:
        return reading
    counts, s = reading.observation.speculation, replace(reading.stated, num_speculative_tokens=n)
    if counts is None or counts.num_speculative_tokens is not None:
        return Reading(reading.observation, s)
    told = counts.model_copy(update={"num_speculative_tokens": n})
    return Reading(reading.observation.model_copy(update={"speculation": told}), s)
