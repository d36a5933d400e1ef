"""One forward pass: what it must do with batch, tokens, context and tensor parallelism."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup, beyond_reading
from capplan.estimate.fitted_step import FittedStep
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine

ENGINE = load_engine("vllm")


def step(llm: Any, tp: int = 1, gpu: str = "h100-sxm-80gb") -> DatasheetStep:
    group = HardwareGroup.of([(load_catalog().gpu(gpu), tp)], ENGINE)
    return DatasheetStep(llm, group, ENGINE)


def seconds(
    model: DatasheetStep, batch: float = 1, tokens: float = 1, context: float = 0
) -> float:
    return float(model.seconds(batch, tokens, context).squeeze())


LLAMA_8B = load_catalog().llm("meta-llama/Llama-3.1-8B-Instruct")
QWEN_MOE = load_catalog().llm("Qwen/Qwen3-30B-A3B")


def test_the_decode_step_is_the_sum_of_its_terms(synthetic: Any) -> None:
    # H100 SXM: 3.35 TB/s; toy LLM: 16 layers, 2 GB, 64 KiB of KV a token
    h100 = load_catalog().gpu("h100-sxm-80gb")
    weights = 2e9 / (ENGINE.weight_bandwidth_efficiency * h100.memory_bytes_per_s)
    kv = 65536 * 4 * 1000 / (ENGINE.kv_bandwidth_efficiency * h100.memory_bytes_per_s)
    token = ENGINE.decoded_token_cost * 2e9 / (ENGINE.loop_flops_efficiency * 989e12)
    expected = 16 * ENGINE.layer_s + weights + kv + 4 * (ENGINE.request_s + token)
    assert seconds(step(synthetic.llm()), 4, 1, 1000) == pytest.approx(expected)


def test_verification_adds_arithmetic_that_reading_the_weights_partly_hides(
    synthetic: Any,
) -> None:
    h100 = load_catalog().gpu("h100-sxm-80gb")
    token = 2e9 / (ENGINE.verify_flops_efficiency["hopper"] * h100.bf16_flops_per_s)
    model = step(synthetic.llm())
    for batch, least, most in ((8, 0.2, 0.5), (1024, 0.9, 1.0)):
        added = seconds(model, batch, 4, 5000) - seconds(model, batch, 1, 5000)
        assert least < added / (batch * 3 * token) < most


def test_multiplying_beyond_reading_lies_between_their_sum_and_their_maximum() -> None:
    assert float(beyond_reading(3.0, 4.0, 1.0)) == pytest.approx(4.0)
    assert float(beyond_reading(3.0, 4.0, 2.0)) == pytest.approx(2.0)
    assert float(beyond_reading(3.0, 4.0, 60.0)) == pytest.approx(1.0, abs=0.01)


def test_context_is_read_once_a_pass_however_many_tokens_are_verified() -> None:
    model = step(LLAMA_8B)
    decode = seconds(model, 8, 1, 8000) - seconds(model, 8, 1, 0)
    verify = seconds(model, 8, 5, 8000) - seconds(model, 8, 5, 0)
    assert verify == pytest.approx(decode)


@pytest.mark.parametrize("llm", [LLAMA_8B, QWEN_MOE], ids=["dense", "experts"])
def test_a_step_never_gets_shorter_with_more_work(llm: Any) -> None:
    model = step(llm)
    batches = np.array([1, 2, 8, 64, 512], dtype=float)
    for axis in (
        model.seconds(batches, 4, 1000),
        model.seconds(8, batches, 1000),
        model.seconds(8, 4, batches * 100),
    ):
        assert (np.diff(axis.ravel()) > 0).all()


def test_tensor_parallelism_pays_less_than_its_number_of_gpus() -> None:
    one, two = seconds(step(LLAMA_8B, 1), 8, 1, 4000), seconds(step(LLAMA_8B, 2), 8, 1, 4000)
    assert one / 2 < two < one


def test_kv_heads_are_not_split_beyond_one_a_gpu(synthetic: Any) -> None:
    two_heads = synthetic.llm(kv_heads=2, layers=1, weight_bytes=1.0, weight_bytes_active=1.0)
    at_2, at_8 = (
        seconds(step(two_heads, tp), 64, 1, 10000) - seconds(step(two_heads, tp), 64, 1, 0)
        for tp in (2, 8)
    )
    assert at_2 == pytest.approx(at_8)


def test_fp8_weights_verify_at_the_fp8_peak(synthetic: Any) -> None:
    bf16 = synthetic.llm()
    fp8 = synthetic.llm(weight_bytes=1e9, weight_bytes_active=1e9)
    extra = [seconds(step(m), 64, 8) - seconds(step(m), 64, 1) for m in (bf16, fp8)]
    h100 = load_catalog().gpu("h100-sxm-80gb")
    assert h100.fp8_flops_per_s is not None
    assert extra[0] / extra[1] == pytest.approx(h100.fp8_flops_per_s / h100.bf16_flops_per_s)


def test_experts_are_read_as_tokens_touch_them() -> None:
    model = step(QWEN_MOE)
    h100 = load_catalog().gpu("h100-sxm-80gb")
    rate = ENGINE.weight_bandwidth_efficiency * h100.memory_bytes_per_s
    token_s = 2 * QWEN_MOE.params_active / h100.bf16_flops_per_s
    request = ENGINE.request_s + ENGINE.decoded_token_cost * token_s / ENGINE.loop_flops_efficiency
    fixed = QWEN_MOE.layers * ENGINE.layer_s
    assert seconds(model) == pytest.approx(fixed + request + QWEN_MOE.weight_bytes_active / rate)
    many = seconds(model, 1024) - 1024 * request - fixed
    assert many == pytest.approx(QWEN_MOE.weight_bytes / rate, rel=1e-3)


def test_hardware_lengths_and_batches_broadcast_to_three_axes() -> None:
    catalog = load_catalog()
    choices = [(catalog.gpu("h100-sxm-80gb"), 1), (catalog.gpu("l4"), 2)]
    model = DatasheetStep(LLAMA_8B, HardwareGroup.of(choices, ENGINE), ENGINE)
    lengths = np.arange(1, 6, dtype=float)[None, :, None]
    assert model.seconds(np.arange(1.0, 8.0), lengths, 500).shape == (2, 5, 7)
    assert model.relative_se.shape == (2, 1, 1)


def test_unknown_kv_bytes_are_refused_not_guessed(synthetic: Any) -> None:
    with pytest.raises(ValueError, match="no constant KV bytes"):
        seconds(step(synthetic.llm(kv_bytes_per_token=None)))


def test_a_fitted_step_is_its_formula() -> None:
    fitted = FittedStep(1e-3, 0.0, 2e-4, 3e-5, 4e-8, 5e-6, 0.01)
    expected = 1e-3 + 2e-4 * 4 + 3e-5 * 4 * 2 + 4e-8 * 4 * 100
    assert float(fitted.seconds(4, 3, 100)) == pytest.approx(expected)
    assert float(fitted.prompt_seconds(100)) == pytest.approx(5e-4)
    assert float(fitted.interference_seconds(100)) == pytest.approx(5e-4)


def test_a_long_prompt_costs_more_a_token_than_a_short_one() -> None:
    model = step(LLAMA_8B)
    for cost in (model.prompt_seconds, model.interference_seconds):
        assert float(cost(8000).squeeze()) > 8 * float(cost(1000).squeeze())


def test_every_verified_token_is_exchanged_within_a_tensor_parallel_group() -> None:
    grown = [
        seconds(step(LLAMA_8B, 4), 64, 4) - seconds(step(LLAMA_8B, 4), 64, 1),
        seconds(step(LLAMA_8B, 1), 64, 4) - seconds(step(LLAMA_8B, 1), 64, 1),
    ]
    # a quarter of the arithmetic, and 64 x 3 tokens' all-reduces over NVLink at 450 GB/s
    moved = 64 * 3 * 2 * 32 * 4096 * 2 * 2 * 3 / 4
    exchanged = moved / 4.5e11 / ENGINE.exchange_efficiency
    assert grown[0] == pytest.approx(grown[1] / 4 + exchanged)
