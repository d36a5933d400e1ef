"""Gains of length controllers over a single length, with intervals over the requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.controllers import FeedbackRule, RoundClock, Served, run_feedback
from capplan.estimate.traced_requests import TracedRequests
from capplan.estimate.variable_length import confident_drafts, serve_drafts
from capplan.schema.quantity import Quantity

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Order = Literal["mixed", "by-task", "hotter"]

DRAWS = 400
_ENDS = (2.5, 97.5)
THRESHOLDS = tuple(np.round(np.arange(0.1, 1.0, 0.1), 1).tolist())


@dataclass(frozen=True)
class Streams:
    """Requests in the order served, drawn from those traced.

    Attributes
    ----------
    plain
        Drawn from all traced requests: their spread is that of the order alone.
    resampled
        Each drawn from a resample of the requests: their spread is also that of the texts.
    """

    plain: Integers
    resampled: Integers

    @classmethod
    def drawn(
        cls, requests: TracedRequests, served: int, order: Order, seed: int, draws: int = DRAWS
    ) -> Streams:
        """Draw streams of ``served`` requests; every task keeps its share of the requests."""
        rng = np.random.default_rng(seed)
        key = _order_key(requests, order)
        every = np.broadcast_to(np.arange(requests.count), (draws, requests.count))
        return cls(
            plain=_streams(every, key, served, rng),
            resampled=_streams(_resampled(requests, draws, rng), key, served, rng),
        )


def _order_key(requests: TracedRequests, order: Order) -> Integers:
    if order == "mixed":
        return np.zeros(requests.count, dtype=np.int64)
    values = requests.task if order == "by-task" else requests.temperature
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _resampled(requests: TracedRequests, draws: int, rng: np.random.Generator) -> Integers:
    """Resample requests within each task and temperature; the place of a stratum stays."""
    out = np.empty((draws, requests.count), dtype=np.int64)
    strata = np.char.add(requests.task, np.char.mod("|%g", requests.temperature))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        out[:, members] = members[rng.integers(0, len(members), (draws, len(members)))]
    return out


def _streams(
    population: Integers, key: Integers, served: int, rng: np.random.Generator
) -> Integers:
    places = rng.integers(0, population.shape[1], (len(population), served))
    order = np.argsort(key[places], axis=1, kind="stable")
    places = np.take_along_axis(places, order, axis=1)
    return np.take_along_axis(population, places, axis=1)


def weights_of(streams: Integers, requests: int) -> Floats:
    """Return how often each request stands in each stream, shape (streams, requests)."""
    rows = np.arange(len(streams))[:, None] * requests
    counts = np.bincount((streams + rows).ravel(), minlength=len(streams) * requests)
    return counts.reshape(len(streams), requests).astype(float)


def _quantity(mid: float, draws: Floats) -> Quantity:
    low, high = np.percentile(draws, _ENDS)
    return Quantity(low=min(float(low), mid), mid=mid, high=max(float(high), mid))


def gain_of(served: Served, over: Served, clock: RoundClock, streams: Streams) -> Quantity:
    """Return the gain in tokens a second of one way to serve over another, less one."""
    count = len(served.emitted)
    weight = weights_of(streams.resampled, count)
    ones = np.ones(count)
    mid = float(served.rate(clock, ones) / over.rate(clock, ones)) - 1.0
    return _quantity(mid, served.rate(clock, weight) / over.rate(clock, weight) - 1.0)


@dataclass(frozen=True)
class FeedbackGain:
    """The feedback rule over streams."""

    mean_length: float
    tokens_per_round: float
    path: tuple[int, ...]
    """N of the intervals of one stream."""
    rates: tuple[Floats, Floats]
    """Tokens a second over plain and over resampled streams."""

    def over(self, other: Served, clock: RoundClock, streams: Streams) -> Quantity:
        """Return the gain over a way to serve the same streams, less one."""
        count = len(other.emitted)
        plain = other.rate(clock, weights_of(streams.plain, count))
        resampled = other.rate(clock, weights_of(streams.resampled, count))
        mid = float((self.rates[0] / plain).mean()) - 1.0
        return _quantity(mid, self.rates[1] / resampled - 1.0)


def feedback_gain(
    requests: TracedRequests, clock: RoundClock, rule: FeedbackRule, streams: Streams
) -> FeedbackGain:
    """Replay the rule over all streams."""
    plain = run_feedback(requests, clock, rule, streams.plain)
    resampled = run_feedback(requests, clock, rule, streams.resampled)
    return FeedbackGain(
        mean_length=float(plain.lengths.mean()),
        tokens_per_round=float(plain.tokens_per_round.mean()),
        path=tuple(plain.lengths[0].tolist()),
        rates=(plain.rate, resampled.rate),
    )


def serve_confident(
    requests: TracedRequests, clock: RoundClock, most: int
) -> tuple[Served, tuple[float, float]]:
    """Stop at low confidence, the threshold being chosen on the other half of the requests.

    Returns
    -------
    Served, tuple of float
        And the thresholds of the two halves.
    """
    assert requests.texts is not None, "the caller has checked"
    ways = [
        serve_drafts(requests, clock, confident_drafts(requests.texts, threshold, most), most)
        for threshold in THRESHOLDS
    ]
    even = np.arange(requests.count) % 2 == 0
    halves = [even, ~even] if requests.count > 1 else [even, even]
    rates = [[float(way.rate(clock, half.astype(float))) for way in ways] for half in halves]
    chosen = [int(np.argmax(rate)) for rate in rates]
    # the even half is served with what the odd one chose, and the other way round
    mixed = {
        name: np.where(_like(even, getattr(ways[0], name)),
                       getattr(ways[chosen[1]], name), getattr(ways[chosen[0]], name))
        for name in ("seconds", "emitted", "rounds", "drafted")
    }  # fmt: skip
    return Served(**mixed), (THRESHOLDS[chosen[1]], THRESHOLDS[chosen[0]])


def _like(rows: NDArray[np.bool_], values: Floats) -> NDArray[np.bool_]:
    return rows.reshape(-1, *(1 for _ in values.shape[1:]))
