"""Trees against chains that verify the same number of tokens, and EAGLE's wide trees."""

from __future__ import annotations

import csv
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from capplan.estimate.acceptance import tokens_per_round_from_conditional
from capplan.estimate.trees import best_tree_tokens, equal_budget_tree_tokens, tree_speedup
from capplan.resources import models_db_dir


class Both(NamedTuple):
    """A tree and a chain of the same budget on one text."""

    target: str
    tree_tokens: float
    chain_tokens: float
    tree_speedup: float
    chain_speedup: float


@cache
def specbundle(branches: int, budget: int) -> tuple[Both, ...]:
    path = models_db_dir() / "published/speedup.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["source_key"] == "specbundle"
            and row["quality"] == "ok"
            and float(row["verify_tokens"]) == budget
        ]
    keyed = {
        (row["method"], row["target"], row["draft"], row["task"]): (
            float(row["tau"]),
            float(row["measured_speedup"]),
        )
        for row in rows
    }
    found = []
    for (method, target, draft, task), (tokens, speedup) in keyed.items():
        chain = keyed.get(("EAGLE3 chain", target, draft, task))
        if method == f"EAGLE3 tree topk={branches}" and chain is not None:
            found.append(Both(target, tokens, chain[0], speedup, chain[1]))
    return tuple(found)


@pytest.mark.parametrize(
    ("branches", "budget", "tokens", "speedup"), [(3, 6, 0.91, 0.88), (4, 8, 0.87, 0.85)]
)
def test_a_small_budget_is_better_spent_on_a_chain(
    branches: int, budget: int, tokens: float, speedup: float
) -> None:
    rows = specbundle(branches, budget)
    assert len(rows) == 74
    ratio = [row.tree_tokens / row.chain_tokens for row in rows]
    assert np.mean(ratio) == pytest.approx(tokens, abs=0.005)
    faster = [row.tree_speedup / row.chain_speedup for row in rows]
    assert np.mean(faster) == pytest.approx(speedup, abs=0.005)
    predicted = [equal_budget_tree_tokens(row.chain_tokens, budget, branches).mid for row in rows]
    assert np.mean(predicted) == pytest.approx(np.mean([r.tree_tokens for r in rows]), rel=0.02)


@pytest.mark.parametrize(("branches", "budget", "bound"), [(3, 6, 0.075), (4, 8, 0.112)])
def test_a_chain_tells_the_tree_of_a_target_left_out(
    branches: int, budget: int, bound: float
) -> None:
    rows = specbundle(branches, budget)
    errors, plain, covered = [], [], []
    for target in {row.target for row in rows}:
        rest = [row for row in rows if row.target != target]
        share = np.array([(row.chain_tokens - 1) / (budget - 1) for row in rest])
        logs = np.log([row.tree_tokens / row.chain_tokens for row in rest])
        slope, start = np.polyfit(share, logs, 1)
        for row in (row for row in rows if row.target == target):
            own = (row.chain_tokens - 1) / (budget - 1)
            errors.append(row.chain_tokens * np.exp(start + slope * own) / row.tree_tokens - 1)
            plain.append(row.chain_tokens * np.exp(logs.mean()) / row.tree_tokens - 1)
            low, high = equal_budget_tree_tokens(row.chain_tokens, budget, branches).interval_90()
            covered.append(low <= row.tree_tokens <= high)
    assert np.abs(errors).mean() < bound
    assert np.abs(errors).mean() < np.abs(plain).mean()
    assert 0.85 <= np.mean(covered) <= 0.97


# EAGLE, arXiv:2401.15077, Table 2: acceptance by position of a chain (T = 0), tokens a round of
# its tree of 25 drafted tokens, and of the chain (Table 5)
EAGLE = {
    "Vicuna 7B": ((0.79, 0.74, 0.72, 0.73, 0.67), 3.94, 3.20),
    "Vicuna 13B": ((0.79, 0.74, 0.72, 0.74, 0.70), 3.98, 3.23),
    "Vicuna 33B": ((0.74, 0.69, 0.67, 0.67, 0.66), 3.68, 2.97),
    "LLaMA2-Chat 7B": ((0.76, 0.69, 0.67, 0.68, 0.68), 3.62, 3.00),
    "LLaMA2-Chat 13B": ((0.77, 0.69, 0.69, 0.70, 0.71), 3.90, 3.18),
    "LLaMA2-Chat 70B": ((0.75, 0.69, 0.65, 0.64, 0.64), 3.81, 3.12),
}


@pytest.mark.parametrize("llm", EAGLE)
def test_a_wide_tree_adds_two_thirds_of_a_token_which_no_chain_of_its_depth_reaches(
    llm: str,
) -> None:
    rates, tree, chain = EAGLE[llm]
    assert 0.6 <= tree - chain <= 0.8
    chain_law = float(tokens_per_round_from_conditional(rates)[-1])
    assert chain_law == pytest.approx(chain, rel=0.07)
    # a second choice that is right in 2 to 16 % of the cases explains what the tree adds
    first = float(np.mean(rates))

    def with_second(rate: float) -> float:
        return best_tree_tokens([first, rate, rate / 2], 25, depth=5)

    assert with_second(0.02) < tree < with_second(0.16)


def test_a_tree_that_yields_more_may_still_lose_where_verification_is_dear() -> None:
    # SpecDecode-Bench, arXiv:2601.11580: 2.92 tokens a round of a tree of 21 against 2.25 of a
    # chain of 3, and yet less than 1x at batch 64; its own step constants, context left out
    def target_s(tokens: int) -> float:
        return 2.1010e-5 * 64 * tokens + 5.8859e-3 + 1.2068e-3

    drafting = 2.1353e-3 / target_s(1)  # all levels together
    tree, chain = target_s(22) / target_s(1), target_s(4) / target_s(1)
    assert tree_speedup(2.92, tree, 1, drafting) < 1 < tree_speedup(2.25, chain, 1, drafting)
