"""Replayed rounds, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.replay import replay_per_start, replay_per_token

ONE = np.array([0, 6])


def test_no_drafts_emit_one_token_a_round() -> None:
    counts = replay_per_token(np.full(6, 0.9), ONE, 0)
    assert counts.rounds.tolist() == [5.0]
    assert counts.emitted.tolist() == [5.0]
    assert counts.drafted.tolist() == [0.0]
    assert counts.accepted_per_position.shape == (1, 0)


def test_certain_acceptance_emits_n_plus_one_tokens_a_round() -> None:
    # 12 tokens after the prefill's own, N = 3: three whole rounds of 4
    counts = replay_per_token(np.ones(13), np.array([0, 13]), 3)
    assert counts.rounds.tolist() == [3.0]
    assert counts.accepted.tolist() == [9.0]
    assert counts.accepted_per_position.tolist() == [[3.0, 3.0, 3.0]]


def test_a_text_that_ends_inside_a_round_keeps_what_is_left_of_it() -> None:
    # 5 tokens after the first: one round of 4, then one that is cut after 1 token
    counts = replay_per_token(np.ones(6), ONE, 3)
    assert counts.rounds.tolist() == [2.0]
    assert counts.drafted.tolist() == [3.0 + 1.0]
    assert counts.accepted.tolist() == [3.0 + 1.0]


def test_one_drafted_token_by_hand() -> None:
    # N = 1, p = .5, two tokens to emit: round 1 accepts (.5) and ends the text, or not
    counts = replay_per_token(np.array([0.0, 0.5, 0.5]), np.array([0, 3]), 1)
    assert counts.rounds.tolist() == [1.5]
    assert counts.accepted.tolist() == [0.5 + 0.5 * 0.5]


def test_requests_do_not_leak_into_each_other() -> None:
    probabilities = np.array([0.0, 0.2, 0.4, 0.0, 0.9, 0.9, 0.9, 0.0])
    together = replay_per_token(probabilities, np.array([0, 3, 7, 8]), 2)
    for request, (start, end) in enumerate([(0, 3), (3, 7), (7, 8)]):
        alone = replay_per_token(probabilities[start:end], np.array([0, end - start]), 2)
        assert together.rounds[request] == pytest.approx(alone.rounds[0])
        assert together.accepted[request] == pytest.approx(alone.accepted[0])


def test_a_request_of_one_token_has_no_round() -> None:
    counts = replay_per_token(np.array([0.7]), np.array([0, 1]), 4)
    assert counts.rounds.tolist() == [0.0]
    assert counts.emitted.tolist() == [0.0]


def test_a_long_uniform_trace_reaches_the_iid_law() -> None:
    counts = replay_per_token(np.full(20001, 0.8), np.array([0, 20001]), 5)
    assert counts.emitted[0] / counts.rounds[0] == pytest.approx(3.68928, rel=1e-3)


def test_lookup_replay_by_hand() -> None:
    # starts at 1: accepts 2, next start 4: proposes 1 and fails, next 5: nothing, next 6: end
    proposed = np.array([0, 3, 3, 3, 1, 0], dtype=np.uint8)
    accepted = np.array([0, 2, 1, 0, 0, 0], dtype=np.uint8)
    counts = replay_per_start(proposed, accepted, ONE, 3)
    assert counts.rounds.tolist() == [3.0]
    assert counts.drafted.tolist() == [4.0]
    assert counts.accepted.tolist() == [2.0]
    assert counts.accepted_per_position.tolist() == [[1.0, 1.0, 0.0]]
    shorter = replay_per_start(proposed, accepted, ONE, 1)
    # starts 1 (accepts 1 of 1), 3 (fails), 4 (fails), 5 (nothing proposed)
    assert shorter.rounds.tolist() == [4.0]
    assert shorter.drafted.tolist() == [3.0]
    assert shorter.accepted.tolist() == [1.0]


def test_accepted_over_drafted_times_n_is_tokens_per_round_less_the_bonus() -> None:
    counts = replay_per_token(np.full(60001, 0.75), np.array([0, 60001]), 4)
    rate = counts.accepted[0] / counts.drafted[0]
    assert 1 + rate * 4 == pytest.approx(counts.emitted[0] / counts.rounds[0], rel=1e-3)
    # METHOD 7: at a = .75, N = 4 accepted/drafted is far from the acceptance a token
    assert rate == pytest.approx(0.513, abs=1e-3)
