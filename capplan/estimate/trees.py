"""Draft trees: what a tree of drafts yields, and what its round costs. Experimental.

No engine that capplan plans for verifies trees (vLLM removed them), so no plan uses this. It tells
whether a tree is worth an engine that has them. docs/method/trees.md
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.uncertainty import LogEstimate

Floats = NDArray[np.float64]


def tree_speedup(
    tokens_per_round: ArrayLike,
    verify_ratio: ArrayLike,
    depth: ArrayLike,
    cost_ratio: ArrayLike,
) -> Floats:
    """Return ``G / (t(n) + d * c)``, speedup of a tree of n tokens and depth d.

    Parameters
    ----------
    tokens_per_round
        G: emitted a round, bonus token included.
    verify_ratio
        t(n): pass over the whole tree in plain decode steps; 1 where verification is free.
    depth
        d: draft passes, one a level.
    cost_ratio
        c: a draft pass over one level, in plain decode steps.

    Notes
    -----
    Sequoia, arXiv:2402.12374. A chain is the tree with n = d = N.
    """
    passes = np.asarray(depth, dtype=float) * np.asarray(cost_ratio, dtype=float)
    result: Floats = np.asarray(tokens_per_round) / (np.asarray(verify_ratio) + passes)
    return result


def best_tree_tokens(
    rank_rates: Sequence[float], nodes: int, depth: int | None = None, fall: float = 0.0
) -> float:
    """Return the most tokens a round that a tree of so many drafted tokens can yield.

    Parameters
    ----------
    rank_rates
        Probability that the draft's first, second ... choice is the accepted one; their sum is at
        most 1 and they do not rise.
    nodes
        Drafted tokens, the verification's own not counted.
    depth
        Most levels; None leaves it open.
    fall
        Exponent by which acceptance falls with the level, as in ``lengths.falling_rates``.

    Notes
    -----
    A token is accepted if its whole path is, so it adds the product of the rates along the path,
    and a node never adds more than its parent: taking the best open node each time is optimal.
    With one rank this is the chain's ``1 + sum of products``.
    """
    rates = np.asarray(rank_rates, dtype=float)
    if (rates < 0).any() or rates.sum() > 1.0 + 1e-9 or (np.diff(rates) > 1e-12).any():
        msg = f"rank_rates={list(rank_rates)} must not rise and must sum to 0 .. 1"
        raise ValueError(msg)
    total, open_nodes = 1.0, [(-1.0, 0)]
    taken = -1  # the root is the verification's own token
    while open_nodes and taken < nodes:
        value, level = heapq.heappop(open_nodes)
        taken += 1
        total += -value if level > 0 else 0.0
        if depth is None or level < depth:
            eased = (level + 1.0) ** -fall
            for rate in rates[rates > 0]:
                heapq.heappush(open_nodes, (value * float(rate) * eased, level + 1))
    return total


EQUAL_BUDGET_LEVEL = {3: (0.034, -0.300, 0.083), 4: (0.086, -0.650, 0.129)}
"""Log of tokens a round of a tree over those of the chain that verifies as many tokens:
(intercept, slope over the chain's share of accepted drafts, scatter), by branches a node.
Least squares on SpecBundle, EAGLE-3 in SGLang, 74 rows each: top-3 trees of 6 tokens,
top-4 trees of 8."""


def equal_budget_tree_tokens(
    chain_tokens: float, verified_tokens: int, branches: int
) -> LogEstimate:
    """Predict tokens a round of a tree from the chain that verifies the same number of tokens.

    Parameters
    ----------
    chain_tokens
        Tokens a round of the chain of N = ``verified_tokens`` - 1.
    verified_tokens
        Tokens of a verification, the same for both; measured at 6 and 8.
    branches
        Children a node may have, 3 or 4.

    Returns
    -------
    LogEstimate
        On average 0.91 (3 branches) and 0.87 (4) of the chain: a small budget is better spent on
        depth, all the more where the chain is accepted often.

    Raises
    ------
    ValueError
        If no tree with so many branches was measured.
    """
    if branches not in EQUAL_BUDGET_LEVEL:
        msg = f"branches={branches}: trees of {sorted(EQUAL_BUDGET_LEVEL)} were measured"
        raise ValueError(msg)
    intercept, slope, scatter = EQUAL_BUDGET_LEVEL[branches]
    accepted_share = (chain_tokens - 1.0) / (verified_tokens - 1.0)
    factor = math.exp(intercept + slope * accepted_share)
    mid = min(max(chain_tokens * factor, 1.0), float(verified_tokens))
    return LogEstimate(mid, scatter, degrees=72.0)
