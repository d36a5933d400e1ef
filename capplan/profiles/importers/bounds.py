"""What no latency of a finished run can be: longer than the run, or far from its own mean."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from capplan.profiles.importers.identities import (
    LATENCY_USES,
    likely_cause,
    tokens_a_request,
)
from capplan.profiles.importers.reading import Reading
from capplan.schema.observation import Flag, Spread, Use

_SLACK = 1.05
_QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
_FAR_BELOW = 300.0
"""A queue lifts the mean of a latency to twenty times its median; 300 times was not seen."""
_SHORTEST_TPOT_S = 1e-4
"""A tenth of what any machine of 2026 needs for a token of one request, speculation included."""
_PROMPT_TOKENS_PER_S = 1e6
"""Beyond what a rack of GPUs reads."""
_SHORT_REQUESTS = 3.0
"""A high percentile of TPOT may come from answers of a third of the mean length."""


def bound_flags(reading: Reading) -> Iterator[Flag]:
    """Yield what cannot be true of a latency by itself."""
    o, s = reading.observation, reading.stated
    for name, spread in (
        ("time to first token", o.ttft_s),
        ("time per output token", o.tpot_s),
        ("end to end", o.e2e_s),
        ("inter-token latency", s.gap_s or o.step_s),
    ):
        if spread is not None:
            yield from _order(name, spread)
            yield from _markov(name, spread)
            if name != "inter-token latency":  # most of its values may be of pieces in one packet
                yield from _far_below(name, spread)
    yield from _too_fast(o.tpot_s)
    yield from _prompt_rate(reading)
    if o.duration_s is not None:
        yield from _longer_than_the_run(reading, o.duration_s)


def _order(name: str, spread: Spread) -> Iterator[Flag]:
    known = [(key, getattr(spread, key)) for key in _QUANTILES if getattr(spread, key) is not None]
    for (low, below), (high, above) in pairwise(known):
        if below > above * _SLACK:
            yield _flag(f"{name}: {low} is {below:.4g} s, {high} is {above:.4g} s", below, above)
            return


def _markov(name: str, spread: Spread) -> Iterator[Flag]:
    """Hold quantiles to the mean: a share 1-q lies at q or above, so q is at most mean/(1-q)."""
    if spread.mean is None:
        return
    for key, quantile in _QUANTILES.items():
        value = getattr(spread, key)
        if value is not None and value * (1 - quantile) > spread.mean * _SLACK:
            text = (
                f"{name}: {key} is {value:.4g} s, more than its mean of {spread.mean:.4g} s allows"
            )
            yield _flag(text, value, spread.mean)
            return


def _far_below(name: str, spread: Spread) -> Iterator[Flag]:
    if spread.mean is not None and spread.p50 and spread.mean > _FAR_BELOW * spread.p50:
        text = f"{name}: the mean is {spread.mean:.4g} s, the median {spread.p50:.4g} s"
        yield _flag(text, spread.mean, spread.p50)


def _too_fast(tpot: Spread | None) -> Iterator[Flag]:
    typical = tpot.typical if tpot is not None else None
    if typical and typical < _SHORTEST_TPOT_S:
        text = f"time per output token: {typical:.3g} s, {1 / typical:,.0f} tokens a second each"
        yield _flag(f"{text}, as of another unit", 1.0, 1.0)


def _prompt_rate(reading: Reading) -> Iterator[Flag]:
    o = reading.observation
    if o.prompt_tokens is None or not o.duration_s:
        return
    rate = o.prompt_tokens / o.duration_s
    if rate > _PROMPT_TOKENS_PER_S:
        yield Flag(
            check="impossible_prompt_rate",
            text=f"{o.prompt_tokens:,.0f} prompt tokens in {o.duration_s:.4g} s are {rate:,.0f} a "
            "second",
            remedy="Look the field up in the file; nothing of it is corrected.",
            unusable_for=("capacity", "latency"),
        )


def _longer_than_the_run(reading: Reading, duration_s: float) -> Iterator[Flag]:
    o, n = reading.observation, tokens_a_request(reading)
    decode = (n - 1) / _SHORT_REQUESTS if n is not None and n > 1 else 1.0
    for name, spread, times in (
        ("time to first token", o.ttft_s, 1.0),
        ("end to end", o.e2e_s, 1.0),
        ("tokens of a request times their time", o.tpot_s, decode),
    ):
        values = () if spread is None else spread.model_dump().values()
        longest = max((value for value in values if value is not None), default=0.0) * times
        if longest > duration_s * _SLACK:
            text = f"{name}: {longest:.4g} s in a run of {duration_s:.4g} s"
            yield _flag(text, longest, duration_s, "capacity", *LATENCY_USES)


def _flag(text: str, one: float, other: float, *uses: Use) -> Flag:
    return Flag(
        check="impossible_latency",
        text=f"{text}{likely_cause(one, other)}",
        remedy="Look the field up in the file; nothing of it is corrected.",
        unusable_for=uses or LATENCY_USES,
    )
