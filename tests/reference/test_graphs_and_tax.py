"""The step in cost where captured CUDA graphs end, against the one sweep that crosses it."""

from __future__ import annotations

import csv
from functools import cache

import numpy as np
import pytest

from capplan.estimate.cuda_graphs import UNCAPTURED_OVER_EDGE, size_kept, step_seconds
from capplan.estimate.framework_tax import framework_tax
from capplan.resources import models_db_dir

EDGE = 1025  # the sweep's own grid, read off a figure: 1,024 tokens


@cache
def deepseek_v4_flash() -> tuple[np.ndarray, np.ndarray]:
    """Tokens and milliseconds of verifications on four B300 (vLLM blog 2026-08-14)."""
    path = models_db_dir() / "published/verify_cost.csv"
    with path.open(encoding="utf-8", newline="") as file:
        found = [
            (float(row["total_tokens"]), float(row["verify_ms"]))
            for row in csv.DictReader(file)
            if row["model"] == "DeepSeek-V4-Flash-0731" and row["source_key"] == "vllm_adaptive"
        ]
    tokens, milliseconds = np.array(sorted(found)).T
    return tokens, milliseconds


def beyond() -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Tokens beyond the edge, what they took, and what they were predicted to take."""
    tokens, milliseconds = deepseek_v4_flash()
    linear = (tokens >= 512) & (tokens <= EDGE)
    slope, start = np.polyfit(tokens[linear], milliseconds[linear], 1)
    over = tokens > EDGE
    edge_ms = float(milliseconds[tokens == EDGE][0])
    graph_ms = start + slope * tokens[over]
    return tokens[over], milliseconds[over], step_seconds(graph_ms, edge_ms, tokens[over], EDGE)


def test_a_verification_just_beyond_the_edge_takes_five_times_as_long() -> None:
    _, measured, (_, mid, _) = beyond()
    assert len(measured) == 5
    assert measured[0] == pytest.approx(104, abs=1)
    assert mid[:2] == pytest.approx(measured[:2], rel=0.05)


def test_far_beyond_it_the_own_work_of_the_step_takes_over() -> None:
    tokens, measured, (low, mid, high) = beyond()
    assert np.abs(mid / measured - 1).max() < 0.30
    assert ((low <= measured) & (measured <= high)).all()
    assert measured[tokens > 10_000] / measured[0] > 2


def test_six_requests_of_seven_tokens_lost_their_graph_to_a_size_of_42() -> None:
    # vLLM issue 54933: 25.3 tokens/s with the size cut to 40, 133.3 with 42 kept
    assert size_kept(42) < 6 * 7
    ends = UNCAPTURED_OVER_EDGE
    assert ends.mid == pytest.approx(133.3 / 25.3, rel=0.03)
    assert ends.low < 6138.60 / 5452.63 < ends.high  # SGLang, 48 requests, graphs on and off


def test_an_idle_schedule_taxes_as_published() -> None:
    # vLLM issue 49548: +6.6 % at concurrency 2, +21.6 % at 189, nothing drafted
    assert framework_tax(2).mid == pytest.approx(0.066, abs=0.001)
    assert framework_tax(189).mid == pytest.approx(0.216, abs=0.001)
    path = models_db_dir() / "published/throughput.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["source_key"] == "vllm49548"]
    for row in rows:
        taxed = float(row["baseline"]) * (1 + framework_tax(float(row["load"])).mid)
        assert taxed == pytest.approx(float(row["spec"]), rel=1e-3)
