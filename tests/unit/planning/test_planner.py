"""What a plan must do whatever the figures: monotone, complete, honest about what it left out."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from capplan.api.plans import recommend
from capplan.facts.catalog import load_catalog
from capplan.planning.drafting import draftings_for
from capplan.schema.llm import HeadFacts
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.price import Purchase
from capplan.schema.workload import Slo, Workload

NOW = datetime(2026, 1, 2, tzinfo=UTC)
QWEN_32B, QWEN_8B = "Qwen/Qwen3-32B", "Qwen/Qwen3-8B"
LLAMA_8B, LLAMA_70B = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"


def request(target: str = LLAMA_8B, budget: float = 1e6, **fields: Any) -> PlanRequest:
    return PlanRequest(targets=(target,), budget_usd_per_month=budget, **fields)


@cache
def plan_for(asked: str) -> Plan:
    return recommend(PlanRequest.model_validate_json(asked), now=NOW)


def plan(target: str = LLAMA_8B, budget: float = 1e6, **fields: Any) -> Plan:
    return plan_for(request(target, budget, **fields).model_dump_json())


def load(rate: float, **fields: Any) -> Workload:
    return Workload(requests_per_s=rate, **fields)


def reasons(found: Plan) -> dict[str, Any]:
    return {rejection.reason: rejection for rejection in found.rejections}


@pytest.mark.parametrize("target", [LLAMA_8B, QWEN_32B, LLAMA_70B, "Qwen/Qwen3-30B-A3B"])
def test_no_speculation_is_always_a_candidate(target: str) -> None:
    found = plan(target)
    assert found.baseline is not None
    assert found.baseline.method is Method.NONE
    assert found.baseline.num_speculative_tokens == 0
    assert found.baseline.speedup.mid == 1.0
    best = found.options[0].usd_per_million_output_tokens.mid
    assert best <= found.baseline.usd_per_million_output_tokens.mid


def test_a_method_filter_does_not_remove_plain_decoding() -> None:
    found = plan(LLAMA_8B, methods=(Method.EAGLE,), gpus=("h100-sxm-80gb",))
    assert {option.method for option in found.options} == {Method.NONE, Method.EAGLE}


def test_options_come_best_first() -> None:
    found = plan(QWEN_32B, workload=load(2.0))
    costs = [o.usd_per_million_output_tokens.mid for o in found.options]
    assert costs == sorted(costs)


def test_option_ids_name_one_option_each() -> None:
    everything = plan(QWEN_32B, purchases=tuple(Purchase), price_tiers=(
        "list", "secure", "community", "marketplace"))  # fmt: skip
    ids = [option.id for option in everything.options]
    assert len(ids) == len(set(ids))


def test_the_same_request_gives_the_same_plan() -> None:
    asked = request(QWEN_32B, workload=load(3.0))
    first, second = (recommend(asked, now=NOW).model_dump_json() for _ in range(2))
    assert first == second


def test_a_plan_survives_its_own_json() -> None:
    found = plan(QWEN_32B, workload=load(2.0))
    assert type(found).model_validate_json(found.model_dump_json()) == found


def test_a_larger_budget_never_removes_an_option() -> None:
    one_gpu = {"gpus": ("l40s",), "workload": load(1.0)}
    kept: set[str] = set()
    for budget in (500.0, 2000.0, 5000.0, 20000.0, 1e6):
        ids = {option.id for option in plan(LLAMA_8B, budget, **one_gpu).options}
        assert kept <= ids
        kept = ids
    assert kept


def test_a_larger_budget_never_makes_the_best_plan_dearer() -> None:
    best = [
        found.options[0].usd_per_million_output_tokens.mid
        for budget in (3000, 6000, 12000, 50000, 400000)
        if (found := plan(QWEN_32B, float(budget), workload=load(2.0))).options
    ]
    assert len(best) >= 3
    assert best == sorted(best, reverse=True)


def test_no_option_exceeds_the_budget() -> None:
    found = plan(QWEN_32B, 9000.0, workload=load(2.0))
    assert found.options
    assert all(option.usd_per_month.mid <= 9000.0 for option in found.options)
    assert reasons(found)["budget"].count > 0


def own_price(usd: float, rate: float = 8.0) -> PlanOption:
    found = plan(
        LLAMA_8B,
        gpus=("h100-sxm-80gb",),
        gpu_price_usd_per_hour={"h100-sxm-80gb": usd},
        workload=load(rate),
    )
    return found.options[0]


def test_a_stated_price_replaces_the_catalogues() -> None:
    option = own_price(2.0)
    assert option.provider == "own"
    assert option.usd_per_gpu_hour == 2.0
    assert option.usd_per_month.mid == pytest.approx(option.gpus_rented * 2.0 * 730)
    assert option.gpus_rented == option.replicas * option.tensor_parallel


def test_the_bill_is_proportional_to_the_price() -> None:
    cheap, dear = own_price(1.5), own_price(4.5)
    assert dear.usd_per_month.mid == pytest.approx(3 * cheap.usd_per_month.mid)
    assert dear.replicas == cheap.replicas


def test_a_stated_price_does_not_bring_back_a_gpu_that_was_filtered_out() -> None:
    found = plan(LLAMA_8B, gpus=("l40s",), gpu_price_usd_per_hour={"h100-sxm-80gb": 0.01})
    assert {option.gpu for option in found.options} == {"l40s"}


def test_more_load_is_never_cheaper() -> None:
    bills = [
        plan(LLAMA_8B, gpus=("h100-sxm-80gb",), workload=load(rate)).options[0].usd_per_month.mid
        for rate in (0.1, 1, 4, 16, 64, 256)
    ]
    assert bills == sorted(bills)
    assert bills[-1] > bills[0]


def test_tokens_a_month_are_the_same_load_as_their_rate() -> None:
    per_month = 5.0 * 256 * 730 * 3600
    by_rate = plan(LLAMA_8B, workload=load(5.0, output_tokens=256))
    by_month = plan(LLAMA_8B, workload=Workload(output_tokens_per_month=per_month))
    assert by_rate.options[0].usd_per_month == by_month.options[0].usd_per_month


def test_the_bill_over_the_load_is_the_price_of_a_token() -> None:
    option = plan(LLAMA_8B, workload=load(5.0, output_tokens=200, prompt_tokens=800)).options[0]
    tokens = 5.0 * 200 * 730 * 3600
    million = option.usd_per_month.mid / tokens * 1e6
    assert option.usd_per_million_output_tokens.mid == pytest.approx(million)
    assert option.usd_per_million_total_tokens.mid == pytest.approx(million / 5)
    assert option.usd_per_thousand_requests.mid == pytest.approx(million * 200 / 1000)


def test_planned_use_stays_within_what_was_asked() -> None:
    for utilisation in (0.3, 0.6, 1.0):
        found = plan(LLAMA_8B, workload=load(20.0, utilisation=utilisation))
        for option in found.options:
            assert option.utilisation <= utilisation + 1e-9
            assert option.planned_output_tokens_per_s == pytest.approx(20.0 * 256)


def test_concurrency_is_rate_times_latency() -> None:
    # Little's law at the operating point, replica by replica; the curve is interpolated
    for option in plan(LLAMA_8B, workload=load(20.0)).options[:10]:
        if option.concurrency < 4:
            continue
        a_replica = option.planned_output_tokens_per_s / option.replicas
        in_flight = a_replica * option.tpot_ms.mid / 1e3
        assert option.concurrency == pytest.approx(in_flight, rel=0.15)


@pytest.mark.parametrize("limit", [12.0, 20.0, 40.0])
def test_a_tpot_limit_is_kept(limit: float) -> None:
    found = plan(QWEN_32B, slo=Slo(tpot_ms=limit), workload=load(2.0))
    assert found.options
    assert all(option.tpot_ms.mid <= limit for option in found.options)


def test_a_ttft_limit_is_kept_and_a_tight_one_is_a_rejection() -> None:
    found = plan(QWEN_32B, slo=Slo(ttft_ms=150.0))
    assert all(option.ttft_ms.mid <= 150.0 for option in found.options)
    rejected = reasons(found)["ttft"]
    assert "limit 150 ms" in rejected.example
    assert rejected.remedy


def test_an_impossible_tpot_names_what_is_reached() -> None:
    found = plan(LLAMA_70B, gpus=("l4",), slo=Slo(tpot_ms=1.0))
    assert not found.verdict.feasible
    rejected = reasons(found)["tpot"]
    assert "at best, limit 1 ms" in rejected.example
    assert found.verdict.needed


@pytest.mark.parametrize("longest", [1, 3, 16])
def test_drafts_are_never_longer_than_asked(longest: int) -> None:
    found = plan(QWEN_32B, max_num_speculative_tokens=longest)
    assert max(option.num_speculative_tokens for option in found.options) <= longest
    for option in found.options:
        assert all(p.best_num_speculative_tokens <= longest for p in option.load_curve)


def test_a_pairing_without_known_acceptance_is_rejected_with_what_it_would_take() -> None:
    rejected = reasons(plan(QWEN_32B))["acceptance_unknown"]
    assert "no acceptance is measured or published" in rejected.example
    assert "tokens a round (by GPU) to pay" in rejected.example
    assert "--assume-acceptance" in rejected.remedy


def test_an_assumed_acceptance_is_used_and_marked() -> None:
    found = plan(QWEN_32B, drafts=("Qwen/Qwen3-0.6B",), assumed_acceptance=0.8)
    drafted = [option for option in found.options if option.draft == "Qwen/Qwen3-0.6B"]
    assert drafted
    acceptance = drafted[0].acceptance
    assert acceptance is not None
    assert acceptance.source.kind.value == "assumed"
    n = drafted[0].num_speculative_tokens
    assert acceptance.tokens_per_round.mid == pytest.approx(sum(0.8**i for i in range(n + 1)))


def test_an_assumed_acceptance_is_not_lent_to_prompt_lookup_unless_asked_for() -> None:
    silent = plan(LLAMA_8B, assumed_acceptance=0.8, gpus=("l40s",))
    assert all(option.method is not Method.NGRAM for option in silent.options)
    asked = plan(LLAMA_8B, assumed_acceptance=0.8, gpus=("l40s",), methods=(Method.NGRAM,))
    assert any(option.method is Method.NGRAM for option in asked.options)


def test_a_draft_padded_otherwise_is_rejected_as_padding_with_both_sizes() -> None:
    found = plan("Qwen/Qwen2.5-72B-Instruct", drafts=("Qwen/Qwen2.5-0.5B-Instruct",))
    rejected = reasons(found)["vocabulary_padded"]
    assert "152,064" in rejected.example
    assert "151,936" in rejected.example
    assert "compatible tokenizer, padded embedding" in rejected.example
    assert "capplan pair Qwen/Qwen2.5-72B-Instruct" in rejected.remedy
    assert "use_heterogeneous_vocab" in rejected.remedy
    assert {option.method for option in found.options} == {Method.NONE}


def test_a_draft_of_another_vocabulary_is_rejected_with_both_sizes() -> None:
    found = plan("meta-llama/Llama-3.1-8B-Instruct", drafts=("Qwen/Qwen3-0.6B",))
    rejected = reasons(found)["vocabulary"]
    assert "128,256" in rejected.example
    assert "151,936" in rejected.example
    assert {option.method for option in found.options} == {Method.NONE}


def test_a_head_asked_for_by_name_is_planned_by_its_own_method() -> None:
    catalog = load_catalog()
    target = catalog.llm(LLAMA_8B)
    small = catalog.llm("meta-llama/Llama-3.2-1B-Instruct")
    for method, shared in ((Method.EAGLE3, 0.0), (Method.EAGLE, 128_256 * 4096 * 2.0)):
        facts = HeadFacts(method=method, target_hidden=4096)
        head = small.model_copy(update={"id": "./head", "head": facts, "layers": 1})
        asked = request(drafts=("./head",))
        (found,) = (
            item
            for item in draftings_for(target, asked, (), (), {"./head": head}, ())
            if item.draft_id == "./head"
        )
        assert found.method is method
        assert found.llm is not None
        # EAGLE and MTP layers read the target's output layer in every pass
        assert found.llm.weight_bytes_active == head.weight_bytes_active + shared
        wrong = head.model_copy(update={"head": HeadFacts(method=method, target_hidden=5120)})
        (refused,) = (
            item
            for item in draftings_for(target, asked, (), (), {"./head": wrong}, ())
            if item.draft_id == "./head"
        )
        assert refused.blocked is not None
        assert "hidden states of 5120" in refused.blocked.text


def test_what_lacks_memory_says_how_much() -> None:
    found = plan(LLAMA_70B, gpus=("l4",), tensor_parallel=(1,))
    assert not found.verdict.feasible
    rejected = reasons(found)["memory"]
    assert "lacks" in rejected.example
    assert "GiB a GPU" in rejected.example


def test_a_size_that_no_node_holds_is_a_rejection() -> None:
    found = plan(LLAMA_8B, gpus=("l40s",), tensor_parallel=(64,))
    assert not found.options
    assert "64 x" in reasons(found)["node_size"].example


def test_gpus_that_the_constants_were_not_measured_on_are_refused() -> None:
    found = plan(LLAMA_8B, gpus=("mi300x",))
    assert not found.options
    rejected = reasons(found)["engine_unmeasured"]
    assert "measured on nvidia GPUs only" in rejected.example
    assert all("mi300x" not in option.gpu for option in plan(LLAMA_8B).options)


def test_every_rejection_carries_an_example_and_a_remedy() -> None:
    for found in (plan(QWEN_32B), plan(LLAMA_70B, 100.0), plan("Qwen/Qwen2.5-72B-Instruct")):
        assert found.rejections
        assert all(r.count >= 1 and r.example and r.remedy for r in found.rejections)


def test_an_impossible_budget_says_what_it_would_take() -> None:
    found = plan(LLAMA_70B, 50.0, workload=load(1.0))
    assert not found.options
    assert found.baseline is None
    cheapest = plan(LLAMA_70B, 1e9, workload=load(1.0))
    least = min(option.usd_per_month.mid for option in cheapest.options)
    assert f"costs {least:,.2f} USD a month" in found.verdict.needed


def test_targets_keep_the_order_asked_for() -> None:
    asked = PlanRequest(targets=(LLAMA_70B, LLAMA_8B), budget_usd_per_month=50000)
    found = recommend(asked, now=NOW)
    order = [option.target for option in found.options]
    assert order == sorted(order, key=[LLAMA_70B, LLAMA_8B].index)
    assert set(order) == {LLAMA_70B, LLAMA_8B}
    assert found.baseline is not None
    assert found.baseline.target == LLAMA_70B


def test_a_draft_model_takes_room_from_the_kv_pool() -> None:
    found = plan(
        QWEN_8B, drafts=("Qwen/Qwen3-0.6B",), assumed_acceptance=0.8, gpus=("h100-sxm-80gb",),
        tensor_parallel=(1,))  # fmt: skip
    drafted = next(o for o in found.options if o.draft == "Qwen/Qwen3-0.6B")
    plain = next(o for o in found.options if o.draft is None)
    assert drafted.memory.kv_bytes_per_token / plain.memory.kv_bytes_per_token == pytest.approx(
        1.778, abs=1e-3
    )
    assert drafted.memory.kv_tokens < plain.memory.kv_tokens


def test_the_longest_requests_of_a_full_batch_fit_the_pool() -> None:
    found = plan(QWEN_8B, workload=Workload(prompt_tokens=8000, output_tokens=1000))
    for option in found.options:
        need = option.max_concurrency * (9000 + option.num_speculative_tokens)
        assert need <= option.memory.kv_tokens


def test_best_length_and_speedup_fall_with_load_for_a_dense_target() -> None:
    found = plan(
        LLAMA_8B, methods=(Method.EAGLE,), gpus=("h100-sxm-80gb",), tensor_parallel=(1,),
        workload=Workload(prompt_tokens=94, output_tokens=166))  # fmt: skip
    option = next(o for o in found.options if o.method is Method.EAGLE and o.load_curve)
    lengths = [point.best_num_speculative_tokens for point in option.load_curve]
    speedups = [point.best_speedup for point in option.load_curve]
    assert lengths == sorted(lengths, reverse=True)
    assert all(b <= 1.02 * a for a, b in pairwise(speedups))
    assert lengths[0] > lengths[-1]
    assert speedups[0] > speedups[-1]


def test_figures_of_an_option_agree_with_each_other() -> None:
    for option in plan(QWEN_32B, workload=load(2.0)).options:
        if option.acceptance is None:
            assert option.round_ratio is None
            continue
        assert option.round_ratio is not None
        tau, rate = option.acceptance.tokens_per_round, option.acceptance.acceptance_rate
        assert tau.mid == pytest.approx(1 + rate.mid * option.num_speculative_tokens)
        assert option.speedup.mid == pytest.approx(tau.mid / option.round_ratio.mid, rel=0.02)
        assert 1 <= tau.low <= tau.high <= option.num_speculative_tokens + 1


def test_nodes_that_a_replica_does_not_fill_are_shown_as_idle_money() -> None:
    found = plan(LLAMA_8B, workload=load(0.1), providers=("lambda",), gpus=("h100-sxm-80gb",))
    for option in found.options:
        used = option.replicas * option.tensor_parallel
        share = 1 - used / option.gpus_rented
        assert option.usd_per_month_idle == pytest.approx(option.usd_per_month.mid * share)


def test_prices_are_those_of_the_catalogue() -> None:
    rows = {(p.provider, p.instance, p.region, p.purchase): p for p in load_catalog().prices}
    for option in plan(QWEN_32B).options:
        row = rows[option.provider, option.instance, option.region, option.purchase]
        assert option.usd_per_gpu_hour == float(row.usd_per_gpu_hour)
        # a price without a day says so
        assert option.price_source.date or "undated" in option.price_source.note
