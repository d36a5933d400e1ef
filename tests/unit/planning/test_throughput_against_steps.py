"""The closed form of a plan's throughput is held to the engine run step by step."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.api.plans import recommend
from capplan.api.served_machine import Machine, MachineWishes
from capplan.api.served_option import machine_of_plan
from capplan.estimate.serving_acceptance import NO_DRAFTS
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.workload import Workload

LOADS = {
    "short prompts": (128, 512, 0.0),
    "usual": (1000, 300, 0.0),
    "half of it cached": (1000, 300, 0.5),
    "long prompts": (30_000, 300, 0.0),
    "long ones, mostly cached": (8000, 100, 0.6),
}


def planned(prompt: int, output: int, cached: float) -> Plan:
    return recommend(
        PlanRequest(
            targets=("meta-llama/Llama-3.1-8B-Instruct",),
            budget_usd_per_month=1e8,
            workload=Workload(
                requests_per_s=20.0,
                prompt_tokens=prompt,
                output_tokens=output,
                prefix_cache_hit_rate=cached,
            ),
            gpus=("h100-sxm-80gb",),
        )
    )


def closed_loop(machine: Machine, load: tuple[int, int, float], n: int, batch: int) -> float:
    """Return tokens a second of so many requests at a time, each followed by the next."""
    prompt, output, cached = load
    count = max(6 * batch, 40)
    rng = np.random.default_rng(1)
    outputs = rng.integers(int(output * 0.7), int(output * 1.3) + 1, count)
    prompts = np.full(count, prompt)
    held = (prompts * cached).astype(int)
    limits = EngineLimits(batch, machine.max_num_batched_tokens, 10**8, num_speculative_tokens=n)
    run = simulate_load(
        Traffic(prompts, outputs, held, concurrency=batch),
        limits,
        machine.clock,
        machine.accepted if n else NO_DRAFTS,
        seed=1,
    )
    return float(run.steady_requests_per_s() * outputs.mean())


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_throughput_is_what_the_steps_give(load: tuple[int, int, float]) -> None:
    plan = planned(*load)
    ranks = {option.num_speculative_tokens > 0: rank for rank, option in _curves(plan)}
    assert True in ranks
    for rank in ranks.values():
        option = plan.options[rank - 1]
        n = option.num_speculative_tokens
        machine = machine_of_plan(plan, rank, None, MachineWishes(max_num_seqs=128), (), ())
        for point in option.load_curve:
            if point.concurrency in (1, 2, 8, 64):
                found = closed_loop(machine, load, n, point.concurrency)
                assert point.output_tokens_per_s.mid == pytest.approx(found, rel=0.04)


def _curves(plan: Plan) -> list[tuple[int, PlanOption]]:
    """Return options with a load curve and their ranks, the best last."""
    ranked = [(rank, one) for rank, one in enumerate(plan.options, 1) if one.load_curve]
    return ranked[::-1]


def test_a_request_that_runs_alone_hides_no_work_of_its_prompt() -> None:
    prompt, output = 8000, 100
    option = planned(prompt, output, 0.6).options[0]
    alone, pair = option.load_curve[:2]
    assert (alone.concurrency, pair.concurrency) == (1, 2)
    own_s = 1 / alone.output_tokens_per_s.mid - alone.tpot_ms.mid / 1e3
    beside_s = 2 / pair.output_tokens_per_s.mid - pair.tpot_ms.mid / 1e3
    # 15.4 us of host work a prompt token, which steps of others hide
    assert own_s * output > beside_s * output + 0.05
    assert own_s * output > 15.4e-6 * prompt
