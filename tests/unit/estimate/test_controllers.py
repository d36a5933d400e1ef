"""Length controllers on traced requests, against replays by hand and against the bound."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from capplan.estimate.controller_gains import Streams, gain_of, serve_confident, weights_of
from capplan.estimate.controllers import (
    FeedbackRule,
    RoundClock,
    Served,
    best_fixed,
    fixed,
    run_feedback,
    scheduled,
)
from capplan.estimate.replay import replay_per_start, replay_per_token
from capplan.estimate.traced_requests import TracedRequests, TracedTexts
from capplan.estimate.variable_length import (
    Drafted,
    clairvoyant,
    confident_drafts,
    serve_drafts,
)

MOST = 8


def clock(draft_s: float = 0.1, batches: tuple[int, ...] = (1, 8)) -> RoundClock:
    """Rounds of 1 s and a share more a draft; larger batches pay more for verification."""
    rows = np.array(batches)
    n = np.arange(MOST + 1)
    round_s = 1.0 + (draft_s + 0.01 * rows[:, None]) * n
    return RoundClock(rows, np.full(len(rows), 1 / len(rows)), round_s,
                      np.full(len(rows), draft_s), np.full(len(rows), 0.2))  # fmt: skip


def traced(accept: np.ndarray, lengths: np.ndarray, confidence: np.ndarray | None = None,
           task: list[str] | None = None) -> TracedRequests:  # fmt: skip
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    inside = np.arange(accept.shape[1]) < lengths[:, None]
    counts = tuple(replay_per_token(accept[inside], offsets, n) for n in range(MOST + 1))
    texts = TracedTexts(np.where(inside, accept, 0.0), lengths, is_lookup=False,
                        confidence=confidence)  # fmt: skip
    tasks = np.array(task or ["chat"] * len(lengths))
    return TracedRequests(counts, np.zeros(len(lengths)), tasks, texts)


@cache
def greedy(share: float = 0.7, count: int = 40, seed: int = 0) -> TracedRequests:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(20, 60, count)
    accept = (rng.random((count, int(lengths.max()))) < share).astype(float)
    confidence = np.clip(0.3 + 0.4 * accept + 0.2 * rng.standard_normal(accept.shape), 0, 1)
    return traced(accept, lengths, confidence)


def test_a_single_length_takes_its_rounds() -> None:
    requests = greedy()
    served = fixed(requests, clock(), 3)
    assert served.seconds[:, 0] == pytest.approx(requests.counts[3].rounds * 1.33)
    assert fixed(requests, clock(), 0).rounds == pytest.approx(requests.texts.lengths - 1)


def test_the_best_single_length_is_the_best_of_all() -> None:
    requests, ones = greedy(), np.ones(40)
    rates = [float(fixed(requests, clock(), n).rate(clock(), ones)) for n in range(MOST + 1)]
    best, served = best_fixed(requests, clock(), MOST)
    assert best == int(np.argmax(rates))
    assert float(served.rate(clock(), ones)) == pytest.approx(max(rates))
    assert best_fixed(requests, clock(draft_s=3.0), MOST)[0] == 0


@pytest.mark.parametrize("n", [0, 1, 4, MOST])
def test_drafts_of_one_length_everywhere_are_that_single_length(n: int) -> None:
    rng = np.random.default_rng(3)
    requests = traced(rng.random((12, 30)), rng.integers(5, 30, 12))
    same = np.full(requests.texts.accept_prob.shape, n)
    served = serve_drafts(requests, clock(), Drafted(same, same < 0), MOST)
    expected = fixed(requests, clock(), n)
    assert served.seconds == pytest.approx(expected.seconds)
    assert served.rounds == pytest.approx(expected.rounds)


def test_a_pass_whose_proposal_is_not_sure_enough_is_paid_for() -> None:
    requests = greedy()
    drafts = confident_drafts(requests.texts, 0.5, MOST)
    free = serve_drafts(requests, clock(), Drafted(drafts.tokens, drafts.tokens < 0), MOST)
    paid = serve_drafts(requests, clock(), drafts, MOST)
    assert (paid.seconds > free.seconds).all()
    assert drafts.stopped.mean() > 0.5


def test_a_draft_that_knows_itself_beats_every_single_length() -> None:
    requests = greedy()
    served, thresholds = serve_confident(requests, clock(), MOST)
    _, best = best_fixed(requests, clock(), MOST)
    ones = np.ones(40)
    assert float(served.rate(clock(), ones)) > 1.02 * float(best.rate(clock(), ones))
    assert all(0.2 < threshold < 0.8 for threshold in thresholds)


@pytest.mark.parametrize("draft_s", [0.02, 0.1, 0.5, 1.5])
@pytest.mark.parametrize("share", [0.2, 0.7, 0.95])
def test_nobody_beats_the_clairvoyant(draft_s: float, share: float) -> None:
    requests, ticks, ones = greedy(share), clock(draft_s), np.ones(40)
    bound = clairvoyant(requests, ticks, MOST)
    ways = [fixed(requests, ticks, n) for n in range(MOST + 1)]
    ways.append(serve_confident(requests, ticks, MOST)[0])
    for way in ways:
        assert (bound.seconds <= way.seconds + 1e-9).all()
    assert float(bound.rate(ticks, ones)) >= max(float(w.rate(ticks, ones)) for w in ways)


def test_the_clairvoyant_takes_the_shortest_way_there_is() -> None:
    rng = np.random.default_rng(5)
    accept = (rng.random((6, 9)) < 0.6).astype(float)
    requests = traced(accept, np.array([2, 5, 6, 7, 8, 9]))
    ticks = clock(batches=(4,))

    def shortest(row: int, position: int) -> tuple[float, int, int]:
        """Return seconds, rounds and drafts to the end."""
        left = int(requests.texts.lengths[row]) - position
        if left <= 0:
            return 0.0, 0, 0
        ways = []
        for n in range(min(left - 1, MOST) + 1):
            if not requests.texts.accept_prob[row, position : position + n].all():
                break
            seconds, rounds, drafted = shortest(row, position + n + 1)
            ways.append((ticks.round_s[0, n] + seconds, rounds + 1, drafted + n))
        return min(ways)

    served = clairvoyant(requests, ticks, MOST)
    expected = np.array([shortest(row, 1) for row in range(6)])
    assert served.seconds[:, 0] == pytest.approx(expected[:, 0])
    assert served.rounds == pytest.approx(expected[:, 1])
    assert served.drafted == pytest.approx(expected[:, 2])
    assert served.emitted.tolist() == [1, 4, 5, 6, 7, 8]


def test_a_lookup_pays_for_the_drafts_that_it_finds() -> None:
    proposed, accepted = np.array([0, 4, 0, 0, 4, 4, 4, 4]), np.array([0, 2, 0, 0, 1, 0, 0, 0])
    offsets = np.array([0, 8])
    counts = tuple(replay_per_start(proposed, accepted, offsets, n) for n in range(MOST + 1))
    texts = TracedTexts(accepted[None, :].astype(float), np.array([8]), is_lookup=True,
                        confidence=None)  # fmt: skip
    requests = TracedRequests(counts, np.zeros(1), np.array(["chat"]), texts)
    ticks = clock(batches=(1,))
    served = fixed(requests, ticks, 4)
    # rounds start at 1 (2 accepted), 4 (1 accepted), 6 and 7: all find four tokens
    assert served.seconds[0, 0] == pytest.approx(4 * float(ticks.round_s[0, 4]))
    bound = clairvoyant(requests, ticks, MOST)
    expected = ticks.round_s[0, 2] + ticks.round_s[0, 1] + 2 * ticks.round_s[0, 0]
    assert bound.seconds[0, 0] == pytest.approx(float(expected))


def test_an_engines_own_rounds_bound_by_what_they_had_accepted() -> None:
    requests = greedy()
    ran = TracedRequests(requests.counts[:5], requests.temperature, requests.task, None)
    bound, ones = clairvoyant(ran, clock(), MOST), np.ones(40)
    assert all(
        float(bound.rate(clock(), ones)) > float(fixed(ran, clock(), n).rate(clock(), ones))
        for n in range(5)
    )


# ---- the guide's controller


def test_the_guides_controller_sinks_to_its_least_where_few_drafts_are_accepted() -> None:
    requests = greedy(0.5)
    streams = Streams.drawn(requests, 1000, "mixed", seed=0, draws=5)
    run = run_feedback(requests, clock(), FeedbackRule(most=MOST), streams.plain)
    assert run.lengths[0].tolist() == [5, 4, 3, 2, 2, 2, 2, 2, 2, 2]


def test_the_rule_moves_by_one_within_its_bounds_and_up_only_above_its_target() -> None:
    rule = FeedbackRule(least=2, most=6, target_rate=0.75)
    rates = np.array([0.76, 0.75, 0.74, 1.0, 0.0])
    assert rule.next_length(np.array([4, 4, 4, 6, 2]), rates).tolist() == [5, 3, 3, 6, 2]


def test_and_climbs_to_its_most_where_all_are() -> None:
    requests = traced(np.ones((10, 40)), np.full(10, 40))
    streams = Streams.drawn(requests, 600, "mixed", seed=0, draws=2)
    run = run_feedback(requests, clock(), FeedbackRule(most=MOST), streams.plain)
    assert run.lengths[0].tolist() == [5, 6, 7, 8, 8, 8]


def test_the_replay_of_the_rule_is_that_of_a_loop_over_requests() -> None:
    requests, ticks = greedy(0.85, seed=2), clock()
    rule = FeedbackRule(initial=3, least=1, most=6, target_rate=0.7, interval_requests=10)
    order = np.random.default_rng(4).integers(0, requests.count, 95)
    run = run_feedback(requests, ticks, rule, order[None, :])
    n, seconds, tokens, path = 3, np.zeros(2), 0.0, []
    for start in range(0, 95, 10):
        path.append(n)
        accepted = drafted = 0.0
        for request in order[start : start + 10]:
            counts = requests.counts[n]
            seconds += counts.rounds[request] * ticks.round_s[:, n]
            tokens += counts.emitted[request]
            accepted += counts.accepted[request]
            drafted += counts.drafted[request]
        n = min(max(n + (1 if accepted / drafted > 0.7 else -1), 1), 6)
    assert run.lengths[0].tolist() == path
    rate = (ticks.load * ticks.batches * tokens / seconds).sum()
    assert run.rate[0] == pytest.approx(rate)


def test_a_schedule_pays_the_tax_where_it_drafts_nothing() -> None:
    requests, ticks = greedy(), clock()
    served = scheduled(requests, ticks, np.array([3, 0]))
    assert served.seconds[:, 0] == pytest.approx(fixed(requests, ticks, 3).seconds[:, 0])
    plain = fixed(requests, ticks, 0).seconds[:, 1]
    assert served.seconds[:, 1] == pytest.approx(1.2 * plain)


def test_each_half_is_served_with_what_the_other_half_chose() -> None:
    rng = np.random.default_rng(5)
    lengths = np.full(40, 60)
    confidence = rng.random((40, 60))
    # drafts of even requests hold from a confidence of 0.3 on, those of odd ones from 0.8
    needed = np.where(np.arange(40) % 2 == 0, 0.3, 0.8)[:, None]
    requests = traced((confidence > needed).astype(float), lengths, confidence)
    served, (of_even, of_odd) = serve_confident(requests, clock(), MOST)
    assert of_even == pytest.approx(0.8, abs=0.11)
    assert of_odd == pytest.approx(0.3, abs=0.11)
    assert requests.texts is not None
    for first, threshold in ((0, of_even), (1, of_odd)):
        drafts = confident_drafts(requests.texts, threshold, MOST)
        expected = serve_drafts(requests, clock(), drafts, MOST)
        assert served.seconds[first::2] == pytest.approx(expected.seconds[first::2])
        assert served.rounds[first::2] == pytest.approx(expected.rounds[first::2])
        assert served.drafted[first::2] == pytest.approx(expected.drafted[first::2])


# ---- streams and intervals


def test_the_interval_holds_the_middle_95_of_100_streams() -> None:
    # 1,000 requests a stream; of the k-th stream k are of the kind that writes twice as much
    ticks = RoundClock(np.array([1]), np.ones(1), np.ones((1, MOST + 1)), np.ones(1), np.zeros(1))
    once = Served(np.ones((2, 1)), np.ones(2), np.ones(2), np.zeros(2))
    twice = Served(np.ones((2, 1)), np.array([1.0, 2.0]), np.ones(2), np.zeros(2))
    streams = (np.arange(1000) < np.arange(1001)[:, None]).astype(np.int64)
    found = gain_of(twice, once, ticks, Streams(streams, streams))
    assert found.mid == pytest.approx(0.5)
    assert (found.low, found.high) == (pytest.approx(0.025), pytest.approx(0.975))


def test_streams_come_in_the_order_asked_for() -> None:
    base = greedy()
    tasks = np.array(["b", "a"] * 20)
    requests = TracedRequests(base.counts, np.repeat([1.0, 0.0], 20), tasks, base.texts)
    by_task = Streams.drawn(requests, 300, "by-task", 0, draws=3)
    assert (np.diff((tasks[by_task.resampled] == "b").astype(int), axis=1) >= 0).all()
    hotter = Streams.drawn(requests, 300, "hotter", 0, draws=3)
    assert (np.diff(requests.temperature[hotter.plain], axis=1) >= 0).all()


def test_weights_count_the_requests_of_a_stream() -> None:
    weight = weights_of(np.array([[0, 2, 2], [1, 1, 1]]), 4)
    assert weight.tolist() == [[1, 0, 2, 0], [0, 3, 0, 0]]


def test_intervals_over_requests_hold_the_gain_of_other_requests_as_often_as_they_say() -> None:
    truth = greedy(0.7, count=3000, seed=99)
    ticks = clock()
    ones = np.ones(3000)

    def gain(n: int) -> float:
        return float(fixed(truth, ticks, n).rate(ticks, ones)
                     / fixed(truth, ticks, 5).rate(ticks, ones)) - 1  # fmt: skip

    held = 0
    for seed in range(40):
        few = greedy(0.7, count=40, seed=seed)
        streams = Streams.drawn(few, 4000, "mixed", seed, draws=200)
        found = gain_of(fixed(few, ticks, 3), fixed(few, ticks, 5), ticks, streams)
        held += found.low <= gain(3) <= found.high
    assert held >= 34
