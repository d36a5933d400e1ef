"""Plans made by hand. Every figure is illustrative: it has the right shape and no source."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from capplan.economics.bill import Tariff, monthly_bill
from capplan.economics.breakeven import compare_with_api
from capplan.schema.pairing import Method
from capplan.schema.plan import (
    AcceptanceFigure,
    Assumption,
    LoadPoint,
    MemoryFigure,
    Plan,
    PlanOption,
    PlanRequest,
    PlanVerdict,
    Rejection,
    Tier,
)
from capplan.schema.price import ApiComparison, ApiPrice, MonthlyBill, Purchase
from capplan.schema.provenance import Kind, Source
from capplan.schema.quantity import Quantity
from capplan.schema.schedule import GraphEdge, LengthAtBatch, LengthAtContext, LengthSchedule
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

TARGET, DRAFT = "Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B"
_RATE = 0.583
"""Accepted over drafted tokens at N = 3 in this illustration: 2.75 tokens a round."""
_COST_RATIO = 0.11


def spread(mid: float, relative: float = 0.1) -> Quantity:
    return Quantity(low=mid * (1 - relative), mid=mid, high=mid * (1 + relative))


def load_curve(*, rate: float = _RATE, cost_ratio: float = _COST_RATIO) -> tuple[LoadPoint, ...]:
    return tuple(_load_point(batch, rate, cost_ratio) for batch in (1, 2, 4, 8, 16, 32, 64, 128))


def _speedup(length: int, batch: int, rate: float, cost_ratio: float) -> float:
    tokens = sum((rate + 0.12) ** i for i in range(length + 1))
    verification = 1 + 0.004 * batch * length
    return tokens / (verification + length * cost_ratio)


def _load_point(batch: int, rate: float, cost_ratio: float) -> LoadPoint:
    speedups = {n: _speedup(n, batch, rate, cost_ratio) for n in range(1, 6)} | {0: 1.0}
    best = max(speedups, key=lambda length: speedups[length])
    plain_ms = 14.0 + 0.09 * batch
    speedup = speedups[3]
    return LoadPoint(
        concurrency=batch,
        tpot_ms=spread(plain_ms / speedup),
        baseline_tpot_ms=plain_ms,
        speedup=spread(speedup, 0.08 + 0.0008 * batch),
        guide_speedup=rate * 3 / (1 + 3 * cost_ratio),
        output_tokens_per_s=spread(1000 * batch * speedup / plain_ms),
        usd_per_million_output_tokens=spread(7.98e6 / 3600 / (1000 * batch * speedup / plain_ms)),
        best_num_speculative_tokens=best,
        best_speedup=speedups[best],
    )


def bill(replicas: int) -> MonthlyBill:
    return monthly_bill(replicas, 2, Tariff(Decimal("7.98"), 2))


def api_comparison() -> ApiComparison:
    return compare_with_api(
        ApiPrice(
            model="qwen3-32b",
            family="qwen3",
            provider="somebody",
            input_usd_per_million_tokens=Decimal("0.10"),
            output_usd_per_million_tokens=Decimal("0.40"),
            cached_input_usd_per_million_tokens=Decimal("0.02"),
            tiered=False,
            source=Source(kind=Kind.CITED, reference="an illustration", date="2026-11-29"),
        ),
        gpu_usd_per_month=bill(replicas=2).total_usd,
        output_tokens_per_month=Decimal("6307200000"),
        capacity_output_tokens_per_month=Decimal("13691880000"),
        prompt_per_output_token=Decimal("3.75"),
        cached_input_share=Decimal("0.5"),
    )


def make_option(**overrides: Any) -> PlanOption:
    fields: dict[str, Any] = {
        "id": "qwen3-32b+qwen3-0.6b/n3/h100-sxm-80gb/tp2/lambda",
        "target": TARGET,
        "draft": DRAFT,
        "method": Method.DRAFT_MODEL,
        "num_speculative_tokens": 3,
        "gpu": "h100-sxm-80gb",
        "gpu_name": "H100 SXM 80GB",
        "tensor_parallel": 2,
        "replicas": 2,
        "gpus_rented": 4,
        "provider": "lambda",
        "instance": "gpu_2x_h100_sxm5",
        "region": "us-east-1",
        "purchase": Purchase.ON_DEMAND,
        "price_tier": "list",
        "price_source": Source(kind=Kind.CITED, reference="an illustration", date="2026-09-25"),
        "usd_per_gpu_hour": 3.99,
        "concurrency": 22,
        "max_concurrency": 56,
        "utilisation": 0.46,
        "usd_per_month": Quantity.exact(11651.0),
        "usd_per_month_idle": 0.0,
        "bill": bill(replicas=2),
        "usd_per_million_output_tokens": Quantity(low=1.71, mid=1.87, high=2.06),
        "usd_per_million_total_tokens": Quantity(low=0.36, mid=0.39, high=0.43),
        "usd_per_thousand_requests": Quantity(low=0.68, mid=0.75, high=0.82),
        "output_tokens_per_s": Quantity(low=4740.0, mid=5210.0, high=5690.0),
        "planned_output_tokens_per_s": 2400.0,
        "tpot_ms": Quantity(low=14.0, mid=17.0, high=21.0),
        "ttft_ms": Quantity(low=480.0, mid=600.0, high=760.0),
        "speedup": Quantity(low=1.31, mid=1.43, high=1.56),
        "guide_speedup": _RATE * 3 / (1 + 3 * _COST_RATIO),
        "cost_ratio": Quantity(low=0.09, mid=_COST_RATIO, high=0.13),
        "round_ratio": Quantity(low=1.80, mid=1.92, high=2.05),
        "acceptance": AcceptanceFigure(
            tokens_per_round=Quantity(low=2.61, mid=2.75, high=2.89),
            acceptance_rate=Quantity(low=0.537, mid=_RATE, high=0.63),
            definition="accepted over drafted tokens at N = 3, temperature 0.7, 212 requests",
            source=Source(kind=Kind.MEASURED, reference="profile h100-qwen3", date="2026-11-20"),
        ),
        "memory": MemoryFigure(
            gpu_bytes=85.0e9,
            usable_bytes=78.2e9,
            target_weight_bytes=32.8e9,
            draft_weight_bytes=0.6e9,
            overhead_bytes=3.1e9,
            activation_bytes=1.9e9,
            cuda_graph_bytes=0.4e9,
            non_torch_bytes=0.6e9,
            buffer_bytes=0.2e9,
            kv_pool_bytes=41.7e9,
            kv_bytes_per_token=188416.0,
            kv_tokens=221000.0,
            request_tokens=1904,
            max_concurrency=116.1,
        ),
        "tier": Tier.PROFILED,
        "tier_note": "held-out error 3 %",
        "on_pareto_front": True,
        "load_curve": load_curve(),
        "launch": (
            "vllm serve Qwen/Qwen3-32B \\\n  --tensor-parallel-size 2 \\\n"
            '  --speculative-config \'{"method":"draft_model","model":"Qwen/Qwen3-0.6B",'
            '"num_speculative_tokens":3}\''
        ),
    }
    return PlanOption(**(fields | overrides))


def make_baseline(**overrides: Any) -> PlanOption:
    fields: dict[str, Any] = {
        "id": "qwen3-32b/none/h100-sxm-80gb/tp2/lambda",
        "draft": None,
        "method": Method.NONE,
        "num_speculative_tokens": 0,
        "replicas": 3,
        "gpus_rented": 6,
        "bill": bill(replicas=3),
        "usd_per_month": Quantity.exact(17476.0),
        "usd_per_million_output_tokens": Quantity(low=2.29, mid=2.43, high=2.60),
        "tpot_ms": Quantity(low=22.0, mid=24.0, high=27.0),
        "speedup": Quantity.exact(1.0),
        "guide_speedup": 1.0,
        "cost_ratio": None,
        "round_ratio": None,
        "acceptance": None,
        "on_pareto_front": False,
        "launch": "vllm serve Qwen/Qwen3-32B \\\n  --tensor-parallel-size 2",
    }
    return make_option(**(fields | overrides))


def other_options() -> tuple[PlanOption, ...]:
    spot = make_option(
        id="qwen3-32b+eagle3/n4/h100-sxm-80gb/tp2/runpod-spot",
        draft="AngelSlim/Qwen3-32B_eagle3",
        method=Method.EAGLE3,
        num_speculative_tokens=4,
        provider="runpod",
        price_tier="secure",
        purchase=Purchase.SPOT,
        usd_per_month=Quantity.exact(9870.0),
        bill=None,
        usd_per_million_output_tokens=Quantity(low=1.52, mid=1.71, high=1.93),
        tpot_ms=Quantity(low=15.0, mid=18.5, high=23.0),
        tier=Tier.DATASHEET,
        tier_note="published error 18 %",
        warnings=("the head was trained for another checkpoint revision",),
    )
    lookup = make_option(
        id="qwen3-32b+ngram/n5/h200/tp1",
        draft="ngram",
        method=Method.NGRAM,
        num_speculative_tokens=5,
        gpu="h200-sxm",
        gpu_name="H200 SXM",
        tensor_parallel=1,
        replicas=3,
        provider="nebius",
        usd_per_month=Quantity.exact(13140.0),
        bill=None,
        usd_per_million_output_tokens=Quantity(low=1.9, mid=2.11, high=2.4),
        tpot_ms=Quantity(low=17.0, mid=22.0, high=29.0),
        speedup=Quantity(low=0.94, mid=1.12, high=1.33),
        on_pareto_front=False,
    )
    fast = make_option(
        id="qwen3-32b+qwen3-0.6b/n3/h100-sxm-80gb/tp4",
        tensor_parallel=4,
        gpus_rented=8,
        usd_per_month=Quantity.exact(19800.0),
        bill=None,
        usd_per_million_output_tokens=Quantity(low=2.9, mid=3.18, high=3.5),
        tpot_ms=Quantity(low=9.1, mid=10.4, high=12.3),
    )
    return spot, lookup, fast


def length_schedule(**overrides: Any) -> LengthSchedule:
    """Lengths of ``make_option``: 3, 1 and off, at the planned context and two others."""
    fields: dict[str, Any] = {
        "origin": f"option {make_option().id}",
        "target": TARGET,
        "draft": DRAFT,
        "method": Method.DRAFT_MODEL.value,
        "ranges": ((1, 16, 3), (17, 40, 1), (41, 56, 0)),
        "num_speculative_tokens": 3,
        "best_fixed": 2,
        "recommended": "schedule",
        "reason": "the gain over N = 2 is larger than its interval",
        "gain": Quantity(low=0.012, mid=0.031, high=0.05),
        "gain_before_tax": 0.044,
        "tax_paid": 0.013,
        "tax_at_load": Quantity(low=0.04, mid=0.12, high=0.35),
        "merge_loss": 0.002,
        "load": "22 requests at once on average, Poisson: the plan's own at each of 2 replicas",
        "mean_batch": 22.0,
        "context_tokens": 1700,
        "captured_tokens": 128,
        "graph_edges": tuple(
            GraphEdge(num_speculative_tokens=n, largest_batch=128 // (n + 1)) for n in (0, 1, 2, 3)
        ),
        "at_batch": tuple(
            LengthAtBatch(
                batch=batch,
                load_share=share,
                num_speculative_tokens=n,
                tpot_ms=tpot,
                plain_tpot_ms=14.0 + 0.09 * batch,
                fixed_tpot_ms=fixed,
            )
            for batch, share, n, tpot, fixed in (
                (1, 0.0, 3, 8.1, 9.0),
                (16, 0.37, 3, 10.2, 10.9),
                (17, 0.61, 1, 11.4, 11.5),
                (41, 0.02, 0, 20.1, 22.6),
                (56, 0.0, 0, 21.9, 26.0),
            )
        ),
        "at_context": (
            LengthAtContext(
                context_tokens=1700,
                ranges=((1, 16, 3), (17, 40, 1), (41, 56, 0)),
                best_fixed=2,
                gain=0.031,
            ),
            LengthAtContext(context_tokens=6800, ranges=((1, 20, 4),), best_fixed=4, gain=0.0),
            LengthAtContext(
                context_tokens=425, ranges=((1, 8, 3), (9, 56, 0)), best_fixed=1, gain=0.05
            ),
        ),
        "notes": ("N = 0 in a schedule keeps the drafting path in the step.",),
    }
    return LengthSchedule(**(fields | overrides))


def make_plan(**overrides: Any) -> Plan:
    fields: dict[str, Any] = {
        "created_at": "2026-11-29T12:00:00Z",
        "capplan_version": "0.1.0",
        "request": PlanRequest(
            targets=(TARGET,),
            budget_usd_per_month=20000.0,
            workload=Workload(
                requests_per_s=6.0, prompt_tokens=1500, output_tokens=400, temperature=0.7
            ),
            slo=Slo(tpot_ms=40.0),
        ),
        "verdict": PlanVerdict(
            feasible=True,
            sentence=(
                "Speculate with Qwen3-0.6B at N = 3: 2 replicas of 2 x H100 SXM 80GB cost "
                "11,651 USD a month, 1.43x faster than without."
            ),
        ),
        "options": (make_option(), *other_options(), make_baseline()),
        "baseline": make_baseline(),
        "rejections": (
            Rejection(
                reason="memory",
                count=29,
                example="Qwen3-32B + Qwen3-8B on 1 x L40S: needs 82 GB, has 48 GB.",
                remedy="Raise tensor parallelism or take a quantised checkpoint.",
            ),
            Rejection(
                reason="tpot",
                count=9,
                example="Qwen3-32B on 2 x A100: TPOT 47 ms, limit 40 ms.",
                remedy="Raise --slo-tpot or take a faster GPU.",
            ),
            Rejection(
                reason="budget",
                count=3,
                example="Qwen3-32B on 8 x H100: 40,208 USD a month.",
                remedy="Raise --budget.",
            ),
        ),
        "assumptions": (
            Assumption(
                name="acceptance",
                value="2.75 tokens a round",
                kind=Kind.MEASURED,
                source="profile h100-qwen3, 2026-11-20",
            ),
            Assumption(
                name="hours a month",
                value="730",
                kind=Kind.DERIVED,
                source="8,760 hours a year over 12",
            ),
            Assumption(
                name="memory the engine may use",
                value="92 %",
                kind=Kind.CITED,
                source="vLLM 0.33 default",
            ),
        ),
        "api_comparisons": (api_comparison(),),
        "advice": ("65 days since the price was read: ask again before you sign.",),
        "schedules": (length_schedule(),),
        "profiles": ("h100-qwen3",),
        "candidates": 412,
    }
    return Plan(**(fields | overrides))


def infeasible_plan() -> Plan:
    return make_plan(
        verdict=PlanVerdict(
            feasible=False,
            sentence="No plan fits 500 USD a month.",
            needed="the cheapest that keeps the limits costs 9,870 USD a month.",
        ),
        options=(),
        baseline=None,
        api_comparisons=(),
        advice=(),
        schedules=(),
        profiles=(),
    )


def two_services(first: str = "chat", second: str = "extract") -> PlanRequest:
    """Return a request that is answered with replicas apart and with shared ones."""
    chat = Workload(requests_per_s=8.0, prompt_tokens=1200, output_tokens=300)
    extract = Workload(requests_per_s=3.0, prompt_tokens=6000, output_tokens=60)
    return PlanRequest(
        targets=("meta-llama/Llama-3.1-8B-Instruct",),
        budget_usd_per_month=90_000,
        gpus=("l40s-48gb", "h100-sxm-80gb"),
        max_num_speculative_tokens=2,
        services=(
            NamedWorkload(name=first, workload=chat, slo=Slo(tpot_ms=12)),
            NamedWorkload(name=second, workload=extract),
        ),
    )
