"""Observations of a served load as rows for people, their flags below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capplan.schema.observation import Load, Observation, Spread, Use
from capplan.units import MS_PER_S

HEADERS = (
    "#",
    "file",
    "load",
    "requests",
    "out tok/s",
    "TTFT ms",
    "TPOT ms",
    "step ms",
    "tok/round",
    "accepted",
    "usable for",
)
_WHOLE_MS = 1000.0
_USES: tuple[Use, ...] = ("capacity", "latency", "acceptance", "step_time")


def observation_rows(observations: Sequence[Observation]) -> tuple[tuple[str, ...], ...]:
    """Return a row each; an empty cell is what the file does not say."""
    return tuple(_row(number, one) for number, one in enumerate(observations, start=1))


def _row(number: int, one: Observation) -> tuple[str, ...]:
    counts = one.speculation
    length = counts.tokens_per_round or counts.tokens_per_draft_round if counts else None
    rate = counts.acceptance_rate if counts is not None else None
    return (
        str(number),
        f"{one.source} [{one.part}]" if one.part else one.source,
        _load(one.load),
        _requests(one),
        "" if one.output_tokens_per_s is None else f"{one.output_tokens_per_s:,.1f}",
        _ms(one.ttft_s),
        _ms(one.tpot_s),
        _ms(one.step_s),
        "" if length is None else f"{length:.2f}",
        "" if rate is None else f"{rate:.1%}",
        ", ".join(use.replace("_", " ") for use in _USES if says(one, use)) or "nothing",
    )


def says(one: Observation, use: Use) -> bool:
    """Return whether an observation holds what a use needs, and no flag stands against it."""
    held = {
        "capacity": one.output_tokens_per_s is not None,
        "latency": one.ttft_s is not None or one.tpot_s is not None or one.e2e_s is not None,
        "acceptance": one.speculation is not None,
        "step_time": one.step_s is not None,
    }
    return held[use] and one.usable_for(use)


def _load(load: Load) -> str:
    if load.arrival == "rate" and load.requested_rate_per_s is not None:
        return f"{load.requested_rate_per_s:g}/s"
    if load.arrival == "closed_loop" and load.max_concurrency is not None:
        return f"{load.max_concurrency} at a time"
    if load.arrival == "all_at_once":
        return "all at once"
    return "" if load.mean_concurrency is None else f"{load.mean_concurrency:.3g} in flight"


def _requests(one: Observation) -> str:
    if one.completed is None:
        return ""
    failed = f" ({one.failed:g} failed)" if one.failed else ""
    return f"{one.completed:,.0f}{failed}"


def _ms(spread: Spread | None) -> str:
    value = spread.typical if spread is not None else None
    if value is None:
        return ""
    ms = value * MS_PER_S
    return f"{ms:,.0f}" if ms >= _WHOLE_MS else f"{ms:.4g}"


def flag_lines(observations: Sequence[Observation]) -> Iterator[str]:
    """Yield the flags under the numbers of their rows; equal ones once, with their remedies."""
    rows_of: dict[tuple[str, str, str, tuple[Use, ...]], list[int]] = {}
    for number, one in enumerate(observations, start=1):
        for flag in one.flags:
            key = (flag.check, flag.text, flag.remedy, flag.unusable_for)
            rows_of.setdefault(key, []).append(number)
    for (check, text, remedy, uses), numbers in rows_of.items():
        against = f" Not for {', '.join(use.replace('_', ' ') for use in uses)}." if uses else ""
        shown = ", ".join(f"#{number}" for number in numbers)
        yield f"{shown} {check}: {_sentence(text)}{against}"
        if remedy:
            yield f"    {_sentence(remedy)}"


def _sentence(text: str) -> str:
    first = text[:1].upper() + text[1:]
    return first if first.endswith((".", "!", "?", ")")) else f"{first}."
