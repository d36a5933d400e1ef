"""Traced requests put side by side, and draws of what they leave in doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.errors import ProfileError
from capplan.estimate.controller_gains import Streams, feedback_gain, gain_of, weights_of
from capplan.estimate.controllers import FeedbackRule, RoundClock, fixed
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.length_spread import tokens_of_curve, tokens_of_requests
from capplan.estimate.length_times import nearest_traces, profile_draws, round_times, token_times
from capplan.estimate.traced_requests import TracedTexts, trace_requests
from capplan.estimate.variable_length import confident_drafts
from capplan.schema.cells import DraftSampling

LENGTHS = np.arange(5)
BATCHES = np.array([1, 2, 8])


def two_cells(synthetic: Any, **second: Any) -> Any:
    """Return a profile of code at temperature 0 and chat at 0.7, and its arrays."""
    arrays = synthetic.trace_arrays(0, 3, 20, 0.9) | synthetic.trace_arrays(1, 2, 30, 0.4)
    cells = (
        synthetic.acceptance_cell(3, 20),
        synthetic.acceptance_cell(2, 30, **({"task": "chat", "temperature": 0.7} | second)),
    )
    return synthetic.profile(acceptance=cells)[0], arrays


def test_requests_stand_in_the_order_of_their_cells(synthetic: Any) -> None:
    found = trace_requests([two_cells(synthetic)])
    assert (found.count, found.longest) == (5, 16)
    assert found.task.tolist() == ["code"] * 3 + ["chat"] * 2
    assert found.temperature.tolist() == [0.0] * 3 + [0.7] * 2
    assert found.counts[0].rounds.tolist() == [19.0] * 3 + [29.0] * 2
    assert found.texts is not None
    assert found.texts.lengths.tolist() == [20, 20, 20, 30, 30]
    assert found.texts.accept_prob.shape == (5, 30)
    assert found.texts.accept_prob[0, 20:].tolist() == [0.0] * 10  # padding
    assert found.texts.accept_prob[4, 29] == pytest.approx(0.4)
    assert found.texts.confidence is None
    assert not found.texts.is_lookup


def test_temperatures_may_be_chosen_and_must_have_been_traced(synthetic: Any) -> None:
    assert trace_requests([two_cells(synthetic)], [0.7]).count == 2
    with pytest.raises(ProfileError, match=r"traced: 0, 0\.7"):
        trace_requests([two_cells(synthetic)], [1.0])
    with pytest.raises(ProfileError, match="traced: none"):
        trace_requests([synthetic.profile(draft=None)])


def test_probabilistic_drafts_have_their_own_acceptance(synthetic: Any) -> None:
    texts = trace_requests([two_cells(synthetic)], mode=DraftSampling.PROBABILISTIC).texts
    assert texts is not None
    assert texts.accept_prob[0, 0] == pytest.approx(0.81)


def test_confidence_is_known_only_if_every_cell_has_it(synthetic: Any) -> None:
    profile, arrays = two_cells(synthetic)
    one = arrays | {"acceptance/0/draft_confidence": np.full(60, 0.5, dtype=np.float32)}
    assert trace_requests([(profile, one)]).texts.confidence is None  # type: ignore[union-attr]
    both = one | {"acceptance/1/draft_confidence": np.full(60, 0.25, dtype=np.float32)}
    confidence = trace_requests([(profile, both)]).texts.confidence  # type: ignore[union-attr]
    assert confidence is not None
    assert (confidence[0, 19], confidence[0, 20], confidence[4, 29]) == (0.5, 0.0, 0.25)


def test_lookups_and_an_engines_rounds(synthetic: Any) -> None:
    found = trace_requests([synthetic.profile(draft="ngram", requests=2, tokens_each=10)])
    assert found.texts is not None
    assert found.texts.is_lookup
    assert found.texts.accept_prob.tolist() == [[2.0] * 10] * 2
    profile, arrays = two_cells(synthetic)
    cell = synthetic.acceptance_cell(1, 9, trace_kind="per_round", max_num_speculative_tokens=4)
    rounds = {
        "acceptance/0/offsets": np.array([0, 2]),
        "acceptance/0/drafted": np.array([4, 4], dtype=np.uint8),
        "acceptance/0/accepted": np.array([4, 2], dtype=np.uint8),
    }
    ran = synthetic.profile(acceptance=(cell,))[0], rounds
    engine = trace_requests([ran])
    assert engine.texts is None
    assert engine.longest == 4
    with pytest.raises(ProfileError, match=r"different kinds \(per_round, per_token\)"):
        trace_requests([(profile, arrays), ran])


# ---- draws


def clock() -> RoundClock:
    round_s = 1.0 + 0.1 * np.arange(17)[None, :] * np.ones((2, 1))
    return RoundClock(
        np.array([1, 4]), np.array([0.5, 0.5]), round_s, np.full(2, 0.1), np.zeros(2)
    )


def test_streams_are_drawn_from_the_requests_in_the_order_asked_for(synthetic: Any) -> None:
    requests = trace_requests([two_cells(synthetic)])
    by_task = Streams.drawn(requests, 50, "by-task", seed=1, draws=7)
    assert by_task.plain.shape == by_task.resampled.shape == (7, 50)
    tasks = requests.task[by_task.plain]
    assert all((row[:-1] <= row[1:]).all() for row in tasks)  # chat before code
    hotter = requests.temperature[Streams.drawn(requests, 50, "hotter", seed=1, draws=7).plain]
    assert (np.diff(hotter, axis=1) >= 0).all()
    mixed = requests.task[Streams.drawn(requests, 50, "mixed", seed=1, draws=7).plain]
    assert not all((row[:-1] <= row[1:]).all() for row in mixed)
    # a stratum is resampled from itself: its share stays that of the places drawn
    assert set(np.unique(by_task.resampled)) <= set(range(5))


def test_weights_count_each_request_in_each_stream() -> None:
    streams = np.array([[0, 2, 2], [1, 1, 1]])
    assert weights_of(streams, 3).tolist() == [[1, 0, 2], [0, 3, 0]]


def test_a_gain_has_an_interval_that_holds_its_middle(synthetic: Any) -> None:
    requests = trace_requests([two_cells(synthetic)])
    streams = Streams.drawn(requests, 40, "mixed", seed=2, draws=50)
    two, none = fixed(requests, clock(), 2), fixed(requests, clock(), 0)
    gain = gain_of(two, none, clock(), streams)
    ones = np.ones(5)
    expected = float(two.rate(clock(), ones) / none.rate(clock(), ones)) - 1
    assert gain.mid == pytest.approx(expected)
    assert gain.low < gain.mid < gain.high
    nothing = gain_of(none, none, clock(), streams)
    assert nothing.low == nothing.mid == nothing.high == 0.0


def test_the_rule_that_always_drafts_n_is_that_single_length(synthetic: Any) -> None:
    requests = trace_requests([two_cells(synthetic)])
    streams = Streams.drawn(requests, 40, "mixed", seed=3, draws=20)
    rule = FeedbackRule(initial=3, least=3, most=3, interval_requests=10)
    found = feedback_gain(requests, clock(), rule, streams)
    assert found.mean_length == 3.0
    assert found.path == (3, 3, 3, 3)
    gain = found.over(fixed(requests, clock(), 3), clock(), streams)
    assert gain.mid == pytest.approx(0.0, abs=1e-12)
    assert (gain.low, gain.high) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert found.over(fixed(requests, clock(), 0), clock(), streams).mid > 0.2


def test_resampled_requests_scatter_about_all_of_them(synthetic: Any) -> None:
    requests = trace_requests([two_cells(synthetic)])
    drawn, count = tokens_of_requests(requests.counts, seed=4, draws=300)
    assert count == 5
    assert drawn.shape == (300, 17)
    assert (drawn[:, 0] == 1.0).all()  # plain decoding: a token a round, whoever is drawn
    assert drawn[:, 4].mean() == pytest.approx(1.0, abs=0.1)
    assert drawn[:, 4].std() > 0.05


def test_a_curve_errs_alike_at_every_length() -> None:
    factors = np.log(tokens_of_curve(np.array([0.0, 0.1, 0.2]), seed=1, draws=4000))
    assert (factors[:, 0] == 0).all()
    assert factors[:, 2] == pytest.approx(2 * factors[:, 1])
    assert factors[:, 1].std() == pytest.approx(0.1, rel=0.05)


@pytest.fixture
def evidence(synthetic: Any) -> ProfileEvidence:
    return evidence_from_profile(*two_cells(synthetic))


def test_the_traces_nearest_in_temperature_are_read(evidence: ProfileEvidence) -> None:
    assert {one.task for one in nearest_traces(evidence, 0.1, None)} == {"code"}
    assert {one.task for one in nearest_traces(evidence, 2.0, "code")} == {"chat"}


def test_of_one_temperature_the_task_asked_for(synthetic: Any) -> None:
    both = evidence_from_profile(*two_cells(synthetic, temperature=0.0))
    assert [one.task for one in nearest_traces(both, 0.0, "chat")] == ["chat"]
    assert [one.task for one in nearest_traces(both, 0.0, "poems")] == ["code", "chat"]
    assert [one.task for one in nearest_traces(both, 0.0, None)] == ["code", "chat"]
    assert nearest_traces(evidence_from_profile(*synthetic.profile(draft=None)), 0.0, None) == ()


def test_draws_of_a_profile_know_requests_temperature_and_fit(evidence: ProfileEvidence) -> None:
    traces = nearest_traces(evidence, 0.0, None)
    here, there = evidence.curve(0.0, None), evidence.curve(0.3, None)
    assert here is not None
    assert there is not None
    measured = profile_draws(evidence, traces, here, LENGTHS, seed=7)
    assert measured.tokens.shape == measured.rounds.shape == (2000, 5)
    assert (measured.tokens[:, 0] == 1.0).all()
    assert (measured.rounds[:, 0] == 1.0).all()
    moved = profile_draws(evidence, traces, there, LENGTHS, seed=7)
    # three requests alike: what another temperature leaves in doubt is all the doubt there is
    assert measured.tokens[:, 3].std() < 0.01 < moved.tokens[:, 3].std()
    spread = np.log(moved.tokens[:, 3]).std()
    assert spread == pytest.approx(float(there.relative_se[3]), rel=0.1)


def test_rounds_of_a_profile_by_batch_and_length(
    synthetic: Any, evidence: ProfileEvidence
) -> None:
    context = 1000.0
    found = round_times(evidence, BATCHES, LENGTHS, context)
    for row, batch in enumerate(BATCHES.tolist()):
        for n in LENGTHS.tolist():
            expected = synthetic.TARGET_TIMES.seconds(batch, n + 1, 1000)
            expected += n * synthetic.DRAFT_TIMES.seconds(batch, 1, 1000)
            assert found.round_s[row, n] == pytest.approx(expected, rel=1e-6)
    assert found.at(2).tolist() == found.round_s[1].tolist()
    assert found.pass_s[2] == pytest.approx(synthetic.DRAFT_TIMES.seconds(8, 1, 1000), rel=1e-6)
    curve = evidence.curve(0.0, None)
    assert curve is not None
    times = token_times(found, curve)
    assert times.token_s[0, 3] == pytest.approx(found.round_s[0, 3] / curve.at(3))


def test_steps_beyond_the_captured_size_cost_more(evidence: ProfileEvidence) -> None:
    free = round_times(evidence, BATCHES, LENGTHS, 1000.0)
    held = round_times(evidence, BATCHES, LENGTHS, 1000.0, captured=16)
    assert (held.round_s[:2] == free.round_s[:2]).all()  # at most 2 * 5 tokens
    assert held.round_s[2, 1] == free.round_s[2, 1]  # 8 * 2 tokens are captured
    assert held.round_s[2, 2] > 2 * free.round_s[2, 2]


def test_lookups_that_seldom_draft_take_little_more_than_plain_steps(synthetic: Any) -> None:
    profile, arrays = synthetic.profile(draft="ngram", requests=2, tokens_each=200)
    found = arrays["acceptance/0/proposed"].copy()
    found[np.arange(400) % 5 != 0] = 0
    seldom = arrays | {
        "acceptance/0/proposed": found, "acceptance/0/accepted": np.zeros_like(found),
    }  # fmt: skip
    evidence = evidence_from_profile(profile, seldom)
    curve = evidence.curve(0.0, None)
    assert curve is not None
    share = curve.draft_share[4]
    assert share == pytest.approx(0.2, abs=0.01)
    rounds = round_times(evidence, BATCHES, LENGTHS, 500.0, curve).round_s[0]
    always = round_times(evidence, BATCHES, LENGTHS, 500.0).round_s[0]
    assert rounds[4] == pytest.approx(share * always[4] + (1 - share) * always[0], rel=1e-6)


def test_the_nearest_temperature_is_the_one_that_is_nearest(evidence: ProfileEvidence) -> None:
    for asked, nearest in ((0.6, "0.7"), (0.2, "0"), (2.0, "0.7")):
        curve = evidence.curve(asked, None)
        assert curve is not None
        assert f"at temperature {nearest}, greedy drafts" in curve.definition


def test_a_draft_just_sure_enough_is_sure_enough() -> None:
    confidence = np.array([[0.9, 0.5, 0.49, 0.9]])
    texts = TracedTexts(np.ones((1, 4)), np.array([4]), is_lookup=False, confidence=confidence)
    drafts = confident_drafts(texts, 0.5, 2)
    assert drafts.tokens.tolist() == [[2, 1, 0, 1]]
    assert drafts.stopped.tolist() == [[False, True, True, True]]
