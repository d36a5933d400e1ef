"""Memory in plans: what is rejected says what lacks, what is offered adds up."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import capplan
from capplan import Plan, PlanRequest, Workload, recommend
from capplan.api.plans import plan_inputs
from capplan.planning.memory import handed_out_bytes
from capplan.planning.memory_use import Subject, memory_use
from capplan.planning.planner import find
from capplan.schema.memory import MemoryRequest
from capplan.units import BYTES_PER_GIB

_GPUS = ("h100-sxm-80gb", "a100-sxm-80gb")


def plan(target: str, gpu: str, tp: int, **asked: object) -> Plan:
    request = PlanRequest.model_validate(
        {
            "targets": (target,),
            "gpus": (gpu,),
            "tensor_parallel": (tp,),
            "budget_usd_per_month": 1e6,
            "gpu_price_usd_per_hour": {gpu: "2.0"},
        }
        | asked
    )
    return recommend(request)


def example(found: Plan, reason: str) -> str:
    return next(r.example for r in found.rejections if r.reason == reason)


def test_weights_that_exceed_the_gpu_are_named_as_such() -> None:
    found = plan("meta-llama/Llama-3.3-70B-Instruct", "h100-sxm-80gb", 1)
    assert not found.options
    assert "weights alone take 131.4 GiB a GPU" in example(found, "memory")


def test_a_request_too_long_for_the_pool_says_what_it_needs() -> None:
    long = Workload(prompt_tokens=40_000, output_tokens=500)
    found = plan("Qwen/Qwen3-32B", "h100-sxm-80gb", 1, workload=long)
    text = example(found, "memory")
    # 40,501 tokens of 262,144 bytes are 9.9 GiB
    assert "one request of 40,501 tokens needs 9.9 GiB of KV" in text
    assert "lacks" in text


def test_a_group_that_cannot_share_the_heads_is_rejected_with_the_sizes_that_can() -> None:
    found = plan("Qwen/Qwen2.5-0.5B-Instruct", "h100-sxm-80gb", 4)
    assert "14 query heads are not divisible by 4" in example(found, "tensor_parallel")
    remedy = next(r.remedy for r in found.rejections if r.reason == "tensor_parallel")
    assert remedy.endswith("1, 2.")
    assert plan("Qwen/Qwen2.5-0.5B-Instruct", "h100-sxm-80gb", 2).options


def test_the_parts_of_an_options_memory_add_up() -> None:
    found = plan(
        "Qwen/Qwen3-8B", "h100-sxm-80gb", 1, drafts=("Qwen/Qwen3-0.6B",), assumed_acceptance=0.7
    )
    for option in found.options:
        m = option.memory
        parts = (m.activation_bytes, m.cuda_graph_bytes, m.non_torch_bytes, m.buffer_bytes)
        assert sum(part or 0.0 for part in parts) == pytest.approx(m.overhead_bytes)
        weights = m.target_weight_bytes + m.draft_weight_bytes
        assert m.kv_pool_bytes == pytest.approx(m.usable_bytes - weights - m.overhead_bytes)
        assert m.request_tokens is not None
        assert m.max_concurrency is not None
        assert m.kv_tokens == pytest.approx(m.max_concurrency * m.request_tokens)
        assert option.max_concurrency <= m.max_concurrency


def test_an_a100_runs_a_quarter_of_the_sequences_of_an_h100() -> None:
    short = Workload(prompt_tokens=32, output_tokens=32)
    most = {
        gpu: max(
            o.max_concurrency for o in plan("Qwen/Qwen3-0.6B", gpu, 1, workload=short).options
        )
        for gpu in ("h100-sxm-80gb", "a100-sxm-80gb")
    }
    assert most == {"h100-sxm-80gb": 1024, "a100-sxm-80gb": 256}


def test_windowed_layers_make_room_for_more_long_requests() -> None:
    # of gpt-oss-20b half the layers keep 128 tokens: long requests take half of what all would
    long = Workload(prompt_tokens=30_000, output_tokens=1000)
    memory = plan("openai/gpt-oss-20b", "h100-sxm-80gb", 1, workload=long).options[0].memory
    assert memory.max_concurrency is not None
    assert memory.kv_pool_bytes is not None
    request = memory.kv_pool_bytes / memory.max_concurrency
    assert request == pytest.approx(31_001 * 24 * 8 * 128 * 2 / 2, rel=0.02)


def test_weights_that_fit_without_run_time_are_told_from_those_that_do_not() -> None:
    target, gpu = "meta-llama/Llama-3.1-8B-Instruct", "l40s"
    request, inputs = plan_inputs(
        PlanRequest.model_validate(
            {
                "targets": (target,),
                "gpus": (gpu,),
                "tensor_parallel": (1,),
                "budget_usd_per_month": 1e6,
                "gpu_price_usd_per_hour": {gpu: 1.0},
            }
        )
    )
    # a tenth of a GiB less than the engine's share of the card
    share = handed_out_bytes(inputs.gpus[gpu], inputs.engine) * inputs.engine.memory_utilisation
    size = share - 0.1 * BYTES_PER_GIB
    large = inputs.target(target).model_copy(update={"weight_bytes": size})
    found = find(replace(inputs, llms={target: large}, pairings=()), request)
    rejected = next(r for r in found.log.rejections() if r.reason == "memory")
    asked = MemoryRequest(target=target, gpu=gpu, max_num_batched_tokens=8192, max_model_len=1)
    alone = memory_use(asked, Subject(large, None, inputs.gpus[gpu], inputs.engine))
    assert f"it lacks {-alone.kv_pool_bytes / BYTES_PER_GIB:.1f} GiB a GPU before the first" in (
        rejected.example
    )
    assert "weights and run time leave no room for KV" in rejected.example


@pytest.mark.parametrize("gpu", ["l4", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb"])
def test_plan_launch_text_and_simulation_take_as_many_tokens_a_step(gpu: str) -> None:
    """Whatever the engine's own default for a GPU of that size is: 2,048, 8,192 or 16,384."""
    found = plan("Qwen/Qwen3-0.6B", gpu, 1, workload=Workload(requests_per_s=0.2))
    launched = re.search(r"--max-num-batched-tokens (\d+)", found.options[0].launch)
    assert launched is not None
    assert capplan.simulate_serving(
        found, capplan.ServingWishes(requests=20, shares=(0.5,))
    ).max_num_batched_tokens == int(launched[1])
