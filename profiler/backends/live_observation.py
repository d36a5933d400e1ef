"""One level of load as an observation: the client's latencies, the server's counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from capplan.profiles.metrics_import import RunTotals
from capplan.schema.measured_setup import Device, Draft
from capplan.schema.observation import Flag, Load, Observation, Spread
from profiler.backends.live_facts import ServerFacts
from profiler.backends.live_http import Served
from profiler.backends.live_load import Level, LevelKey, LoadOutcome

FORMAT = "capplan-load"
SERVER_LOST = "server_lost"
"""Flag of a level that ended early because nothing but failures came back."""
_LATE_SHARE = 0.05
_ARRIVAL_SHARE = 0.9
"""Served as fast as it came: the load was the limit, not the server."""
_TURNS = 4
"""Requests a place, below which ramp-up and drain outweigh steady load."""
_NEEDED = {"p90": 10, "p95": 20, "p99": 100}
"""Values that a percentile needs to have one beyond it."""
_SUPERSEDED = frozenset({"requests_across_edges", "failed_requests"})
"""Flags of the counters that the client knows better."""


@dataclass(frozen=True)
class Driven:
    """How a level was driven."""

    level: Level
    temperature: float
    thinking: bool | None
    dataset: str


def run_totals(outcome: LoadOutcome) -> RunTotals:
    """Return what the client counted, to find other traffic in the server's counters."""
    good = _good(outcome)
    tokens = [one.output_tokens for one in good]
    known = [count for count in tokens if count is not None]
    complete = len(good) == len(outcome.served) and len(known) == len(good)
    return RunTotals(
        output_tokens=float(sum(known)) if complete else None,
        completed=float(len(good)) if complete else None,
    )


def level_observation(
    outcome: LoadOutcome, driven: Driven, counted: Observation | None, source: str
) -> Observation:
    """Return the observation of one level.

    Parameters
    ----------
    outcome
        What the client saw.
    driven
        How it drove the server.
    counted
        What the server counted in the same window; None where it shows no metrics.
    source
        The server's address.
    """
    good, duration_s = _good(outcome), max(outcome.duration_s, 1e-9)
    output = _total([one.output_tokens for one in good])
    prompt = _total([one.prompt_tokens for one in good])
    seen = counted or Observation(source=source, format=FORMAT)
    gaps = [gap for one in good for gap in one.step_gaps_s]
    kept = tuple(flag for flag in seen.flags if flag.check not in _SUPERSEDED)
    return seen.model_copy(
        update={
            "source": source,
            "format": FORMAT,
            "duration_s": duration_s,
            "load": _load(outcome, driven, seen, duration_s),
            "completed": float(len(good)),
            "failed": float(len(outcome.served) - len(good)),
            "prompt_tokens": prompt,
            "output_tokens": output,
            "output_tokens_per_s": None if output is None else output / duration_s,
            "ttft_s": spread([one.ttft_s for one in good]),
            "tpot_s": spread([one.tpot_s for one in good]),
            "step_s": seen.step_s or spread(gaps),
            "e2e_s": spread([one.ended_s - one.sent_s for one in good]),
            "flags": (*kept, *_flags(outcome, driven)),
        }
    )


def level_key(seen: Observation) -> LevelKey:
    """Return which level an observation is of; rates as they were asked for."""
    return (
        seen.load.temperature or 0.0,
        seen.load.requested_rate_per_s,
        seen.load.max_concurrency,
    )


def described(
    seen: Observation, facts: ServerFacts, draft: Draft | None, device: Device
) -> Observation:
    """Return an observation with what the server and the request tell beside the counters."""
    is_gpu = device.kind == "cuda"
    return seen.model_copy(
        update={
            "model": seen.model or facts.model,
            "engine_version": facts.version,
            "method": draft.method if draft is not None else None,
            "gpu": device.name if is_gpu else "",
            "gpu_count": device.count if is_gpu else None,
        }
    )


def spread(values: Sequence[float | None]) -> Spread | None:
    """Return mean and percentiles; a percentile only where there are values beyond it."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    tails = {
        name: float(np.percentile(known, int(name[1:])))
        for name, needed in _NEEDED.items()
        if len(known) >= needed
    }
    return Spread(mean=float(np.mean(known)), p50=float(np.median(known)), **tails)


def _load(outcome: LoadOutcome, driven: Driven, seen: Observation, duration_s: float) -> Load:
    good = _good(outcome)
    in_service_s = sum(one.ended_s - one.sent_s for one in good)
    counted = seen.load.mean_concurrency
    hit_rate = seen.load.prefix_cache_hit_rate
    return Load(
        arrival="rate" if driven.level.rate_per_s is not None else "closed_loop",
        requested_rate_per_s=driven.level.rate_per_s,
        achieved_rate_per_s=len(good) / duration_s,
        max_concurrency=driven.level.concurrency,
        peak_concurrency=float(outcome.peak_in_flight),
        mean_concurrency=counted if counted is not None else in_service_s / duration_s,
        dataset=driven.dataset,
        temperature=driven.temperature,
        thinking=driven.thinking,
        prefix_cache_hit_rate=hit_rate if hit_rate is not None else _cached_share(good),
    )


def _flags(outcome: LoadOutcome, driven: Driven) -> Iterator[Flag]:
    good, sent = _good(outcome), len(outcome.served)
    if len(good) < sent:
        reasons = sorted({one.error for one in outcome.served if one.error})
        yield Flag(
            check="failed_requests",
            text=f"{sent - len(good)} of {sent} requests failed: {'; '.join(reasons[:3])}.",
            remedy="Look at the server's log.",
            unusable_for=("capacity", "latency") if len(good) < sent / 2 else (),
        )
    if outcome.gave_up:
        yield Flag(
            check=SERVER_LOST,
            text="The level was ended early: the latest requests all failed.",
            remedy="Check that the server is up, then go on with --resume.",
            unusable_for=("capacity",),
        )
    doubts = sorted({one.doubt for one in good if one.doubt})
    if doubts:
        yield Flag(
            check="usage_contradicts",
            text=f"The server's counts of tokens cannot be right: {'; '.join(doubts[:3])}. They "
            "are not taken.",
            remedy="Look at the server's log, and at what stands between.",
            unusable_for=("capacity", "latency"),
        )
    if any(one.output_tokens is None and not one.doubt for one in good):
        yield Flag(
            check="tokens_unknown",
            text="The server gives no usage: tokens are not counted, and chunks are no tokens.",
            remedy="Use a server that knows stream_options.include_usage.",
            unusable_for=("capacity", "latency"),
        )
    if outcome.late > _LATE_SHARE * sent:
        yield Flag(
            check="client_limited",
            text=f"{outcome.late} of {sent} requests were sent late: the client was the limit.",
            remedy="Lower --rate, or drive from a faster machine.",
            unusable_for=("capacity", "latency"),
        )
    yield from _load_flags(outcome, driven, len(good))


def _load_flags(outcome: LoadOutcome, driven: Driven, completed: int) -> Iterator[Flag]:
    rate, places = driven.level.rate_per_s, driven.level.concurrency
    achieved = completed / max(outcome.duration_s, 1e-9)
    if rate is not None and achieved >= _ARRIVAL_SHARE * rate:
        yield Flag(
            check="arrival_limited",
            text=f"{achieved:.3g} requests/s were served of {rate:.3g} sent: the load was the "
            "limit, not the server.",
            remedy="Raise --rate until the server falls behind.",
            unusable_for=("capacity",),
        )
    if places is not None and completed < _TURNS * places:
        yield Flag(
            check="short_run",
            text=f"{completed} requests for {places} places: ramp-up and drain weigh on the "
            "throughput.",
            remedy=f"Send at least {_TURNS * places} requests at this level (--max-requests).",
            unusable_for=("capacity",),
        )


def _good(outcome: LoadOutcome) -> list[Served]:
    return [one for one in outcome.served if not one.error]


def _total(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return float(sum(known)) if known and len(known) == len(counts) else None


def _cached_share(good: Sequence[Served]) -> float | None:
    pairs = [(one.cached_tokens, one.prompt_tokens) for one in good]
    known = [(cached, prompt) for cached, prompt in pairs if cached is not None and prompt]
    prompts = sum(prompt for _, prompt in known)
    return min(sum(cached for cached, _ in known) / prompts, 1.0) if prompts else None
