"""Plans for long prompts, held against the serving simulation.

A replica computes every prompt. With one request at a time nobody else waits for it, so time per
token does not show it; what the replica can serve has to.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import capplan
from capplan.api.serving import simulate_serving
from capplan.api.serving_wishes import ServingWishes
from capplan.errors import RequestError
from capplan.units import MS_PER_S

QUICK = ServingWishes(requests=60, shares=(0.6,))


def _plan(
    target: str, gpu: str, prompt: int, output: int, cached_share: float = 0.0
) -> capplan.Plan:
    load = capplan.Workload(
        requests_per_s=1,
        prompt_tokens=prompt,
        output_tokens=output,
        prefix_cache_hit_rate=cached_share,
    )
    return capplan.recommend(
        capplan.PlanRequest(
            targets=(target,),
            budget_usd_per_month=1e6,
            workload=load,
            gpus=(gpu,),
            tensor_parallel=(1,),
        )
    )


@pytest.mark.parametrize(
    ("target", "gpu", "prompt", "output"),
    [
        # room for one request at a time, and no draft: half of its time goes into the prompt
        ("Qwen/Qwen3-32B", "h100-sxm-80gb", 30_000, 300),
        ("Qwen/Qwen3-32B", "h200-sxm-141gb", 30_000, 300),
        ("meta-llama/Llama-3.1-8B-Instruct", "l40s", 60_000, 100),
        ("meta-llama/Llama-3.1-8B-Instruct", "h100-sxm-80gb", 500, 500),
    ],
)
def test_the_fleet_serves_what_it_was_planned_for(
    target: str, gpu: str, prompt: int, output: int
) -> None:
    plan = _plan(target, gpu, prompt, output)
    served = simulate_serving(plan, QUICK)
    planned = plan.options[0].output_tokens_per_s.mid
    assert served.capacity_output_tokens_per_s == pytest.approx(planned, rel=0.15)
    assert served.capacity_requests_per_s * plan.request.workload.utilisation > 0.9


def test_a_prefix_cache_counts_once_in_plan_and_simulation() -> None:
    plan = _plan("Qwen/Qwen3-32B", "b200-sxm-180gb", 8_000, 256, cached_share=0.9)
    planned = plan.options[0].output_tokens_per_s.mid
    as_planned = simulate_serving(plan, QUICK)
    stated = simulate_serving(plan, replace(QUICK, prefix_hit_share=0.9))
    without = simulate_serving(plan, replace(QUICK, prefix_hit_share=0.0))
    assert as_planned == stated
    assert as_planned.prefix_hit_share == 0.9
    assert as_planned.capacity_output_tokens_per_s == pytest.approx(planned, rel=0.15)
    assert without.capacity_output_tokens_per_s < 0.5 * planned
    with pytest.raises(RequestError, match="cannot hold 1 of a prompt"):
        simulate_serving(plan, replace(QUICK, prefix_hit_share=1.0))


def test_a_prompt_costs_the_replica_what_it_costs_the_others() -> None:
    curve = _plan("Qwen/Qwen3-32B", "h200-sxm-141gb", 8_000, 200).options[0].load_curve
    batch = np.array([point.concurrency for point in curve], dtype=float)
    tpot_ms = np.array([point.tpot_ms.mid for point in curve])
    rate = np.array([point.output_tokens_per_s.mid for point in curve])
    own_ms = batch * MS_PER_S / rate - tpot_ms
    assert own_ms == pytest.approx(own_ms[0])
    # a step with b requests holds the prompts of b - 1 others: plain steps grow by at least that
    plain_ms = np.array([point.baseline_tpot_ms for point in curve])
    assert (np.diff(plain_ms) >= np.diff(batch) * own_ms[0] * (1 - 1e-9)).all()
