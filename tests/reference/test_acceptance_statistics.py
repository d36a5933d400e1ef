"""Reported acceptance statistics that are easy to get wrong, recomputed from their counts."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.acceptance import alpha_from_tokens_per_round, tokens_per_round_iid
from capplan.estimate.counters import AcceptanceCounters, tokens_per_round_from_cumulative
from capplan.estimate.curves import curve_from_facts
from capplan.estimate.lengths import LengthSeries, extrapolate_length, pooled_fall
from capplan.estimate.uncertainty import ratio_of_sums
from capplan.schema.pairing import AcceptanceFact
from capplan.schema.provenance import Kind, Source

# DeepSeek-V4-Flash with MTP, N = 2, temperature 1, four B200: vLLM pull request 41044
GREEDY = AcceptanceCounters(rounds=13548 / 2, drafted=13548, accepted=1393)
SAMPLED = AcceptanceCounters(rounds=8226 / 2, drafted=8226, accepted=4062)


def test_drafts_sampled_at_temperature_one_are_accepted_far_more_often_than_greedy_ones() -> None:
    assert GREEDY.tokens_per_round == pytest.approx(1.2056, rel=0.005)
    assert SAMPLED.tokens_per_round == pytest.approx(1.9876, rel=0.005)
    assert GREEDY.acceptance_rate == pytest.approx(0.1028, abs=1e-4)
    assert SAMPLED.acceptance_rate == pytest.approx(0.4938, abs=1e-4)


@pytest.mark.parametrize(
    ("counters", "positions"), [(GREEDY, (0.149, 0.0567)), (SAMPLED, (0.7002, 0.2874))]
)
def test_counters_by_position_and_totals_agree(
    counters: AcceptanceCounters, positions: tuple[float, float]
) -> None:
    found = tokens_per_round_from_cumulative(positions)
    assert found == pytest.approx(counters.tokens_per_round, rel=0.005)


def test_throughput_gains_less_than_tokens_a_round_do() -> None:
    # 113.4 and 168.71 tokens/s: the rest is what sampled drafts cost more a round
    gain = 168.71 / 113.4
    assert gain == pytest.approx(1.488, rel=0.005)
    assert gain < SAMPLED.tokens_per_round / GREEDY.tokens_per_round


def fact(temperature: float | None, tokens: float, n: int = 4) -> AcceptanceFact:
    return AcceptanceFact(
        target="t",
        draft="d",
        method="eagle",
        task="chat",
        temperature=temperature,
        num_speculative_tokens=n,
        tokens_per_round=tokens,
        definition="bonus token included",
        source=Source(kind=Kind.CITED, reference="paper"),
    )


def test_acceptance_at_temperature_zero_is_not_handed_on_unchanged_to_temperature_one() -> None:
    # EAGLE chain: 1.70 at temperature 0, 1.50 at temperature 1 (SafeAILab/EAGLE issue 143)
    same = curve_from_facts([fact(0.0, 1.70)], 0.0, None)
    moved = curve_from_facts([fact(0.0, 1.70)], 1.0, None)
    assert same is not None
    assert moved is not None
    assert same.at(4) == pytest.approx(1.70, rel=0.01)
    assert moved.at(4) < same.at(4)
    assert moved.relative_se[4] > same.relative_se[4]
    assert "temperature 0" in moved.definition
    assert "brought to temperature 1" in moved.definition
    reach = 1.645 * moved.relative_se[4]
    assert moved.at(4) * (1 - reach) <= 1.50 <= moved.at(4) * (1 + reach)


# Llama-3.1-8B with EAGLE-3, N = 7, temperature 0, 80 prompts: vLLM pull request 26191
MT_BENCH = AcceptanceCounters(rounds=4816, drafted=33712, accepted=12208)
OUTPUT_TOKENS, PROMPTS = 16990, 80


def test_tokens_a_round_hold_the_bonus_token_and_the_rate_does_not() -> None:
    assert MT_BENCH.drafted == 7 * MT_BENCH.rounds
    assert MT_BENCH.tokens_per_round == pytest.approx(3.5349, rel=5e-4)
    assert MT_BENCH.acceptance_rate == pytest.approx(0.36213, rel=5e-4)
    assert MT_BENCH.tokens_per_round == pytest.approx(1 + 7 * MT_BENCH.acceptance_rate)


def test_rounds_emit_a_few_tokens_more_than_requests_keep() -> None:
    assert MT_BENCH.cut_at_the_end(OUTPUT_TOKENS) == 34


def test_the_binomial_interval_is_too_narrow_for_requests_that_differ() -> None:
    assert MT_BENCH.binomial_half_width() == pytest.approx(0.0051, abs=5e-5)
    # prompts whose acceptance scatters by a fifth, as traces of such prompt sets do
    rng = np.random.default_rng(0)
    drafted = np.full(PROMPTS, MT_BENCH.drafted / PROMPTS)
    rate = np.clip(rng.normal(MT_BENCH.acceptance_rate, 0.07, PROMPTS), 0, 1)
    _, relative_se = ratio_of_sums(rate * drafted, drafted)
    clustered = 1.96 * relative_se * MT_BENCH.acceptance_rate
    assert clustered > 2 * MT_BENCH.binomial_half_width()


# tokens a round at N = 1 .. 7 of one head a target: vllm-project/speculators pull request 563
BY_LENGTH = {
    ("coding", "qwen3"): (1.81, 2.40, 2.80, 3.06, 3.22, 3.30, 3.33),
    ("coding", "llama"): (1.79, 2.35, 2.71, 2.88, 3.00, 3.06, 3.10),
    ("maths", "qwen3"): (1.83, 2.50, 2.95, 3.28, 3.45, 3.61, 3.68),
    ("maths", "llama"): (1.81, 2.42, 2.87, 3.12, 3.30, 3.42, 3.45),
    ("summarisation", "qwen3"): (1.69, 2.11, 2.35, 2.46, 2.50, 2.52, 2.52),
    ("summarisation", "llama"): (1.67, 2.05, 2.25, 2.33, 2.37, 2.38, 2.39),
}


def test_one_acceptance_a_token_promises_a_quarter_too_much_at_seven() -> None:
    alpha = alpha_from_tokens_per_round(1.83, 1)
    assert alpha == pytest.approx(0.83)
    promised = float(tokens_per_round_iid(alpha, 7))
    assert promised == pytest.approx(4.557, rel=0.005)
    assert promised / BY_LENGTH["maths", "qwen3"][6] - 1 == pytest.approx(0.238, abs=0.005)


@pytest.mark.parametrize("key", BY_LENGTH, ids="-".join)
def test_three_lengths_tell_the_seventh(key: tuple[str, str]) -> None:
    values = BY_LENGTH[key]
    found = extrapolate_length(LengthSeries((1, 2, 3), values[:3]), 7)
    iid = float(tokens_per_round_iid(alpha_from_tokens_per_round(values[2], 3), 7))
    assert found.mid == pytest.approx(values[6], rel=0.07)
    assert abs(found.mid - values[6]) < abs(iid - values[6])


@pytest.mark.parametrize("key", BY_LENGTH, ids="-".join)
def test_from_one_length_alone_the_answer_owns_its_doubt(key: tuple[str, str]) -> None:
    values = BY_LENGTH[key]
    found = extrapolate_length(LengthSeries((1,), values[:1]), 7)
    low, high = found.interval_90()
    assert low <= values[6] <= high
    others = [
        LengthSeries(tuple(range(1, 8)), tokens)
        for other, tokens in BY_LENGTH.items()
        if other != key
    ]
    told = extrapolate_length(LengthSeries((1,), values[:1]), 7, pooled_fall(others))
    assert told.log_sd < found.log_sd
