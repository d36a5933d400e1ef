from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.multilevel import (
    NOT_DEPLOYABLE,
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
from capplan.estimate.speculation import round_ratio


def test_an_inner_pair_that_drafts_nothing_is_a_plain_draft() -> None:
    ratio = float(round_ratio(4, 1e-3, 12e-3, 10e-3, 1e-3))
    found = multilevel_speedup(3.0, 4, drafted_alone(1e-3), 12e-3, 10e-3, 1e-3)
    assert found == pytest.approx(3.0 / ratio)


def test_a_second_level_pays_where_the_pair_writes_faster_than_the_middle_llm() -> None:
    middle_s = 5e-3
    fast, slow = InnerPair(2.5, 7e-3), InnerPair(1.2, 7e-3)
    assert pays(fast, middle_s)
    assert not pays(slow, middle_s)
    alone = multilevel_speedup(3.0, 4, drafted_alone(middle_s), 22e-3, 20e-3)
    assert multilevel_speedup(3.0, 4, fast, 22e-3, 20e-3) > alone
    assert multilevel_speedup(3.0, 4, slow, 22e-3, 20e-3) < alone


def test_the_surplus_by_hand() -> None:
    # c / t = 0.3 / 0.6 = 0.5: of the rates 0.8, 0.64, 0.512, 0.41 three exceed it, by
    # 0.3, 0.14 and 0.012; the verification costs 1 / 0.6 tokens of the other way
    rates = [0.8, 0.64, 0.512, 0.4096]
    assert float(surplus_tokens(rates, 0.3, 1.0, 0.6)) == pytest.approx(1.452 - 1 / 0.6)
    # and the best N is 3: (3 x 0.3 + 1) / (1 + 1.952) = 0.6436, slower than 0.6
    best_s, n = least_token_s(rates, 0.3, 1.0, 1.0)
    assert (best_s, n) == (pytest.approx(1.9 / 2.952), 3)
    assert float(surplus_tokens(rates, 0.3, 1.0, 0.65)) > 0


def test_the_surplus_broadcasts() -> None:
    rates = np.stack([falling_rates(0.5, 4), falling_rates(0.9, 4)])
    found = surplus_tokens(rates, np.array([0.1, 0.1]), 1.0, np.array([0.6, 0.6]))
    assert found.shape == (2,)
    assert found[0] < 0 < found[1]


def test_the_acceptance_that_a_middle_llm_needs_by_hand() -> None:
    # one position alone: 1 + a - c / t > V / t, so a > 0.1 / 0.8 + 1 / 0.8 - 1
    assert acceptance_needed(0.1, 1.0, 0.8, positions=1) == pytest.approx(0.375, abs=1e-9)
    # drafting slower than the other way writes: hopeless, whatever is accepted
    assert acceptance_needed(0.8, 1.0, 0.8) is None


def test_the_best_pair_by_hand() -> None:
    # n = 1: 1.1 / 1.6; n = 2: 1.2 / 1.96; n = 3: 1.3 / 2.176; n = 4: 1.4 / 2.3056
    pair, n = best_pair(falling_rates(0.6, 4), 0.1, 1.0)
    assert n == 3
    assert pair.token_s == pytest.approx(1.3 / 2.176)


def test_a_proposal_that_is_cut_by_hand() -> None:
    # three tokens, two drafts a round, rates 0.5 and 0.25, rounds of 1, 1.1 and 1.2:
    # one wanted: 1. Two wanted: one draft, 1.1 + 0.5 x 1. Three wanted: two drafts, 1.2, and
    # with 0.5 two are left (1.6), with 0.25 one (1)
    assert proposal_s(1, [0.5, 0.25], [1.0, 1.1, 1.2]) == pytest.approx(1.0)
    assert proposal_s(2, [0.5, 0.25], [1.0, 1.1, 1.2]) == pytest.approx(1.6)
    assert proposal_s(3, [0.5, 0.25], [1.0, 1.1, 1.2]) == pytest.approx(1.2 + 0.8 + 0.25)
    assert proposal_s(0, [0.5], [1.0, 1.1]) == 0.0


def test_without_inner_drafts_a_proposal_is_one_pass_a_token() -> None:
    assert proposal_s(5, [], [2.0]) == pytest.approx(10.0)


def test_the_cut_vanishes_in_long_proposals() -> None:
    rates, rounds = falling_rates(0.7, 3).tolist(), [1.0, 1.1, 1.2, 1.3]
    pair = InnerPair(1.0 + sum(rates), rounds[-1])
    ratios = [proposal_s(n, rates, rounds) / (n * pair.token_s) for n in (4, 16, 200)]
    assert ratios[0] > ratios[1] > ratios[2] > 1.0
    assert ratios[2] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("n", [4, 12])
def test_the_composition_is_close_to_rounds_really_played_out(n: int) -> None:
    # two levels of independent acceptance; the pair drafts no more than can be used
    rng = np.random.default_rng(4)
    inner_n, outer, inner = 3, 0.85, 0.7
    pass_s, middle_s, verify_s, decode_s = 0.1e-3, 2e-3, 21e-3, 20e-3
    spent = tokens = 0.0
    for _ in range(4000):
        drafted = 0
        while drafted < n:
            drafts = min(inner_n, n - drafted - 1)
            drafted += 1 + int((np.cumprod(rng.random(drafts) < inner)).sum())
            spent += drafts * pass_s + middle_s
        spent += verify_s
        tokens += 1 + int((np.cumprod(rng.random(n) < outer)).sum())
    rates = falling_rates(inner, inner_n).tolist()
    pair = InnerPair(1.0 + sum(rates), inner_n * pass_s + middle_s)
    outer_tokens = 1.0 + float(falling_rates(outer, n).sum())
    found = multilevel_speedup(outer_tokens, n, pair, verify_s, decode_s)
    played = tokens * decode_s / spent
    assert played <= found * 1.01
    assert found == pytest.approx(played, rel=0.08)
    # with the cut counted the error is that of the random numbers
    round_s = [drafts * pass_s + middle_s for drafts in range(inner_n + 1)]
    with_cut = outer_tokens * decode_s / (proposal_s(n, rates, round_s) + verify_s)
    assert with_cut == pytest.approx(played, rel=0.015)


def test_what_is_shown_says_that_no_engine_runs_it() -> None:
    assert "vLLM" in NOT_DEPLOYABLE
