"""Plan from Python: which draft, what length, on which GPU, for how much.

Run: python examples/plan_in_python.py
"""

from __future__ import annotations

import capplan

request = capplan.PlanRequest(
    targets=("Qwen/Qwen3-32B",),
    budget_usd_per_month=6000,
    workload=capplan.Workload(requests_per_s=0.5, prompt_tokens=1500, output_tokens=400),
    slo=capplan.Slo(tpot_ms=40),
)
plan = capplan.recommend(request)
print(plan.verdict.sentence)
for option in plan.options[:5]:
    gpus = option.replicas * option.tensor_parallel
    month, cost, tpot = option.usd_per_month, option.usd_per_million_output_tokens, option.tpot_ms
    print(
        f"{option.draft or 'no draft':<30} N={option.num_speculative_tokens}  "
        f"{gpus} x {option.gpu_name:<16} {month.mid:6,.0f} USD/month  "
        f"{cost.mid:5.2f} USD/M ({cost.low:.2f}-{cost.high:.2f})  TPOT {tpot.mid:.1f} ms"
    )
