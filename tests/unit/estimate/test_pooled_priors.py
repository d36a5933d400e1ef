"""What is foretold of machines that nobody measured: amounts and doubts, worked out by hand.

One term of the work at a time: then the prediction is the amount times the usual factor, and its
relative error the root of the squares of the factor's own spread, of what every group that was
never measured may differ by, and of one measurement's scatter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from capplan.estimate import decoding, round_cost, serving
from capplan.estimate.decoding import DecodeSetting, decode_work, half_precision_flops
from capplan.estimate.pooling import Factor, Work, fit_pooled
from capplan.estimate.round_cost import (
    MachineRound,
    planned_groups,
    round_groups,
    round_work,
)
from capplan.estimate.serving import ServingSetting, prompt_seconds, tpot_work, ttft_work
from capplan.facts.catalog import load_catalog

CATALOG = load_catalog()
LLAMA_70B = CATALOG.llm("meta-llama/Llama-3.1-70B-Instruct")
LLAMA_8B = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
QWEN_MOE = CATALOG.llm("Qwen/Qwen3-30B-A3B")
H100 = CATALOG.gpu("h100-sxm-80gb")
BANDWIDTH, BF16, FP8, NVLINK = 3.35e12, 989e12, 1978e12, 900e9
PARAMS_8B, PARAMS_70B = 8.030261248e9, 70.553706496e9

STEP = DecodeSetting(LLAMA_8B, H100, "vLLM V1", "H100", 2.0, 4, 8, 1000)
SERVED = ServingSetting(LLAMA_70B, H100, "vllm", 4, 1.0, 1.0, FP8, 16, 1024, 512)


def doubts(
    factors: Sequence[Factor], groups: Work, noise: float
) -> dict[str, tuple[float, float]]:
    """Return value and relative error of a second's work in each term alone."""
    fit = fit_pooled(factors, [], [], noise)
    found = {}
    for index, factor in enumerate(factors):
        amounts = tuple(float(index == place) for place in range(len(factors)))
        one = fit.predict(replace(groups, amounts=amounts))
        found[factor.name] = (one.value, one.relative_se)
    return found


def expected(
    rows: dict[str, tuple[float, float, tuple[float, ...]]], noise: float
) -> dict[str, tuple[float, float]]:
    return {
        name: (pytest.approx(usual), pytest.approx(math.hypot(own, *groups, noise)))
        for name, (usual, own, groups) in rows.items()
    }


# ---- decode steps


def test_doubt_of_a_decode_step_on_a_machine_never_measured() -> None:
    # family, engine, board; of weights also kind of memory, architecture and number format
    weights = (0.2, 0.15, 0.1, 0.3, 0.1, 0.3, 0.2)
    rows = {
        "layer": (40e-6, 1.0, (0.5, 0.4, 0.4)),
        "exchange": (5e-6, 1.0, (0.5, 0.4, 0.5)),
        "weights": (1 / 0.8, 0.25, weights),
        "kv": (1 / 0.7, 0.3, (0.2, 0.15, 0.25)),
        "flops": (1 / 0.4, 0.7, (0.3, 0.3, 0.3)),
        "request": (5e-6, 1.5, (0.5, 0.5, 0.5)),
    }
    assert decoding.NOISE == 0.04
    assert doubts(decoding.FACTORS, decode_work(STEP), decoding.NOISE) == expected(rows, 0.04)


def test_a_decode_step_in_data_sheet_seconds() -> None:
    layer, exchange, weights, kv, flops, request = decode_work(STEP).amounts
    assert layer == 32
    assert exchange == 32 * 2  # four GPUs take two rounds of an exchange
    assert weights == pytest.approx(PARAMS_8B * 2 / (4 * BANDWIDTH))
    # 32 layers, 8 heads of 128 for keys and values in 2 bytes, over four GPUs
    assert kv == pytest.approx(8 * 32 * 8 * 256 * 2 / 4 * 1000 / BANDWIDTH)
    assert flops == pytest.approx(8 * 2 * PARAMS_8B / (4 * BF16))
    assert request == 8


def test_gpus_older_than_bf16_multiply_in_fp16() -> None:
    old = H100.model_copy(update={"bf16_flops_per_s": None, "fp16_flops_per_s": 125e12})
    assert half_precision_flops(old) == 125e12
    assert half_precision_flops(old.model_copy(update={"bf16_flops_per_s": 1e12})) == 1e12


@pytest.mark.parametrize(
    ("bytes_per_param", "is_same"),
    [(2.0, True), (1.51, True), (1.5, False), (1.0, False), (0.8, False), (0.5, False)],
)
def test_number_formats_share_what_they_were_measured_at(
    bytes_per_param: float, is_same: bool
) -> None:
    groups = [group for group, _ in decode_work(STEP).groups[2]]
    others = [
        group for group, _ in decode_work(replace(STEP, bytes_per_param=bytes_per_param)).groups[2]
    ]
    assert (groups == others) is is_same


def test_eight_and_four_bits_are_two_formats() -> None:
    sizes = (1.2, 0.81, 0.8, 0.5)
    at = [decode_work(replace(STEP, bytes_per_param=size)).groups[2] for size in sizes]
    assert at[0] == at[1] != at[2] == at[3]


# ---- rounds

ROUND_ROWS = {
    "step": (1.0, 0.02, ()),
    "round_ms": (0.6, 0.5, (0.25, 0.6)),
    "experts": (1.0, 0.4, (0.2,)),
    "flops": (1.0, 0.5, (0.3,)),
    "exchange": (1.6, 0.3, ()),
    "head": (1.0, 0.25, (0.2,)),
    "draft": (1.0, 0.25, (0.1,)),
    "pass_ms": (0.25, 0.7, (0.3, 1.0)),
}
PLANNED_ROWS = {
    "step": (1.0, 0.02, (0.02,)),
    "round_s": (0.95e-3, 0.4, (0.25, 0.6)),
    "experts": (1.0, 0.4, (0.2, 0.4)),
    "arithmetic": (1.0, 0.25, (0.2, 0.4)),
    "exchange": (1.0, 0.5, (0.3, 0.3)),
    "head": (1.0, 0.25, (0.2, 0.3)),
    "draft": (1.0, 0.1, (0.1, 0.1)),
    "draft_pass_s": (0.35e-3, 0.7, (1.0, 0.5)),
}


def test_doubt_of_a_round_of_an_engine_and_a_deployment_never_measured() -> None:
    assert round_cost.ROUND_NOISE == 0.06
    measured = Work((), round_groups("vllm", "a"))
    assert doubts(round_cost.ROUND_FACTORS, measured, 0.06) == expected(ROUND_ROWS, 0.06)
    planned = Work((), planned_groups("vllm", "a"))
    assert doubts(round_cost.PLANNED_FACTORS, planned, 0.06) == expected(PLANNED_ROWS, 0.06)


def test_groups_are_those_of_the_engine_first_and_of_the_deployment_second() -> None:
    assert round_groups("vllm", "a")[1] == (
        (("engine", "vllm"), 0.25),
        (("deployment", "a"), 0.6),
    )
    assert planned_groups("vllm", "a")[0] == ((("deployment", "a"), 0.02),)


def step_seconds(setting: DecodeSetting) -> float:
    return fit_pooled(decoding.FACTORS, [], []).predict(decode_work(setting)).value


def of_round(machine: MachineRound) -> dict[str, float]:
    work = round_work(machine, fit_pooled(decoding.FACTORS, [], []))
    names = [factor.name for factor in round_cost.ROUND_FACTORS]
    return dict(zip(names, work.amounts, strict=True))


def overlapped(read_s: float, multiply_s: float) -> float:
    return (read_s**3 + multiply_s**3) ** (1 / 3) - read_s


@pytest.mark.parametrize("batch", [1, 8, 200])
def test_a_dense_round_in_decode_steps(batch: int) -> None:
    target = replace(STEP, batch=batch)
    found = of_round(MachineRound(target, 3, 4, 4e8, None))
    step_s = step_seconds(target)
    read_s = PARAMS_8B * 2 / (4 * BANDWIDTH * 0.85)
    row_s = batch * 2 * PARAMS_8B / (4 * BF16 * 0.4)
    extra_s = overlapped(read_s, 4 * row_s) - overlapped(read_s, row_s)
    # two all-reduces in each of 32 layers, 4,096 elements of 2 bytes, 1.5 times over the ring
    exchange_s = 3 * batch * 2 * 32 * 4096 * 2 * 1.5 / (NVLINK / 2)
    assert found == {
        "step": 1.0,
        "round_ms": pytest.approx(1e-3 / step_s),
        "experts": 0.0,
        "flops": pytest.approx(extra_s / step_s, rel=1e-6),
        "exchange": pytest.approx(exchange_s / step_s),
        "head": pytest.approx(3 * 4e8 * 2 / (4 * BANDWIDTH * 0.85) / step_s),
        "draft": 0.0,
        "pass_ms": pytest.approx(3e-3 / step_s),
    }


def test_a_round_of_experts_reads_those_that_its_extra_tokens_touch() -> None:
    target = replace(STEP, llm=QWEN_MOE, tensor_parallel=1)
    found = of_round(MachineRound(target, 3, 4, 2e8, None))

    def touched(rows: int) -> float:  # 8 of 128, alike by 0.44
        return float(128 * (1 - (1 - 8 / 128) ** (1 + 0.44 * (rows - 1))))

    expert = (QWEN_MOE.params_total - QWEN_MOE.params_active) / 120
    more_s = (touched(32) - touched(8)) * expert * 2 / (BANDWIDTH * 0.85)
    assert found["experts"] == pytest.approx(more_s / step_seconds(target))
    assert found["exchange"] == 0.0


def test_a_round_seen_through_the_prompts_of_others() -> None:
    step_s = step_seconds(STEP)
    alone = of_round(MachineRound(STEP, 3, 4, 4e8, None))
    shared = of_round(
        MachineRound(STEP, 3, 4, 4e8, None, prefill_s=step_s / 3, tokens_per_round=2.0)
    )
    # a quarter of a token's time is the prompts of others
    assert shared["step"] == pytest.approx(0.75 + 0.25 * 2.0)
    assert shared["head"] == pytest.approx(0.75 * alone["head"])
    assert shared["pass_ms"] == pytest.approx(0.75 * alone["pass_ms"])
    # where it is not said what a round yields, it is one token
    plain = of_round(MachineRound(STEP, 3, 4, 4e8, None, prefill_s=step_s / 3))
    assert plain["step"] == pytest.approx(1.0)


# ---- serving loops


def test_doubt_of_a_serving_loop_never_measured() -> None:
    engine = (0.1,)
    tpot = {
        "layer": (6e-5, 0.3, engine),
        "weights": (1 / 0.9, 0.1, engine),
        "kv": (1 / 0.9, 0.03, engine),
        "request": (4e-5, 0.5, engine),
        "flops": (1 / 0.7, 0.3, engine),
        "attention": (1 / 0.25, 0.5, engine),
        "exchange": (1 / 0.7, 0.3, engine),
    }
    ttft: dict[str, tuple[float, float, tuple[float, ...]]] = {
        "first": (0.05, 0.5, ()),
        "own": (1.0, 0.5, ()),
        "others": (0.07, 0.7, ()),
        "token": (2e-5, 0.7, ()),
        "tokens_of_others": (1e-6, 1.0, ()),
        "wait": (1.0, 0.05, ()),
    }
    assert (serving.TPOT_NOISE, serving.TTFT_NOISE, serving.TTFT_SCATTER) == (0.075, 0.1, 0.3)
    assert doubts(serving.TPOT_FACTORS, tpot_work(SERVED), 0.075) == expected(tpot, 0.075)
    assert doubts(serving.TTFT_FACTORS, ttft_work(SERVED, 0.02), 0.1) == expected(ttft, 0.1)


KV_BYTES = 80 * 8 * 256 / 4 * (1024 + 256)
"""Of a request of mean length on one of four GPUs: 80 layers, 8 heads of 128, twice, 1 byte."""


def test_room_is_what_weights_and_five_gigabytes_leave_of_92_percent() -> None:
    pool = 0.92 * 85_520_809_984 - 5e9 - PARAMS_70B / 4
    assert SERVED.context == 1280
    assert SERVED.kv_bytes_per_request == KV_BYTES
    assert SERVED.room == pytest.approx(pool / KV_BYTES)
    assert replace(SERVED, tensor_parallel=1, bytes_per_param=2.0).room == 1.0
    assert SERVED.running == 16


def test_an_output_token_in_data_sheet_seconds() -> None:
    prompt_tokens = 15 * 1024 / 512  # that 15 other requests bring to each token
    attention = 4 * 8192 * 80 * 512  # a prompt token sees half of its prompt
    exchange_s = 2 * 80 * 8192 * 2 * 1.5 / (NVLINK / 2)
    assert tpot_work(SERVED).amounts == pytest.approx(
        (
            80,
            PARAMS_70B / (4 * BANDWIDTH),
            16 * KV_BYTES / BANDWIDTH,
            16,
            (prompt_tokens + 1.5 * 16) * 2 * PARAMS_70B / (4 * FP8),
            prompt_tokens * attention / (4 * BF16),
            (prompt_tokens + 16) * exchange_s,
        )
    )


def test_a_first_token_in_seconds() -> None:
    token_s = 2 * PARAMS_70B / (4 * FP8 * 0.6) + 4 * 8192 * 80 * 512 / (4 * BF16 * 0.3)
    own_s = 1024 * token_s
    assert prompt_seconds(SERVED) == pytest.approx(own_s)
    assert ttft_work(SERVED, 0.02).amounts == pytest.approx(
        (1.0, own_s, 15 * own_s, 1024, 15 * 1024, 0.0)
    )
