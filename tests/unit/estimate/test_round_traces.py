"""Rounds of an engine with a draft LLM, laid out as the text that they wrote."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from capplan.estimate.replay import count_rounds, replay_per_token
from capplan.estimate.round_traces import tokens_of_rounds


def rounds_over(text: list[bool], length: int) -> list[int]:
    """Decode a text whose tokens the draft knows or not; return accepted drafts a round."""
    place, accepted = 1, []
    while place + length < len(text):  # rounds that the end cuts are left out
        run = 0
        while run < length and text[place + run]:
            run += 1
        accepted.append(run)
        place += run + 1
    return accepted


def arrays(requests: list[list[int]], length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    accepted = np.array([a for one in requests for a in one], dtype=np.uint8)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in requests])]).astype(np.int64)
    return np.full_like(accepted, length), accepted, offsets


def test_accepted_drafts_the_wrong_one_and_the_bonus_token_take_their_places():
    tokens, offsets = tokens_of_rounds(*arrays([[1, 2, 2, 0], [], [1]], 2))
    # of the rounds with the first draft right, 2 of 4 had the second one right
    assert tokens.tolist() == [0, 1, 0, 1, 1, 0.5, 1, 1, 0.5, 0, 0, 0, 1, 0]
    assert offsets.tolist() == [0, 10, 11, 14]


@given(
    texts=st.lists(st.lists(st.booleans(), min_size=2, max_size=40), min_size=1, max_size=4),
    length=st.integers(1, 6),
)
def test_at_the_length_that_ran_the_rounds_come_back_exactly(texts, length):
    given_rounds = arrays([rounds_over(text, length) for text in texts], length)
    back = replay_per_token(*tokens_of_rounds(*given_rounds), length)
    ran = count_rounds(*given_rounds, length)
    for name in ("rounds", "accepted", "accepted_per_position"):
        assert getattr(back, name) == pytest.approx(getattr(ran, name)), name


@given(text=st.lists(st.booleans(), min_size=3, max_size=60), length=st.integers(1, 6))
def test_shorter_rounds_are_exact_where_no_round_was_accepted_in_full(text, length):
    # a wrong draft at least every N tokens: every round shows one
    known = [right and place % length != 0 for place, right in enumerate(text)]
    accepted = rounds_over(known, length)
    tokens, offsets = tokens_of_rounds(*arrays([accepted], length))
    written = int(offsets[-1])
    for n in range(length + 1):
        truth = replay_per_token(np.array(known[:written], float), offsets, n)
        assert replay_per_token(tokens, offsets, n).accepted == pytest.approx(truth.accepted)


def test_a_draft_that_knows_runs_of_tokens_is_worth_more_short_than_its_long_rounds_show():
    """Runs of known tokens are swallowed by one long round each; short rounds start inside."""
    source = np.random.default_rng(1)
    text, known = [], False
    for _ in range(40_000):
        known = bool(source.random() < (0.85 if known else 0.15))
        text.append(known)
    given_rounds = arrays([rounds_over(text, 4)], 4)
    truth = replay_per_token(np.array(text, float), np.array([0, len(text)]), 1)
    exact = 1 + truth.accepted[0] / truth.rounds[0]
    laid_out = replay_per_token(*tokens_of_rounds(*given_rounds), 1)
    cut = count_rounds(*given_rounds, 1)
    assert 1 + laid_out.accepted[0] / laid_out.rounds[0] == pytest.approx(exact, rel=0.01)
    assert 1 + cut.accepted[0] / cut.rounds[0] < exact * 0.95
