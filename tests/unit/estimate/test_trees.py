from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.trees import best_tree_tokens, equal_budget_tree_tokens, tree_speedup


def test_one_rank_is_a_chain() -> None:
    for n in range(6):
        assert best_tree_tokens([0.7], n) == pytest.approx(float(tokens_per_round_iid(0.7, n)))


def every_tree(rates: list[float], nodes: int, depth: int) -> float:
    """Try every set of nodes that is closed towards the root."""
    paths = [p for d in range(1, depth + 1) for p in product(range(len(rates)), repeat=d)]
    best = 0.0
    for chosen in combinations(paths, nodes):
        if all(len(p) == 1 or p[:-1] in chosen for p in chosen):
            best = max(best, sum(float(np.prod([rates[r] for r in p])) for p in chosen))
    return 1.0 + best


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
@pytest.mark.parametrize("rates", [[0.5, 0.3], [0.6, 0.1], [0.4, 0.35]])
def test_the_best_open_node_each_time_gives_the_best_tree(rates: list[float], nodes: int) -> None:
    assert best_tree_tokens(rates, nodes, 3) == pytest.approx(every_tree(rates, nodes, 3))


def test_branches_help_most_where_the_first_choice_is_weak() -> None:
    def gain(first: float) -> float:
        rates = [first, 0.15]
        return best_tree_tokens(rates, 16) / best_tree_tokens(rates[:1], 16)

    assert gain(0.3) > gain(0.6) > gain(0.8) >= 1.0


def test_depth_and_fall_hold_a_tree_back() -> None:
    free = best_tree_tokens([0.7, 0.2], 20)
    assert best_tree_tokens([0.7, 0.2], 20, depth=2) < free
    assert best_tree_tokens([0.7, 0.2], 20, fall=0.3) < free


@pytest.mark.parametrize("rates", [[0.7, 0.5], [0.2, 0.3], [-0.1]])
def test_rates_that_no_draft_can_have_are_refused(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="rank_rates"):
        best_tree_tokens(rates, 4)


def test_a_chain_is_the_tree_of_one_node_a_level() -> None:
    assert tree_speedup(3.0, 1.2, 4, 0.1) == pytest.approx(3.0 / 1.6)


def test_a_tree_of_unmeasured_width_is_refused() -> None:
    with pytest.raises(ValueError, match="branches=2"):
        equal_budget_tree_tokens(3.0, 6, 2)
