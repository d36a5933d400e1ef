"""Ways to choose the draft length, replayed over traced requests.

A request in a batch of B takes the time of B's round with its own number of drafts: the others
are taken to draft alike, which is exact where every request of a step has the same N. Rates are
tokens a second, averaged over a load. docs/method/adaptive.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.traced_requests import TracedRequests

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RoundClock:
    """What rounds take at every batch of a load.

    Attributes
    ----------
    batches, load
        Requests at once, and their shares of time.
    round_s
        Seconds of a round that drafts 0, 1, ... tokens, shape (batches, lengths); 0 drafts
        is a plain step.
    pass_s
        Seconds of one more draft pass, shape (batches,).
    tax
        Of N = 0 in a schedule, as a fraction, shape (batches,).
    """

    batches: Integers
    load: Floats
    round_s: Floats
    pass_s: Floats
    tax: Floats

    def drafting(self, drafted: Floats) -> Floats:
        """Return a round's seconds at a mean number of drafts, shape (batches, ...)."""
        place = np.arange(self.round_s.shape[1])
        rows = [np.interp(drafted, place, row) for row in self.round_s]
        return np.stack(rows)


@dataclass(frozen=True)
class Served:
    """What one controller made of every request.

    Attributes
    ----------
    seconds
        Shape (requests, batches).
    emitted, rounds, drafted
        Expected tokens after the prefill's own, rounds and proposed tokens, shape (requests,).
    """

    seconds: Floats
    emitted: Floats
    rounds: Floats
    drafted: Floats

    def rate(self, clock: RoundClock, weight: Floats) -> Floats:
        """Return tokens a second over the load, for weights of shape (..., requests)."""
        seconds = weight @ self.seconds
        tokens = (weight @ self.emitted)[..., None]
        rate: Floats = (clock.load * clock.batches * tokens / seconds).sum(axis=-1)
        return rate


def fixed(requests: TracedRequests, clock: RoundClock, length: int) -> Served:
    """Serve every request with one N; 0 is plain decoding."""
    counts = requests.counts[length]
    return Served(_seconds(requests, clock, length).T, counts.emitted, counts.rounds,
                  counts.drafted)  # fmt: skip


def _seconds(requests: TracedRequests, clock: RoundClock, length: int) -> Floats:
    """Return seconds of every request at one N, shape (batches, requests)."""
    counts = requests.counts[length]
    if requests.texts is not None and not requests.texts.is_lookup:
        # near the end of a text the draft still proposes N tokens; only some are counted
        result: Floats = counts.rounds * clock.round_s[:, length, None]
        return result
    with_draft = counts.rounds_with_draft
    mean = counts.drafted / np.maximum(with_draft, 1.0)
    plain = (counts.rounds - with_draft) * clock.round_s[:, :1]
    return plain + with_draft * clock.drafting(np.where(with_draft > 0, mean, 1.0))


def best_fixed(requests: TracedRequests, clock: RoundClock, longest: int) -> tuple[int, Served]:
    """Return the best single length over the load, and what it serves."""
    weight = np.ones(requests.count)
    served = [fixed(requests, clock, n) for n in range(min(longest, requests.longest) + 1)]
    best = int(np.argmax([one.rate(clock, weight) for one in served]))
    return best, served[best]


def scheduled(requests: TracedRequests, clock: RoundClock, lengths: Integers) -> Served:
    """Serve with the length that a schedule has at each batch; its N = 0 pays the tax."""
    seconds = np.empty((requests.count, len(clock.batches)))
    rounds, drafted = np.zeros(requests.count), np.zeros(requests.count)
    for place, length in enumerate(lengths.tolist()):
        taxed = 1.0 + clock.tax[place] if length == 0 else 1.0
        seconds[:, place] = _seconds(requests, clock, length)[place] * taxed
        rounds += clock.load[place] * requests.counts[length].rounds
        drafted += clock.load[place] * requests.counts[length].drafted
    return Served(seconds, requests.counts[0].emitted, rounds, drafted)


# ---- feedback on the acceptance rate


@dataclass(frozen=True)
class FeedbackRule:
    """The guide's controller: more drafts where many were accepted, fewer where few were.

    The guide names these settings of a class that no vLLM has. By how much N changes it does not
    say: one token at a time is our reading.
    """

    initial: int = 5
    least: int = 2
    most: int = 10
    target_rate: float = 0.75
    interval_requests: int = 100

    def next_length(self, length: Integers, rate: Floats) -> Integers:
        """Return N after an interval in which this share of the drafts was accepted."""
        step = np.where(rate > self.target_rate, 1, -1)
        return np.clip(length + step, self.least, self.most)


@dataclass(frozen=True)
class FeedbackRun:
    """The rule over streams of requests.

    Attributes
    ----------
    rate
        Tokens a second over the load, shape (streams,).
    lengths
        N of every interval, shape (streams, intervals).
    tokens_per_round
        Shape (streams,).
    """

    rate: Floats
    lengths: Integers
    tokens_per_round: Floats


def run_feedback(
    requests: TracedRequests, clock: RoundClock, rule: FeedbackRule, streams: Integers
) -> FeedbackRun:
    """Replay the rule over streams of requests, all streams at once.

    Parameters
    ----------
    streams
        Indices of requests in the order served, shape (streams, requests served). Requests of
        one interval have the same N.
    """
    usable = range(min(rule.most, requests.longest) + 1)
    seconds = np.stack([_seconds(requests, clock, n).T for n in usable])
    counts = [requests.counts[n] for n in usable]
    accepted = np.stack([one.accepted for one in counts])
    drafted = np.stack([one.drafted for one in counts])
    rounds = np.stack([one.rounds for one in counts])
    emitted = requests.counts[0].emitted
    length = np.full(len(streams), min(rule.initial, requests.longest))
    total_s = np.zeros((len(streams), len(clock.batches)))
    total_rounds, tokens, path = np.zeros(len(streams)), np.zeros(len(streams)), []
    for start in range(0, streams.shape[1], rule.interval_requests):
        served = streams[:, start : start + rule.interval_requests]
        n = length[:, None]
        total_s += seconds[n, served].sum(axis=1)
        total_rounds += rounds[n, served].sum(axis=1)
        tokens += emitted[served].sum(axis=1)
        path.append(length)
        proposed = np.maximum(drafted[n, served].sum(axis=1), 1e-12)
        length = rule.next_length(length, accepted[n, served].sum(axis=1) / proposed)
        length = np.minimum(length, requests.longest)
    rate = (clock.load * clock.batches * tokens[:, None] / total_s).sum(axis=1)
    return FeedbackRun(rate, np.stack(path, axis=1), tokens / np.maximum(total_rounds, 1e-12))
