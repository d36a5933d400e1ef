from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.multilevel import InnerPair, drafted_alone, multilevel_speedup, pays
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


def test_the_composition_is_close_to_rounds_really_played_out() -> None:
    # two levels of independent acceptance; the inner pair's last round is cut at N
    rng = np.random.default_rng(4)
    n, inner_n, outer, inner = 12, 3, 0.85, 0.7
    pass_s, middle_s, verify_s, decode_s = 0.1e-3, 2e-3, 21e-3, 20e-3
    spent = tokens = 0.0
    for _ in range(4000):
        drafted = 0
        while drafted < n:
            drafted += 1 + int((np.cumprod(rng.random(inner_n) < inner)).sum())
            spent += inner_n * pass_s + middle_s
        spent += verify_s
        tokens += 1 + int((np.cumprod(rng.random(n) < outer)).sum())
    inner_tokens = sum(inner**i for i in range(inner_n + 1))
    pair = InnerPair(inner_tokens, inner_n * pass_s + middle_s)
    outer_tokens = sum(outer**i for i in range(n + 1))
    found = multilevel_speedup(outer_tokens, n, pair, verify_s, decode_s)
    played = tokens * decode_s / spent
    assert played <= found * 1.01
    assert found == pytest.approx(played, rel=0.08)
