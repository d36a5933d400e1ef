"""A middle LLM pays on the stated condition and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from capplan.estimate.multilevel import (
    InnerPair,
    acceptance_needed,
    best_pair,
    drafted_alone,
    falling_rates,
    least_token_s,
    multilevel_speedup,
    pays,
    proposal_s,
    surplus_tokens,
)

LONGEST = 12
shares = st.floats(0.0, 0.99)
costs = st.floats(0.001, 2.0)
verify = st.floats(1.0, 2.0)


@given(shares, costs, verify, st.floats(0.1, 1.0))
def test_the_surplus_has_the_sign_of_the_best_length(
    acceptance: float, draft_s: float, verify_s: float, other_s: float
) -> None:
    rates = falling_rates(acceptance, LONGEST)
    surplus = float(surplus_tokens(rates, draft_s, verify_s, other_s))
    n = np.arange(LONGEST + 1)
    token_s = (n * draft_s + verify_s) / (1.0 + np.concatenate([[0.0], rates.cumsum()]))
    assume(abs(surplus) > 1e-9)
    assert (surplus > 0) == bool(token_s.min() < other_s)


@given(costs, costs, st.integers(1, LONGEST), shares)
def test_an_inner_draft_that_is_never_accepted_never_pays(
    small_s: float, middle_s: float, n: int, acceptance: float
) -> None:
    pair, _ = best_pair(np.zeros(n), small_s, middle_s)
    assert not pays(pair, middle_s)
    rates = falling_rates(acceptance, LONGEST)
    alone_s, _ = least_token_s(rates, middle_s, 1.0, 1.0)
    assert float(surplus_tokens(rates, pair.token_s, 1.0, alone_s)) <= 1e-12


@given(shares, st.floats(0.001, 1.0), verify)
def test_a_middle_llm_equal_to_the_target_never_pays(
    acceptance: float, small_s: float, verify_s: float
) -> None:
    # it drafts as fast as two levels write, and is never refused
    rates = falling_rates(acceptance, LONGEST)
    two_levels_s, _ = least_token_s(rates, small_s, verify_s, 1.0)
    pair, _ = best_pair(rates, small_s, verify_s)
    surplus = surplus_tokens(np.ones(LONGEST), pair.token_s, verify_s, two_levels_s)
    assert float(surplus) <= 1e-9
    assert acceptance_needed(pair.token_s + 1e-9, verify_s, two_levels_s) is None


@given(shares, costs, costs)
def test_a_pair_beats_the_middle_llm_alone_if_and_only_if_one_draft_does(
    acceptance: float, small_s: float, middle_s: float
) -> None:
    assume(abs(small_s / middle_s - acceptance) > 1e-9)
    pair, _ = best_pair(falling_rates(acceptance, LONGEST), small_s, middle_s)
    assert pays(pair, middle_s) == (small_s / middle_s < acceptance)


@given(costs, verify, st.floats(1.0, 17.0), st.integers(1, 16))
def test_a_pair_that_drafts_nothing_is_two_levels(
    draft_s: float, verify_s: float, tokens: float, n: int
) -> None:
    alone = drafted_alone(draft_s)
    assert alone == InnerPair(1.0, draft_s)
    two_levels = tokens / (n * draft_s + verify_s)
    assert multilevel_speedup(tokens, n, alone, verify_s, 1.0) == pytest.approx(two_levels)
    assert proposal_s(n, [], [draft_s]) == pytest.approx(n * draft_s)


@given(shares, costs, costs, st.integers(1, 8), st.integers(1, 16))
def test_a_cut_proposal_takes_more_than_full_rounds_and_less_than_a_round_a_token(
    acceptance: float, small_s: float, middle_s: float, n: int, count: int
) -> None:
    rates = falling_rates(acceptance, n).tolist()
    round_s = [drafts * small_s + middle_s for drafts in range(n + 1)]
    pair = InnerPair(1.0 + sum(rates), round_s[-1])
    exact_s = proposal_s(count, rates, round_s)
    shorter = (InnerPair(1.0 + sum(rates[:d]), round_s[d]).token_s for d in range(n))
    if pair.token_s <= min(shorter):  # else a round with fewer drafts is the quicker one
        assert exact_s >= count * pair.token_s * (1 - 1e-9)
    assert exact_s <= count * round_s[-1] * (1 + 1e-9)


@given(shares, shares, costs, verify, st.floats(0.2, 1.0))
def test_a_better_accepted_middle_llm_never_pays_less(
    low: float, high: float, draft_s: float, verify_s: float, other_s: float
) -> None:
    low, high = sorted((low, high))
    worse, better = (
        float(surplus_tokens(falling_rates(a, LONGEST), draft_s, verify_s, other_s))
        for a in (low, high)
    )
    assert worse <= better + 1e-12
