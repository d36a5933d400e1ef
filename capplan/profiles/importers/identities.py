"""Figures of a file that must agree, whatever they are: counts, rates, latencies, concurrency."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from capplan.profiles.importers.reading import Reading
from capplan.schema.observation import Flag, Observation, Spread, Use

LATENCY_USES: tuple[Use, ...] = ("latency", "step_time")
ALL_USES: tuple[Use, ...] = ("capacity", "latency", "acceptance", "step_time")
_LONGER_DECODE, _SHORTER_DECODE = 1.2, 0.7
"""Bounds of (end to end - first token) / ((n-1) * TPOT) on means: requests with few tokens have a
long TPOT in every mean, so honest files lie at 0.85 to 1.05."""
_MEDIANS_OFF = 0.2
_ASKED_OFF = 0.6
"""Chat templates and prefixes add to what was asked for, tokenizers differ."""
_LITTLE_OFF = 0.15
_CLIENT_OVERHEAD = 1.1
_WINDOW_OFF, _WINDOW_REQUESTS, _WINDOW_LATENCIES = 0.3, 30, 10
"""Requests cross the edges of a window of counters: it must hold many and be long beside one."""
_UNIT = 0.15


@dataclass(frozen=True)
class Identity:
    """Two ways to the same figure."""

    check: str
    left: str
    left_value: float
    right: str
    right_value: float
    tolerance: float
    uses: tuple[Use, ...]

    @property
    def holds(self) -> bool:
        """Whether the two agree."""
        largest = max(abs(self.left_value), abs(self.right_value))
        return abs(self.left_value - self.right_value) <= self.tolerance * largest

    def flag(self) -> Flag:
        """Say what differs, and what mistake would look like that."""
        return Flag(
            check=self.check,
            text=f"{self.left} is {self.left_value:.5g}, {self.right} is {self.right_value:.5g}"
            f"{likely_cause(self.left_value, self.right_value)}",
            remedy="Look up the two fields in the file; nothing of it is corrected.",
            unusable_for=self.uses,
        )


def likely_cause(left: float, right: float) -> str:
    """Return what a ratio looks like; empty where it looks like nothing."""
    if not left or not right:
        return ""
    ratio = max(left, right) / min(left, right)
    if not math.isfinite(ratio):
        return ""
    for factor, what in ((1e3, "1,000"), (1e6, "1,000,000"), (1e9, "1,000,000,000")):
        if abs(ratio / factor - 1) <= _UNIT:
            return f": a factor of {what}, as between units (seconds for ms)"
    if abs(ratio / 100 - 1) <= _UNIT:
        return ": a factor of 100, as between a percentage and a fraction"
    nearest = round(ratio)
    if 2 <= nearest <= _MOST_RUNS and abs(ratio / nearest - 1) <= _WHOLE:
        return f": a factor of {nearest}, as of merged runs, or engines counted together"
    return ""


_MOST_RUNS = 16
_WHOLE = 0.02


def identities(reading: Reading) -> Iterator[Identity]:
    """Yield every identity whose figures are there."""
    yield from _counts(reading)
    yield from _latencies(reading)
    yield from _concurrency(reading)


def _counts(reading: Reading) -> Iterator[Identity]:
    o, s = reading.observation, reading.stated
    both = _sum(o.prompt_tokens, o.output_tokens)
    rows = (
        ("output_rate", "output tokens", o.output_tokens, o.output_tokens_per_s, o.duration_s),
        ("request_rate", "completed requests", o.completed, s.requests_per_s, o.duration_s),
        ("prompt_rate", "prompt tokens", o.prompt_tokens, s.prompt_tokens_per_s, o.duration_s),
        ("total_rate", "all tokens", both or s.total_tokens, s.total_tokens_per_s, o.duration_s),
        ("mean_prompt", "prompt tokens", o.prompt_tokens, s.mean_prompt_tokens, o.completed),
        ("mean_output", "output tokens", o.output_tokens, s.mean_output_tokens, o.completed),
        ("output_by_request", "output tokens/s", o.output_tokens_per_s, s.requests_per_s,
         s.mean_output_tokens if o.output_tokens is None else None),
        ("total_by_request", "all tokens/s", s.total_tokens_per_s, o.output_tokens_per_s,
         _all_over_output(reading) if both is None else None),
    )  # fmt: skip
    for check, name, counted, rate, times in rows:
        if counted is None or rate is None or times is None:
            continue
        off = s.tolerance + _rounding(s.rounding, rate) + _rounding(s.rounding, times)
        yield Identity(check, name, counted, f"{_RATES[check]}", rate * times, off, ("capacity",))
    if s.asked_prompt_tokens and s.mean_prompt_tokens is not None:
        yield Identity(
            "asked_prompt", "mean prompt tokens", s.mean_prompt_tokens, "prompt tokens asked for",
            s.asked_prompt_tokens, _ASKED_OFF, ("capacity", "latency"),
        )  # fmt: skip
    if s.output_tokens_per_s_per_gpu and o.output_tokens_per_s and o.gpu_count is not None:
        yield Identity(
            "rate_per_gpu", "GPUs", float(o.gpu_count), "output rate over that a GPU",
            o.output_tokens_per_s / s.output_tokens_per_s_per_gpu, s.tolerance, ("capacity",),
        )  # fmt: skip
    if s.total_tokens is not None and both is not None:
        yield Identity(
            "total_tokens", "all tokens", s.total_tokens, "prompt and output tokens", both,
            s.tolerance, ("capacity",),
        )  # fmt: skip


_RATES = {
    "output_rate": "their rate times the duration",
    "request_rate": "their rate times the duration",
    "prompt_rate": "their rate times the duration",
    "total_rate": "their rate times the duration",
    "mean_prompt": "their mean times the requests",
    "mean_output": "their mean times the requests",
    "output_by_request": "requests a second times tokens a request",
    "total_by_request": "output tokens/s times all tokens over output tokens",
}


def _sum(one: float | None, other: float | None) -> float | None:
    return one + other if one is not None and other is not None else None


def _rounding(half: float, value: float) -> float:
    return half / value if value else 0.0


def _all_over_output(reading: Reading) -> float | None:
    prompt, output = reading.stated.mean_prompt_tokens, reading.stated.mean_output_tokens
    return (prompt + output) / output if prompt is not None and output else None


def tokens_a_request(reading: Reading) -> float | None:
    """Return mean output tokens of a request."""
    o, s = reading.observation, reading.stated
    if s.mean_output_tokens is not None:
        return s.mean_output_tokens
    return o.output_tokens / o.completed if o.output_tokens and o.completed else None


def end_to_end_s(reading: Reading) -> float | None:
    """Return the mean time of a request: as printed, else from first token and TPOT."""
    o, n = reading.observation, tokens_a_request(reading)
    if o.e2e_s is not None and o.e2e_s.typical is not None:
        return o.e2e_s.typical
    parts = _statistic(o, "mean") or _statistic(o, "p50")
    if parts is None or n is None:
        return None
    ttft, tpot = parts
    return ttft + max(n - 1, 0.0) * tpot


def _statistic(o: Observation, name: str) -> tuple[float, float] | None:
    ttft, tpot = _part(o.ttft_s, name), _part(o.tpot_s, name)
    return (ttft, tpot) if ttft is not None and tpot is not None else None


def _part(spread: Spread | None, name: str) -> float | None:
    value: float | None = getattr(spread, name) if spread is not None else None
    return value


def _latencies(reading: Reading) -> Iterator[Identity]:
    o, s = reading.observation, reading.stated
    n = tokens_a_request(reading)
    if n is None or n <= 1 or _is_short_window(o):
        return
    means, e2e = _statistic(o, "mean"), _part(o.e2e_s, "mean")
    if means is not None and e2e is not None:
        yield from _decode(means, e2e, n)
    else:
        medians, e2e = _statistic(o, "p50"), _part(o.e2e_s, "p50")
        if medians is not None and e2e is not None:
            yield Identity(
                "end_to_end", "end to end (s)", e2e, "first token + (n-1) * TPOT",
                medians[0] + (n - 1) * medians[1], _MEDIANS_OFF, LATENCY_USES,
            )  # fmt: skip
    if s.tpot_with_first_s is not None and e2e is not None:
        yield Identity(
            "tpot_with_first", "end to end (s)", e2e, "n times the time a token, first included",
            n * s.tpot_with_first_s, 0.1, LATENCY_USES,
        )  # fmt: skip


def _decode(parts: tuple[float, float], e2e: float, n: float) -> Iterator[Identity]:
    """Compare the time after the first token; it is exact where all lengths are one."""
    ttft, tpot = parts
    decode, expected = e2e - ttft, (n - 1) * tpot
    low, high = _SHORTER_DECODE * expected, _LONGER_DECODE * expected
    whole = abs(e2e - ttft - expected) <= 0.02 * e2e
    off = 1.0 if whole or low <= decode <= high else 0.0
    yield Identity(
        "end_to_end", "end to end - first token (s)", decode, "(n-1) * TPOT", expected, off,
        LATENCY_USES,
    )  # fmt: skip


def _concurrency(reading: Reading) -> Iterator[Identity]:
    """Little's law: requests in flight are arrivals a second times the time of one."""
    little, load = in_flight(reading), reading.observation.load
    if reading.observation.format == "prometheus":
        yield from _decoding(reading)
        return
    if little is None:
        return
    if load.mean_concurrency is not None:
        yield Identity(
            "littles_law", "requests in flight", load.mean_concurrency,
            "requests a second times end to end", little, _LITTLE_OFF, ("capacity", *LATENCY_USES),
        )  # fmt: skip
    o = reading.observation
    sent = _sum(o.completed, o.failed or 0.0)
    limits = [float(load.max_concurrency)] if load.max_concurrency is not None else []
    limits += [sent] if sent else []
    if limits and little > _CLIENT_OVERHEAD * min(limits) + 1:
        yield Identity(
            "littles_law", "requests a second times end to end", little,
            "the most that were in flight", min(limits), 0.0, ("capacity", *LATENCY_USES),
        )  # fmt: skip


def _decoding(reading: Reading) -> Iterator[Identity]:
    """Little's law of a window of counters, which add up the time after the first token alone."""
    o = reading.observation
    e2e, ttft = _part(o.e2e_s, "mean"), _part(o.ttft_s, "mean")
    if e2e is None or ttft is None or o.load.mean_concurrency is None or not o.duration_s:
        return
    if _is_short_window(o) or o.completed is None:
        return
    little = o.completed / o.duration_s * (e2e - ttft)
    yield Identity(
        "littles_law", "requests that decode", o.load.mean_concurrency,
        "requests a second times end to end - first token", little, _WINDOW_OFF,
        ("capacity", *LATENCY_USES),
    )  # fmt: skip


def _is_short_window(o: Observation) -> bool:
    """Whether counters are mostly of requests that cross the edges of their window."""
    if o.format != "prometheus" or o.completed is None:
        return False
    e2e = _part(o.e2e_s, "mean") or 0.0
    is_short = o.duration_s is not None and o.duration_s < _WINDOW_LATENCIES * e2e
    return is_short or o.completed < _WINDOW_REQUESTS


def in_flight(reading: Reading) -> float | None:
    """Return the mean requests in flight by Little's law."""
    o, e2e = reading.observation, end_to_end_s(reading)
    rate = o.completed / o.duration_s if o.completed is not None and o.duration_s else None
    if rate is None:
        rate = reading.stated.requests_per_s or o.load.achieved_rate_per_s
    n = tokens_a_request(reading)
    if rate is None and o.output_tokens_per_s is not None and n:
        rate = o.output_tokens_per_s / n
    return rate * e2e if rate is not None and e2e is not None else None
