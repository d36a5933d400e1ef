"""Lengths that change from round to round: stop at low confidence, and the clairvoyant bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.controllers import RoundClock, Served
from capplan.estimate.traced_requests import TracedRequests, TracedTexts

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SAMPLES = 8
"""Outcomes drawn where acceptance is a probability; greedy drafts are certain either way."""


@dataclass(frozen=True)
class Drafted:
    """How many tokens a round that starts at each position would draft."""

    tokens: Integers
    stopped: NDArray[np.bool_]
    """Whether one more pass was made, whose proposal was not sure enough to be verified."""


def confident_drafts(texts: TracedTexts, threshold: float, most: int) -> Drafted:
    """Return drafts that go on while the draft's own probability is at least a threshold.

    Parameters
    ----------
    texts
        With the draft's confidence.
    threshold
        0 to 1; 0 drafts ``most`` tokens always.
    most
        Largest N.

    Notes
    -----
    Confidences are those on the target's own text. Behind a rejected token the draft would look
    at a text of its own; how long it would go on there is taken from the same positions.
    """
    assert texts.confidence is not None, "the caller has checked"
    windows = _ahead(texts.confidence, most)
    sure = np.cumprod(windows >= threshold, axis=2).sum(axis=2)
    return Drafted(sure, sure < most)


def _ahead(table: Floats, most: int) -> Floats:
    """Return the next ``most`` values from each position, shape (requests, longest, most)."""
    padded = np.pad(table, ((0, 0), (0, most)))
    windows: Floats = np.lib.stride_tricks.sliding_window_view(padded, most, axis=1)
    return windows[:, : table.shape[1]]


def serve_drafts(
    requests: TracedRequests, clock: RoundClock, drafts: Drafted, most: int
) -> Served:
    """Replay rounds whose length depends on where they start; exact in expectation.

    The renewal process of :func:`capplan.estimate.replay.replay_per_token`, with a number of
    drafts of each position's own.
    """
    texts = requests.texts
    assert texts is not None, "the caller has checked"
    rows, longest = texts.accept_prob.shape
    windows = np.where(np.arange(most) < drafts.tokens[..., None],
                       _ahead(texts.accept_prob, most), 0.0)  # fmt: skip
    at_least = np.cumprod(windows, axis=2)
    ends = np.ones((rows, longest, 1)), np.zeros((rows, longest, 1))
    exactly = np.concatenate([ends[0], at_least], 2) - np.concatenate([at_least, ends[1]], 2)
    start = np.zeros((rows, longest + most + 1))
    start[:, 1:2] = 1.0
    for position in range(1, longest):
        following = slice(position + 1, position + most + 2)
        start[:, following] += start[:, position, None] * exactly[:, position]
    inside = np.arange(longest) < texts.lengths[:, None]
    begun = np.where(inside, start[:, :longest], 0.0)
    by_length = np.stack(
        [(begun * (drafts.tokens == n)).sum(axis=1) for n in range(most + 1)], axis=1
    )
    seconds = by_length @ clock.round_s[:, : most + 1].T
    seconds += (begun * drafts.stopped).sum(axis=1)[:, None] * clock.pass_s
    return Served(
        seconds=seconds,
        emitted=np.maximum(texts.lengths - 1.0, 0.0),
        rounds=begun.sum(axis=1),
        drafted=(begun * drafts.tokens).sum(axis=1),
    )


def clairvoyant(requests: TracedRequests, clock: RoundClock, most: int, seed: int = 0) -> Served:
    """Serve as if it were known what will be accepted: no controller can be faster.

    From every position the shortest way to the end of the text is taken, over rounds whose
    drafts will all be accepted. Of an engine's own rounds, where no other start is known, each
    drafts what it had accepted, up to the best limit.
    """
    texts = requests.texts
    if texts is None:
        return _known_rounds(requests, clock)
    if texts.is_lookup:
        return _shortest(texts, np.minimum(texts.accept_prob, most).astype(np.int64), clock)
    certain = bool(np.isin(texts.accept_prob, (0.0, 1.0)).all())
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(1 if certain else SAMPLES):
        accepted = rng.random(texts.accept_prob.shape) < texts.accept_prob
        run = np.cumprod(_ahead(accepted.astype(float), most), axis=2).sum(axis=2)
        draws.append(_shortest(texts, run.astype(np.int64), clock))
    return Served(*(np.mean([getattr(one, name) for one in draws], axis=0)
                    for name in ("seconds", "emitted", "rounds", "drafted")))  # fmt: skip


def _shortest(texts: TracedTexts, run: Integers, clock: RoundClock) -> Served:
    """Return the least seconds to the end, by dynamic programming from there backwards."""
    rows, longest = run.shape
    most = int(run.max(initial=0))
    left = texts.lengths[:, None] - np.arange(longest)
    room = np.minimum(run, np.maximum(left - 1, 0))
    batches = len(clock.batches)
    # seconds, rounds, drafts and a share of the load a batch: one table for each, filled together
    seconds = np.zeros((batches, rows, longest + most + 1))
    rounds, drafted = np.zeros_like(seconds), np.zeros_like(seconds)
    for position in range(longest - 1, 0, -1):
        inside = texts.lengths > position
        n = np.arange(most + 1)
        ways = clock.round_s[:, None, : most + 1] + seconds[:, :, position + 1 + n]
        ways = np.where(n <= room[:, position, None], ways, np.inf)
        pick = ways.argmin(axis=2)[..., None]
        following = position + 1 + pick

        def after(table: Floats, at: Integers = following) -> Floats:
            return np.take_along_axis(table, at, axis=2)[..., 0]

        best = np.take_along_axis(ways, pick, axis=2)[..., 0]
        rounds[:, :, position] = np.where(inside, 1.0 + after(rounds), 0.0)
        drafted[:, :, position] = np.where(inside, pick[..., 0] + after(drafted), 0.0)
        seconds[:, :, position] = np.where(inside, best, 0.0)
    first = min(1, longest)
    return Served(
        seconds=seconds[:, :, first].T,
        emitted=np.maximum(texts.lengths - 1.0, 0.0),
        rounds=np.tensordot(clock.load, rounds[:, :, first], axes=1),
        drafted=np.tensordot(clock.load, drafted[:, :, first], axes=1),
    )


def _known_rounds(requests: TracedRequests, clock: RoundClock) -> Served:
    served = [_accepted_alone(requests, clock, n) for n in range(requests.longest + 1)]
    weight = np.ones(requests.count)
    return max(served, key=lambda one: float(one.rate(clock, weight)))


def _accepted_alone(requests: TracedRequests, clock: RoundClock, most: int) -> Served:
    """Serve rounds that draft exactly what is accepted, up to ``most`` tokens."""
    counts = requests.counts[most]
    at_least = np.concatenate([counts.rounds[:, None], counts.accepted_per_position], axis=1)
    exactly = at_least - np.concatenate([at_least[:, 1:], np.zeros((len(at_least), 1))], axis=1)
    seconds = exactly @ clock.round_s[:, : most + 1].T
    return Served(seconds, counts.emitted, counts.rounds, counts.accepted)
