"""Length controllers where they end: the longest length, a single request, no draft found."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.controller_gains import (
    THRESHOLDS,
    FeedbackGain,
    Streams,
    feedback_gain,
    gain_of,
    serve_confident,
)
from capplan.estimate.controllers import (
    FeedbackRule,
    RoundClock,
    Served,
    best_fixed,
    fixed,
    run_feedback,
    scheduled,
)
from capplan.estimate.replay import count_rounds, replay_per_start, replay_per_token
from capplan.estimate.traced_requests import TracedRequests, TracedTexts

MOST = 4
CLOCK = RoundClock(
    np.array([1, 8]),
    np.array([0.25, 0.75]),
    np.array([[1.0, 1.2, 1.5, 1.9, 2.4], [2.0, 2.6, 3.3, 4.1, 5.0]]),
    np.array([0.3, 0.4]),
    np.array([0.1, 0.2]),
)


def requests_of(accepted: list[list[int]], tasks: list[str] | None = None,
                temperature: list[float] | None = None) -> TracedRequests:  # fmt: skip
    """Return an engine's own rounds of N = 4; each inner list is a request."""
    flat = np.array([one for request in accepted for one in request])
    offsets = np.cumsum([0, *map(len, accepted)])
    counts = tuple(count_rounds(flat * 0 + MOST, flat, offsets, n) for n in range(MOST + 1))
    count = len(accepted)
    return TracedRequests(counts, np.array(temperature or [0.0] * count),
                          np.array(tasks or ["a"] * count), None)  # fmt: skip


def sure(lengths: list[int], confidence: float | None = None) -> TracedRequests:
    """Return texts of which every draft is accepted."""
    offsets = np.cumsum([0, *lengths])
    counts = tuple(replay_per_token(np.ones(offsets[-1]), offsets, n) for n in range(MOST + 1))
    inside = np.arange(max(lengths)) < np.array(lengths)[:, None]
    known = None if confidence is None else np.where(inside, confidence, 0.0)
    texts = TracedTexts(inside.astype(float), np.array(lengths), False, known)
    return TracedRequests(counts, np.zeros(len(lengths)), np.array(["a"] * len(lengths)), texts)


# ---- a single length


def test_a_rounds_time_between_two_lengths_lies_on_their_line() -> None:
    found = CLOCK.drafting(np.array([0.0, 0.5, 3.25, 4.0]))
    assert found == pytest.approx(np.array([[1.0, 1.1, 2.025, 2.4], [2.0, 2.3, 4.325, 5.0]]))


def test_a_rate_is_the_mean_over_the_load_of_the_batches_tokens() -> None:
    served = Served(
        np.array([[2.0, 5.0], [3.0, 5.0]]), np.array([4.0, 1.0]), np.zeros(2), np.zeros(2)
    )
    # five tokens in 5 s alone, eight times five in 10 s: 0.25 x 1 + 0.75 x 4
    assert float(served.rate(CLOCK, np.ones(2))) == pytest.approx(3.25)
    twice = served.rate(CLOCK, np.array([[1.0, 0.0], [0.0, 2.0]]))
    assert twice == pytest.approx([0.25 * 2 + 0.75 * 8 * 0.8, 0.25 / 3 + 0.75 * 8 / 5])


@pytest.mark.parametrize(("asked", "best"), [(MOST, MOST), (9, MOST), (2, 2), (0, 0)])
def test_where_every_draft_is_accepted_the_longest_is_best(asked: int, best: int) -> None:
    found, served = best_fixed(sure([21, 41]), CLOCK, asked)
    assert found == best
    assert served.seconds == pytest.approx(fixed(sure([21, 41]), CLOCK, best).seconds)


def test_a_lookup_that_finds_once_pays_once_for_what_it_found() -> None:
    proposed = np.array([0, 0, 3, 0, 0])
    counts = tuple(
        replay_per_start(proposed, proposed * 0, np.array([0, 5]), n) for n in range(MOST + 1)
    )
    texts = TracedTexts(np.zeros((1, 5)), np.array([5]), True, None)
    requests = TracedRequests(counts, np.zeros(1), np.array(["a"]), texts)
    # four rounds, one of which verifies three drafts, none of which is right
    assert fixed(requests, CLOCK, 4).seconds[0] == pytest.approx([3 * 1.0 + 1.9, 3 * 2.0 + 4.1])
    assert fixed(requests, CLOCK, 2).seconds[0] == pytest.approx([3 * 1.0 + 1.5, 3 * 2.0 + 3.3])
    assert fixed(requests, CLOCK, 0).seconds[0] == pytest.approx([4.0, 8.0])


def test_an_engines_rounds_take_what_they_drafted() -> None:
    requests = requests_of([[4, 0, 1]])
    served = fixed(requests, CLOCK, 3)
    assert served.seconds[0] == pytest.approx([3 * 1.9, 3 * 4.1])
    assert (served.emitted.tolist(), served.rounds.tolist()) == ([3 + 3 + 1], [3])
    assert served.drafted.tolist() == [9]


def test_a_schedule_counts_rounds_and_drafts_by_the_load() -> None:
    requests = requests_of([[4, 0, 1], [2]])
    served = scheduled(requests, CLOCK, np.array([4, 0]))
    assert served.seconds == pytest.approx(np.array([[3 * 2.4, 3 * 2.0 * 1.2], [2.4, 2.0 * 1.2]]))
    assert served.rounds == pytest.approx([3.0, 1.0])
    assert served.drafted == pytest.approx([0.25 * 12, 0.25 * 4])
    swapped = scheduled(requests, CLOCK, np.array([0, 2]))
    assert swapped.seconds[1] == pytest.approx([1.1, 3.3])
    assert swapped.drafted == pytest.approx([0.75 * 6, 0.75 * 2])


# ---- the guide's rule


def test_the_rule_as_the_guide_has_it() -> None:
    rule = FeedbackRule()
    assert (rule.initial, rule.least, rule.most) == (5, 2, 10)
    assert rule.next_length(np.array([5, 5]), np.array([0.75, 0.76])).tolist() == [4, 6]
    run = run_feedback(sure([41]), CLOCK, rule, np.zeros((1, 201), np.int64))
    assert run.lengths.shape == (1, 3)  # a hundred requests an interval


def test_the_rule_never_asks_for_more_than_was_traced() -> None:
    requests = sure([41] * 3)
    streams = np.tile([0, 1, 2], (2, 2))
    run = run_feedback(requests, CLOCK, FeedbackRule(interval_requests=2), streams)
    assert run.lengths.tolist() == [[4, 4, 4]] * 2
    assert run.tokens_per_round == pytest.approx([5.0, 5.0])
    # six answers of 40 tokens in eight rounds each, of 2.4 and 5 s
    assert run.rate == pytest.approx([(0.25 * 1 / 2.4 + 0.75 * 8 / 5.0) * 5] * 2)


def test_a_rule_of_one_length_yields_that_lengths_tokens() -> None:
    requests = requests_of([[4, 0, 1], [2, 2], [0, 0]])
    rule = FeedbackRule(initial=3, least=3, most=3, interval_requests=1)
    run = run_feedback(requests, CLOCK, rule, np.array([[0, 1, 2], [2, 2, 2]]))
    assert run.lengths.tolist() == [[3, 3, 3], [3, 3, 3]]
    # the emitted tokens are those of the answer: 0 drafts count every round for one token
    emitted = requests.counts[0].emitted
    assert run.tokens_per_round == pytest.approx([emitted.sum() / 7, emitted[2] * 3 / 6])


def test_a_gain_of_the_rule_is_the_mean_over_plain_streams_with_the_spread_of_resamples() -> None:
    other = Served(np.ones((2, 2)), np.array([1.0, 2.0]), np.ones(2), np.zeros(2))
    plain = np.array([[0, 0], [0, 1]])
    resampled = np.array([[1, 1], [0, 0], [0, 1]])
    # of the other: 1 and 1.5 tokens a request, then 2, 1 and 1.5, at 0.25 + 0.75 x 8 = 6.25
    gain = FeedbackGain(3.0, 2.0, (1,), (np.array([12.5, 9.375]), np.array([12.5, 12.5, 12.5])))
    found = gain.over(other, CLOCK, Streams(plain, resampled))
    assert found.mid == pytest.approx((2.0 + 1.0) / 2 - 1)
    ratios = np.array([1.0, 2.0, 4 / 3]) - 1
    assert found.low == pytest.approx(np.percentile(ratios, 2.5))
    assert found.high == pytest.approx(np.percentile(ratios, 97.5))


def test_the_path_shown_is_that_of_the_first_stream() -> None:
    requests = requests_of([[4, 4, 4], [0, 0, 0]])
    rule = FeedbackRule(initial=2, least=1, most=4, interval_requests=1)
    streams = Streams(np.array([[0, 0, 0], [1, 1, 1]]), np.array([[1, 1, 1]]))
    found = feedback_gain(requests, CLOCK, rule, streams)
    assert found.path == (2, 3, 4)
    # 2, 3, 4 and 2, 1, 1
    assert found.mean_length == pytest.approx(13 / 6)
    assert found.tokens_per_round == pytest.approx(1.0)
    assert found.rates[1] == pytest.approx(
        run_feedback(requests, CLOCK, rule, streams.resampled).rate
    )


# ---- confidence


def test_a_single_request_chooses_its_own_threshold() -> None:
    served, thresholds = serve_confident(sure([21], confidence=0.55), CLOCK, MOST)
    # sure up to 0.5: all four drafts of each of four rounds; beyond, none, and a pass in vain
    assert thresholds[0] == thresholds[1] <= 0.5
    assert THRESHOLDS == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    assert served.seconds[0] == pytest.approx([4 * 2.4, 4 * 5.0])


def test_two_requests_choose_for_one_another() -> None:
    requests = sure([21, 21], confidence=0.55)
    served, thresholds = serve_confident(requests, CLOCK, MOST)
    assert max(thresholds) <= 0.5
    assert served.seconds == pytest.approx(np.array([[9.6, 20.0], [9.6, 20.0]]))


# ---- streams


def test_streams_are_drawn_400_times_where_nothing_is_said() -> None:
    requests = requests_of([[1]] * 6)
    streams = Streams.drawn(requests, 3, "mixed", 0)
    assert streams.plain.shape == streams.resampled.shape == (400, 3)
    assert set(streams.plain.ravel()) == set(range(6))
    # a request drawn in every place alike: a sixth of 1,200
    assert np.bincount(streams.plain.ravel()).tolist() == pytest.approx([200] * 6, abs=55)


def test_resampled_requests_keep_their_task_and_their_temperature() -> None:
    tasks, temperatures = ["a", "a", "b", "b"], [0.0, 1.0, 1.0, 1.0]
    requests = requests_of([[1]] * 4, tasks, temperatures)
    by_task = Streams.drawn(requests, 40, "by-task", 1, draws=50)
    # the first request is alone of its kind: only where a stream holds it can it stand
    for streams in (by_task.plain, by_task.resampled):
        of_b = np.array(tasks)[streams] == "b"
        assert (np.diff(of_b.astype(int), axis=1) >= 0).all()
        assert set(streams.ravel()) == {0, 1, 2, 3}
    # of the two that are alike one may stand for both, in about every other resample
    lacking = [not {2, 3} <= set(stream) for stream in by_task.resampled]
    assert 10 < sum(lacking) < 40


def test_a_gain_over_itself_is_none_in_every_stream() -> None:
    requests = requests_of([[4, 0, 1], [2, 2], [0, 0]])
    streams = Streams.drawn(requests, 5, "mixed", 0, draws=20)
    served = fixed(requests, CLOCK, 2)
    found = gain_of(served, served, CLOCK, streams)
    assert (found.low, found.mid, found.high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)
