"""Replay against brute force; inverses and fits against what was planted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from capplan.estimate.acceptance import (
    alpha_from_tokens_per_round,
    decaying_rates,
    fit_decay,
    tokens_per_round_from_conditional,
    tokens_per_round_iid,
)
from capplan.estimate.replay import replay_per_start, replay_per_token

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def brute_force(accept_prob: list[float], n: int) -> dict[str, float]:
    """Enumerate which positions would accept, walk the rounds, weigh by probability."""
    length = len(accept_prob)
    total = dict.fromkeys(("rounds", "drafted", "accepted"), 0.0)
    for outcome in product((False, True), repeat=length):
        weight = float(
            np.prod([p if ok else 1 - p for p, ok in zip(accept_prob, outcome, strict=True)])
        )
        position, rounds, drafted, accepted = 1, 0, 0, 0
        while position < length:
            rounds += 1
            k = 0
            drafted += min(n, length - position)
            while k < n and position + k < length and outcome[position + k]:
                k += 1
            accepted += k
            position += k + 1
        for key, value in (("rounds", rounds), ("drafted", drafted), ("accepted", accepted)):
            total[key] += weight * value
    return total


@given(probabilities, st.integers(0, 5))
def test_replay_equals_the_enumeration_of_every_outcome(p: list[float], n: int) -> None:
    counts = replay_per_token(np.array(p), np.array([0, len(p)]), n)
    expected = brute_force(p, n)
    assert counts.rounds[0] == pytest.approx(expected["rounds"])
    assert counts.drafted[0] == pytest.approx(expected["drafted"])
    assert counts.accepted[0] == pytest.approx(expected["accepted"])
    assert counts.emitted[0] == len(p) - 1


@given(st.lists(st.floats(0, 1), min_size=2, max_size=60), st.integers(0, 15))
def test_longer_drafts_never_need_more_rounds(p: list[float], n: int) -> None:
    offsets = np.array([0, len(p)])
    shorter = replay_per_token(np.array(p), offsets, n)
    longer = replay_per_token(np.array(p), offsets, n + 1)
    assert longer.rounds[0] <= shorter.rounds[0] + 1e-9
    assert shorter.emitted[0] / shorter.rounds[0] <= n + 1 + 1e-9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 16))
def test_counts_of_a_replay_agree_with_each_other(p: list[float], n: int) -> None:
    counts = replay_per_token(np.array(p), np.array([0, len(p)]), n)
    per_position = counts.accepted_per_position[0]
    assert (np.diff(per_position) <= 1e-9).all()
    assert counts.accepted[0] == pytest.approx(per_position.sum())
    assert counts.accepted[0] <= counts.drafted[0] + 1e-9
    # every round emits what it accepts and one more, but for a bonus past the end of the text
    surplus = counts.accepted[0] + counts.rounds[0] - counts.emitted[0]
    assert -1e-9 <= surplus <= 1 + 1e-9


@given(
    st.lists(st.tuples(st.integers(0, 16), st.integers(0, 16)), min_size=1, max_size=40),
    st.integers(0, 16),
)
def test_lookup_replay_equals_a_naive_walk(pairs: list[tuple[int, int]], n: int) -> None:
    length = len(pairs)
    proposed = [min(a, length - i) for i, (a, _) in enumerate(pairs)]
    accepted = [min(b, p) for (_, b), p in zip(pairs, proposed, strict=True)]
    counts = replay_per_start(np.array(proposed), np.array(accepted), np.array([0, length]), n)
    position, rounds, drafted, total = 1, 0, 0, 0
    while position < length:
        rounds, drafted = rounds + 1, drafted + min(proposed[position], n)
        k = min(accepted[position], n)
        total, position = total + k, position + k + 1
    assert (counts.rounds[0], counts.drafted[0], counts.accepted[0]) == (rounds, drafted, total)


@given(st.floats(0, 1), st.integers(1, 16))
def test_alpha_is_recovered_from_its_own_tokens_per_round(alpha: float, n: int) -> None:
    tau = float(tokens_per_round_iid(alpha, n))
    assert alpha_from_tokens_per_round(min(tau, n + 1.0), n) == pytest.approx(alpha, abs=1e-6)


@given(st.floats(0.2, 0.98), st.floats(0.6, 1.1))
def test_planted_decay_is_recovered(first: float, ratio: float) -> None:
    curve = tokens_per_round_from_conditional(decaying_rates(first, ratio, 16))
    lengths = [2, 3, 5, 8]
    fitted = decaying_rates(*fit_decay(lengths, curve[lengths]), 16)
    np.testing.assert_allclose(tokens_per_round_from_conditional(fitted), curve, rtol=2e-3)
