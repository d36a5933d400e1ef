"""Observations of a served load as rows for people, their flags below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
_MOST_TEXTS = 3
"""Of one kind of flag, each with figures of its own."""
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
    """Yield the flags under the numbers of their rows, with their remedies.

    Equal ones are told once; of one kind with a figure of its own in many rows, the first is told.
    """
    rows_of: dict[tuple[str, str, tuple[Use, ...]], dict[str, list[int]]] = {}
    for number, one in enumerate(observations, start=1):
        for flag in one.flags:
            texts = rows_of.setdefault((flag.check, flag.remedy, flag.unusable_for), {})
            texts.setdefault(flag.text, []).append(number)
    for (check, remedy, uses), texts in rows_of.items():
        against = f" Not for {', '.join(use.replace('_', ' ') for use in uses)}." if uses else ""
        for numbers, text in _told(texts):
            yield f"{_rows(numbers)} {check}: {_sentence(text)}{against}"
        if remedy:
            yield f"    {_sentence(remedy)}"


def _told(texts: Mapping[str, Sequence[int]]) -> list[tuple[list[int], str]]:
    """Return rows and what is said of them."""
    if len(texts) <= _MOST_TEXTS:
        return [(list(numbers), text) for text, numbers in texts.items()]
    everywhere = sorted({number for numbers in texts.values() for number in numbers})
    text, numbers = next(iter(texts.items()))
    return [(everywhere, f"for example #{numbers[0]}: {text}")]


def _rows(numbers: Sequence[int]) -> str:
    """Return rows as ``#1, #4-#7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [
        f"#{run[0]}-#{run[-1]}" if len(run) > 2 else ", ".join(f"#{one}" for one in run)
        for run in runs
    ]
    return ", ".join(shown)


def _sentence(text: str) -> str:
    first = text[:1].upper() + text[1:]
    return first if first.endswith((".", "!", "?", ")")) else f"{first}."
