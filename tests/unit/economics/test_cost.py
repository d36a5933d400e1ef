"""Dollars and tokens, against hand-worked and published figures."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.economics.cost import (
    nodes_needed,
    replicas_for,
    usd_per_million_tokens,
    usd_per_month,
)


def test_a_month_has_730_hours() -> None:
    assert float(usd_per_month(1, 2.0)) == 1460.0
    assert float(usd_per_month(3, 2.0)) == 3 * 1460.0


def test_h100_fp8_at_full_use_as_published() -> None:
    # 2.69 USD an hour at 3,653.1 tokens/s: 0.2045 USD a million (silybench)
    million = usd_per_million_tokens(usd_per_month(1, 2.69), 3653.1)
    assert float(million) == pytest.approx(0.2045, abs=5e-5)


def test_half_the_use_doubles_the_price_of_a_token() -> None:
    month = usd_per_month(1, 2.69)
    full, half = usd_per_million_tokens(month, 3653.1), usd_per_million_tokens(month, 3653.1 / 2)
    assert float(half) == pytest.approx(2 * float(full))


@pytest.mark.parametrize(
    ("replicas", "tp", "node", "nodes"),
    [(1, 1, 8, 1), (8, 1, 8, 1), (9, 1, 8, 2), (3, 4, 8, 2), (2, 8, 8, 2), (1, 3, 8, 1)],
)
def test_replicas_fill_whole_nodes(replicas: int, tp: int, node: int, nodes: int) -> None:
    assert float(nodes_needed(replicas, tp, node)) == nodes


def test_a_replica_never_spans_two_nodes() -> None:
    # 3 GPUs a replica on nodes of 4: one a node, though 8 GPUs hold 6
    assert float(nodes_needed(2, 3, 4)) == 2
    assert np.isinf(nodes_needed(1, 8, 4))


@pytest.mark.parametrize("replicas", [1, 3, 7, 49, 1000])
def test_an_exact_fit_is_not_rounded_up(replicas: int) -> None:
    rate, utilisation = 1234.56, 0.7
    assert float(replicas_for(replicas * rate * utilisation, rate, utilisation)) == replicas


def test_a_little_more_than_fits_takes_one_more_and_nothing_takes_one() -> None:
    assert float(replicas_for(100.001, 100.0, 1.0)) == 2
    assert float(replicas_for(0.001, 100.0, 1.0)) == 1


def test_costs_broadcast() -> None:
    assert usd_per_million_tokens(np.array([730.0, 1460.0]), np.array([[1.0], [2.0]])).shape == (
        2,
        2,
    )
