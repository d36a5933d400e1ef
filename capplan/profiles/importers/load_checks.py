"""How the server was driven, and what that leaves a run good for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from capplan.profiles.importers.identities import end_to_end_s, in_flight
from capplan.profiles.importers.reading import Reading
from capplan.schema.observation import Flag, Use

_AS_ASKED = 0.85
"""Share of the expected rate from which the server kept up with the arrivals."""
_AT_LIMIT = 0.9
_FULL_LOOP = 0.85
_FEW_REQUESTS = 10
_P99_REQUESTS = 100
_TURNS = 3.0
_FAILED_SHARE = 0.01
_WAITING_SHARE = 0.5
_CAPACITY: tuple[Use, ...] = ("capacity",)
_BOTH: tuple[Use, ...] = ("capacity", "latency")
_RATE_NOISE = 4.0


_BURST_SHARE = 0.05
_AT_ONCE = Flag(
    check="all_at_once",
    text="all requests were sent at the start: the time to the first token is the place in the "
    "queue, and the number in flight falls to the end",
    remedy="For latency use a rate or a concurrency.",
    unusable_for=("latency", "step_time"),
)


def load_flags(reading: Reading) -> Iterator[Flag]:
    """Yield every reason not to take a run's figures for what the server can do."""
    for check in _CHECKS:
        yield from check(reading)


def _arrivals(reading: Reading) -> Iterator[Flag]:
    load, o = reading.observation.load, reading.observation
    asked, achieved = load.requested_rate_per_s, load.achieved_rate_per_s
    if load.arrival != "rate" or asked is None or achieved is None:
        return
    yield from _faster_than_asked(asked, achieved, o.completed)
    if _arrive_together(reading, asked):
        yield _AT_ONCE
        return
    if _at_limit(reading):
        return
    if achieved >= _AS_ASKED * _expected_rate(reading, asked):
        in_it = load.peak_concurrency or in_flight(reading)
        most = f", at most {in_it:,.3g} in flight" if in_it is not None else ""
        limit = f" of {load.max_concurrency} allowed" if load.max_concurrency and most else ""
        yield Flag(
            check="arrival_limited",
            text=f"{achieved:.3g} of {asked:.3g} requests a second asked for were served{most}"
            f"{limit}: throughput is that of the arrivals, not what the server can do",
            remedy="Raise the rate until it is no longer kept, or use a concurrency.",
            unusable_for=_CAPACITY,
        )
    elif load.max_concurrency is None and (in_flight(reading) or 2.0) > 1.0:
        yield Flag(
            check="overloaded",
            text=f"{achieved:.3g} of {asked:.3g} requests a second asked for: the queue grows "
            "while the run lasts, and latency with it",
            remedy="For latency ask for fewer requests a second.",
            unusable_for=("latency",),
        )


def _arrive_together(reading: Reading, asked: float) -> bool:
    """Whether the last request was sent when the run had hardly begun."""
    o = reading.observation
    if o.completed is None or o.duration_s is None:
        return False
    return o.completed / asked < _BURST_SHARE * o.duration_s


def _faster_than_asked(asked: float, achieved: float, count: float | None) -> Iterator[Flag]:
    noise = _RATE_NOISE / max(count or 1.0, 1.0) ** 0.5
    if achieved > asked * (1.05 + noise):
        yield Flag(
            check="faster_than_asked",
            text=f"{achieved:.4g} requests a second were served, {asked:.4g} arrived",
            remedy="One of the two is of another run.",
            unusable_for=_BOTH,
        )


def _expected_rate(reading: Reading, asked: float) -> float:
    """Return completed requests over the time they need to arrive and the last to end."""
    count, e2e = reading.observation.completed, end_to_end_s(reading)
    if not count or e2e is None:
        return asked
    return count / (count / asked + e2e)


def _at_limit(reading: Reading) -> bool:
    load = reading.observation.load
    mean, limit = in_flight(reading), load.max_concurrency
    if limit is None:
        return False
    peak = load.peak_concurrency
    if peak is not None and peak < _AT_LIMIT * limit:
        return False
    return mean is not None and mean >= _AT_LIMIT * limit


def _loop(reading: Reading) -> Iterator[Flag]:
    load, o = reading.observation.load, reading.observation
    limit, mean = load.max_concurrency, load.mean_concurrency or in_flight(reading)
    if limit is not None and o.completed is not None and limit > o.completed:
        yield Flag(
            check="limit_never_reached",
            text=f"the limit of {limit} requests in flight is above the {o.completed:,.0f} sent",
            remedy="Send several times as many requests as the concurrency.",
            unusable_for=_CAPACITY,
        )
    elif load.arrival == "closed_loop" and limit is not None:
        if mean is not None and mean < _FULL_LOOP * limit:
            yield Flag(
                check="client_limited",
                text=f"{mean:.3g} requests in flight on average of {limit}: the client did not "
                "keep the server busy, or the run was mostly its beginning and end",
                remedy="Run longer, from a machine with more CPU.",
                unusable_for=_CAPACITY,
            )
        elif o.completed is not None and o.completed < _TURNS * limit:
            yield Flag(
                check="short_run",
                text=f"{o.completed:,.0f} requests at {limit} in flight: beginning and end are "
                "most of the run",
                remedy=f"Send at least {_TURNS:g} times as many requests as the concurrency.",
                unusable_for=_CAPACITY,
            )


def _idle(reading: Reading) -> Iterator[Flag]:
    load = reading.observation.load
    mean = load.mean_concurrency if load.mean_concurrency is not None else in_flight(reading)
    alone = load.arrival == "closed_loop" and load.max_concurrency == 1
    if mean is not None and mean < _IDLE and not alone and reading.observation.output_tokens_per_s:
        yield Flag(
            check="idle_server",
            text=f"{mean:.2g} requests in flight on average: the server mostly waited",
            remedy="Send more requests at once.",
            unusable_for=_CAPACITY,
        )


_IDLE = 0.8


def _burst(reading: Reading) -> Iterator[Flag]:
    o = reading.observation
    if o.load.arrival == "all_at_once" and o.ttft_s is not None:
        yield _AT_ONCE
    unknown = o.load.arrival == "unknown" and o.format != "prometheus"
    if unknown and o.output_tokens_per_s is not None:
        yield Flag(
            check="arrivals_unknown",
            text="the file does not say how requests arrived: throughput may be the client's own",
            remedy="Import the tool's JSON that holds its configuration.",
            unusable_for=_CAPACITY,
        )


def _waiting(reading: Reading) -> Iterator[Flag]:
    o = reading.observation
    ttft, e2e = (s.typical if s is not None else None for s in (o.ttft_s, o.e2e_s))
    if ttft is None or not e2e or o.load.arrival == "all_at_once":
        return
    if _WAITING_SHARE < ttft / e2e <= 1:
        yield Flag(
            check="mostly_waiting",
            text=f"{ttft / e2e:.0%} of a request's time ({ttft:.3g} of {e2e:.3g} s) passes before "
            "its first token: it waits for a place or for prompts of others",
            remedy="Lower the concurrency, or count this as prefill-bound.",
        )


def _requests(reading: Reading) -> Iterator[Flag]:
    o = reading.observation
    measured = o.ttft_s or o.tpot_s or o.e2e_s
    if o.completed is None or (measured is None and o.output_tokens_per_s is None):
        return
    if o.completed < _FEW_REQUESTS:
        yield Flag(
            check="few_requests",
            text=f"only {o.completed:g} requests were completed",
            remedy=f"At least {_FEW_REQUESTS} for a mean, {_P99_REQUESTS} for a p99.",
            unusable_for=("capacity", "latency", "step_time"),
        )
    elif o.completed < _P99_REQUESTS and any(
        spread is not None and spread.p99 is not None for spread in (o.ttft_s, o.tpot_s, o.e2e_s)
    ):
        yield Flag(
            check="p99_of_few",
            text=f"p99 of {o.completed:g} requests is all but their largest",
            remedy=f"Take the p90, or {_P99_REQUESTS} requests.",
        )


def _failures(reading: Reading) -> Iterator[Flag]:
    o, sent = reading.observation, reading.stated.requests_sent
    failed, done = o.failed, o.completed
    if o.format == "prometheus" or done is None:
        return
    if sent is not None and done + (failed or 0.0) > sent * 1.001:
        yield Flag(
            check="requests_differ",
            text=f"{done + (failed or 0.0):g} requests ended of {sent:g} sent",
            remedy="The file is merged or edited.",
            unusable_for=_BOTH,
        )
    missing = sent - done if sent is not None and failed is None else failed
    if missing is None or missing <= 0:
        return
    share = missing / (done + missing)
    yield Flag(
        check="failed_requests",
        text=f"{missing:g} of {done + missing:g} requests failed: those left are the easy ones",
        remedy="Mend what fails, then measure again.",
        unusable_for=_BOTH if share > _FAILED_SHARE else (),
    )


def _peaks(reading: Reading) -> Iterator[Flag]:
    load, o = reading.observation.load, reading.observation
    sent = reading.stated.requests_sent or o.completed
    if load.peak_concurrency is not None and sent and load.peak_concurrency > sent:
        yield Flag(
            check="peak_over_sent",
            text=f"{load.peak_concurrency:g} requests in flight of {sent:g} sent",
            remedy="One of the two is of another run.",
            unusable_for=_CAPACITY,
        )


def _provenance(reading: Reading) -> Iterator[Flag]:
    s = reading.stated
    if s.merged_runs > 1:
        yield Flag(
            check="merged",
            text="figures of several runs or stages in one: their mean is of no load at all",
            remedy="Import the file of each run or stage.",
            unusable_for=("capacity", "latency", "acceptance", "step_time"),
        )
    if s.warmup == "included":
        yield Flag(
            check="warmup_included",
            text="no warm-up was left out: first requests meet cold caches and compilation",
            remedy="Let the tool leave the first requests out.",
        )


_CHECKS: tuple[Callable[[Reading], Iterator[Flag]], ...] = (
    _arrivals,
    _loop,
    _idle,
    _burst,
    _waiting,
    _requests,
    _failures,
    _peaks,
    _provenance,
)
