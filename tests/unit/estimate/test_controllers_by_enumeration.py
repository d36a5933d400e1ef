"""Rounds of changing length against every course that a text can take, enumerated."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from capplan.estimate.controllers import RoundClock
from capplan.estimate.replay import count_rounds, replay_per_token
from capplan.estimate.traced_requests import TracedRequests, TracedTexts
from capplan.estimate.variable_length import SAMPLES, Drafted, clairvoyant, serve_drafts

MOST = 3
BATCHES = np.array([1, 4])
LOAD = np.array([0.25, 0.75])
LENGTHS = np.array([1, 2, 7, 6])
NONE = np.zeros(0)


def clock(*rows: tuple[float, ...]) -> RoundClock:
    """Rounds of two batches, N = 0 .. 3; a pass of 0.3 and 0.4 s."""
    return RoundClock(BATCHES, LOAD, np.array(rows), np.array([0.3, 0.4]), np.array([0.1, 0.2]))


RISING = clock((1.0, 1.2, 1.5, 1.9), (2.0, 2.5, 3.1, 3.6))
FALLING = clock((2.0, 1.2, 1.1, 1.0), (3.0, 1.5, 3.1, 0.9))
"""Rounds that are dearer without a draft: a plain step may run outside of captured graphs."""


def traced(accept: np.ndarray, confidence: np.ndarray | None = None) -> TracedRequests:
    lengths = LENGTHS[: len(accept)]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    inside = np.arange(accept.shape[1]) < lengths[:, None]
    texts = TracedTexts(np.where(inside, accept, 0.0), lengths, False, confidence)
    counts = tuple(replay_per_token(accept[inside], offsets, n) for n in range(MOST + 1))
    return TracedRequests(counts, np.zeros(len(lengths)), np.array(["a"] * len(lengths)), texts)


# ---- rounds whose length depends on where they start


def every_course(
    accept: np.ndarray, length: int, tokens: np.ndarray, cost: Callable[[int], np.ndarray]
) -> np.ndarray:
    """Return the expected sum of what rounds cost, over all outcomes from position 1 on."""

    @cache
    def after(position: int) -> tuple[float, ...]:
        if position >= length:
            return tuple(0.0 * cost(0))
        n = int(tokens[position])
        total, reached = cost(position), 1.0
        for kept in range(n + 1):
            at = position + kept
            going_on = float(accept[at]) if kept < n and at < length else 0.0
            total = total + reached * (1 - going_on) * np.array(after(at + 1))
            reached *= going_on
        return tuple(total)

    return np.array(after(1))


@pytest.mark.parametrize("ticks", [RISING, FALLING])
def test_rounds_that_draft_as_many_as_their_place_says(ticks: RoundClock) -> None:
    rng = np.random.default_rng(1)
    requests = traced(rng.random((4, 8)))
    tokens = rng.integers(0, MOST + 1, (4, 8))
    stopped = rng.random((4, 8)) < 0.5
    served = serve_drafts(requests, ticks, Drafted(tokens, stopped), MOST)
    assert requests.texts is not None
    for row, length in enumerate(LENGTHS):
        accept = requests.texts.accept_prob[row]

        def seconds(at: int, row: int = row) -> np.ndarray:
            return ticks.round_s[:, tokens[row, at]] + stopped[row, at] * ticks.pass_s

        def counted(at: int, row: int = row) -> np.ndarray:
            return np.array([1.0, tokens[row, at]])

        expected = every_course(accept, int(length), tokens[row], seconds)
        assert served.seconds[row] == pytest.approx(expected)
        rounds, drafted = every_course(accept, int(length), tokens[row], counted)
        assert served.rounds[row] == pytest.approx(rounds)
        assert served.drafted[row] == pytest.approx(drafted)
    assert served.emitted.tolist() == [0, 1, 6, 5]


# ---- the clairvoyant


def quickest(accept: np.ndarray, length: int, ticks: RoundClock, batch: int) -> np.ndarray:
    """Return seconds, rounds and drafts of the quickest way, all ways tried."""
    if length <= 1:
        return np.zeros(3)
    ways = []
    for n in range(min(MOST, length - 2) + 1):
        if not accept[1 : 1 + n].all():
            break
        rest = quickest(accept[n + 1 :], length - n - 1, ticks, batch)
        ways.append(rest + np.array([ticks.round_s[batch, n], 1, n]))
    return min(ways, key=lambda way: float(way[0]))


def bound(accept: np.ndarray, ticks: RoundClock) -> tuple[np.ndarray, np.ndarray]:
    found = np.array([
        [quickest(row, int(length), ticks, batch) for batch in (0, 1)]
        for row, length in zip(accept, LENGTHS, strict=False)
    ])  # fmt: skip
    return found[:, :, 0], np.einsum("rbk,b->rk", found[:, :, 1:], LOAD)


@pytest.mark.parametrize("ticks", [RISING, FALLING])
@pytest.mark.parametrize("seed", range(5))
def test_nobody_drafts_beyond_the_end_even_where_a_longer_round_is_cheaper(
    ticks: RoundClock, seed: int
) -> None:
    accept = (np.random.default_rng(seed).random((4, 8)) < 0.7).astype(float)
    served = clairvoyant(traced(accept), ticks, MOST)
    seconds, others = bound(accept, ticks)
    assert served.seconds == pytest.approx(seconds)
    assert np.stack([served.rounds, served.drafted], axis=1) == pytest.approx(others)
    assert served.emitted.tolist() == [0, 1, 6, 5]


@pytest.mark.parametrize("seed", [None, 3])
def test_of_probabilities_eight_outcomes_are_drawn(seed: int | None) -> None:
    accept = np.random.default_rng(5).random((4, 8))
    requests = traced(accept)
    assert requests.texts is not None
    prob = requests.texts.accept_prob
    rng = np.random.default_rng(seed or 0)
    draws = [bound((rng.random(prob.shape) < prob).astype(float), RISING) for _ in range(8)]
    served = clairvoyant(requests, RISING, MOST, **({} if seed is None else {"seed": seed}))
    assert SAMPLES == 8
    assert served.seconds == pytest.approx(np.mean([one[0] for one in draws], axis=0))
    assert served.rounds == pytest.approx(np.mean([one[1][:, 0] for one in draws], axis=0))


def test_texts_without_a_token_take_no_time() -> None:
    texts = TracedTexts(np.zeros((2, 0)), np.array([0, 0]), False, None)
    counts = tuple(replay_per_token(NONE, np.zeros(3, np.int64), n) for n in range(MOST + 1))
    empty = TracedRequests(counts, np.zeros(2), np.array(["a", "a"]), texts)
    served = clairvoyant(empty, RISING, MOST)
    assert served.seconds.tolist() == [[0, 0], [0, 0]]
    assert served.emitted.tolist() == served.rounds.tolist() == [0, 0]


def engine_rounds(*requests: tuple[int, ...]) -> TracedRequests:
    accepted = np.array([one for request in requests for one in request])
    offsets = np.cumsum([0, *map(len, requests)])
    counts = tuple(
        count_rounds(accepted * 0 + MOST, accepted, offsets, n) for n in range(MOST + 1)
    )
    return TracedRequests(counts, np.zeros(len(requests)), np.array(["a"] * len(requests)), None)


def test_of_an_engines_rounds_the_best_limit_on_what_was_accepted() -> None:
    # 3, 0 and 1 accepted, then 2: a limit of 3 takes 1.9 + 1.0 + 1.2 s and 1.5 s at batch 1
    requests = engine_rounds((3, 0, 1), (2,))
    served = clairvoyant(requests, RISING, 1)
    assert served.seconds[:, 0] == pytest.approx([1.9 + 1.0 + 1.2, 1.5])
    assert served.emitted.tolist() == [7, 3]
    assert served.drafted.tolist() == [4, 2]
    # where a third draft costs more than it brings, two are the limit
    dear = clock((1.0, 1.2, 1.5, 9.0), (2.0, 2.5, 3.1, 30.0))
    served = clairvoyant(requests, dear, MOST)
    assert served.seconds[:, 0] == pytest.approx([1.5 + 1.0 + 1.2, 1.5])
    assert (served.emitted.tolist(), served.rounds.tolist()) == ([6, 3], [3, 1])
