"""Published step-time fits of Llama-3.1-8B with EAGLE on one H100, put through our round.

Constants and traces: SpecDecode-Bench (arXiv:2601.11580, vLLM 0.10/0.11), its simulator's linear
fits in seconds; tokens a round of EAGLE on GSM8K from its traces of 300 requests.
"""

from __future__ import annotations

import pytest

from capplan.estimate.batch_curve import BatchPoint, speedup_between
from capplan.estimate.cuda_graphs import (
    captured_tokens,
    largest_captured_batch,
    step_seconds,
)
from capplan.estimate.framework_tax import framework_tax
from capplan.estimate.lengths import LengthSeries, extrapolate_length
from capplan.estimate.round_transfer import MeasuredRound, RoundSetting, transfer_round_ratio
from capplan.estimate.speculation import round_ratio

OVERHEAD_S = 1.2068e-3
CONTEXT_TOKENS = 94 + 166 / 2  # half way through the output
TOKENS = {1: 1.699, 3: 2.391, 5: 2.666, 7: 2.765}
BATCHES = (1, 32, 64, 128)
SPEEDUP = {
    1: {1: 1.30, 3: 1.83, 5: 2.03},
    32: {1: 1.25, 3: 1.56, 5: 1.56},
    64: {1: 1.21, 3: 1.39, 5: 1.31},
    128: {1: 1.16, 3: 1.20, 5: 1.06},
}


def target_s(batch: int, tokens_per_sequence: int) -> float:
    tokens = batch * tokens_per_sequence
    return 3.9265e-8 * batch * CONTEXT_TOKENS + 2.1010e-5 * tokens + 5.8859e-3


def draft_pass_s(batch: int, n: int) -> float:
    """A share of the drafting phase, which the fit takes as a whole."""
    tokens = batch * n
    return (2.3777e-9 * batch * CONTEXT_TOKENS + 8.414e-7 * tokens + 2.1353e-3) / n


def ratio(batch: int, n: int) -> float:
    # the overhead is paid by a plain step as well
    decode_s = target_s(batch, 1) + OVERHEAD_S
    return float(
        round_ratio(n, draft_pass_s(batch, n), target_s(batch, n + 1), decode_s, OVERHEAD_S)
    )


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("n", [1, 3, 5])
def test_speedups_of_the_published_constants(batch: int, n: int) -> None:
    assert TOKENS[n] / ratio(batch, n) == pytest.approx(SPEEDUP[batch][n], rel=0.01)


def test_the_measured_speedup_at_batch_128_is_met() -> None:
    assert TOKENS[3] / ratio(128, 3) == pytest.approx(1.21, rel=0.01)


def test_the_best_length_moves_from_5_to_3_near_batch_32() -> None:
    def best(batch: int) -> int:
        return max((1, 3, 5), key=lambda n: TOKENS[n] / ratio(batch, n))

    assert best(1) == 5
    assert best(16) == 5
    assert best(48) == 3
    assert best(128) == 3


def with_graphs(batch: int, n: int) -> tuple[float, float]:
    """Speedup at a batch, pessimistic and middle, where graphs end at vLLM's default."""
    captured = captured_tokens(1024, n)
    edge_s = target_s(largest_captured_batch(captured, n), n + 1)
    tokens = batch * (n + 1)
    _, mid, high = step_seconds(target_s(batch, n + 1), edge_s, tokens, captured)
    decode_s = target_s(batch, 1) + OVERHEAD_S

    def speedup(verify_s: float) -> float:
        parts = round_ratio(n, draft_pass_s(batch, n), verify_s, decode_s, OVERHEAD_S)
        return TOKENS[n] / float(parts)

    return speedup(float(high)), speedup(float(mid))


def test_three_drafts_gain_up_to_batch_128_and_lose_where_their_graphs_end() -> None:
    assert with_graphs(128, 3) == pytest.approx((1.21, 1.21), rel=0.01)
    assert with_graphs(129, 3)[1] < 0.5
    # one draft is captured up to 256, and so is the better length between the two edges
    assert with_graphs(129, 1)[1] > 1.1
    assert with_graphs(257, 1)[1] < 0.5


def test_switching_off_through_a_schedule_is_worse_than_a_small_gain() -> None:
    # plain serving is 1.00; a schedule that drafts nothing at batch 128 pays its tax
    off = 1 / (1 + framework_tax(128).mid)
    assert off == pytest.approx(0.835, abs=0.005)
    assert off < SPEEDUP[128][5] < SPEEDUP[128][3]


@pytest.mark.parametrize("batch", BATCHES)
def test_two_lengths_of_the_sweep_give_the_third(batch: int) -> None:
    def setting(n: int) -> RoundSetting:
        return RoundSetting("EAGLE", "chain", n, n + 1, "gsm8k", 0.0, TOKENS[n])

    given = [MeasuredRound(setting(n), ratio(batch, n)) for n in (1, 5)]
    found = transfer_round_ratio(given, setting(3))
    assert found is not None
    assert TOKENS[3] / found.mid == pytest.approx(SPEEDUP[batch][3], rel=0.05)


@pytest.mark.parametrize("batch", [32, 64])
def test_two_batches_give_the_ones_between(batch: int) -> None:
    ends = [BatchPoint(b, SPEEDUP[b][3]) for b in (1, 128)]
    found = speedup_between(ends[0], ends[1], batch)
    low, high = found.interval_90()
    assert low <= SPEEDUP[batch][3] <= high


# EAGLE and n-gram on four datasets, tokens a round at N = 1, 3, 5, 7 (same traces)
EAGLE_TRACES = {
    "gsm8k": (1.699, 2.391, 2.666, 2.765),
    "cnn": (1.674, 2.329, 2.578, 2.694),
    "sharegpt": (1.661, 2.254, 2.478, 2.582),
    "instructcoder": (1.681, 2.348, 2.625, 2.760),
}


@pytest.mark.parametrize("dataset", EAGLE_TRACES)
def test_the_seventh_position_follows_from_shorter_drafts(dataset: str) -> None:
    known = EAGLE_TRACES[dataset]
    found = extrapolate_length(LengthSeries((1, 3, 5), known[:3]), 7)
    assert found.mid == pytest.approx(known[3], rel=0.025)
