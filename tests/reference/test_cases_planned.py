"""What the planner says of reported cases before anyone measures them: data sheets alone.

Where a report was slower than plain decoding, the estimate must be slower too, or its interval
must hold 1 and the answer must say what was never measured.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from capplan.advice.rules import Context, moe_verification, speedup_straddles_one
from capplan.api.plans import recommend
from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.curves import AcceptanceCurve
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.drafting import Drafting, head_spec
from capplan.planning.grid import Grid
from capplan.planning.hardware import HardwareChoice, evaluate_catalogue
from capplan.planning.inputs import PlanInputs
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest
from capplan.schema.provenance import Kind, Source
from capplan.schema.workload import Workload

CATALOG, ENGINE = load_catalog(), load_engine("vllm")
DATA = Path(__file__).parents[1] / "data" / "slower"
LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def given(points: dict[int, float]) -> AcceptanceCurve:
    """Tokens a round at the lengths named; other lengths are not looked at."""
    tokens = np.ones(17)
    for n, tau in points.items():
        tokens[n] = tau
    return AcceptanceCurve(tokens, np.zeros(17), "", Source(kind=Kind.CITED, reference="case"))


class Case:
    """One way to draft on one GPU group, evaluated for the report's text."""

    def __init__(
        self, target: LlmSpec, drafting: Drafting, gpu: GpuSpec, tp: int, text: tuple[int, int]
    ) -> None:
        workload = Workload(prompt_tokens=text[0], output_tokens=text[1])
        request = PlanRequest(
            targets=(target.id,),
            budget_usd_per_month=1,
            workload=workload,
            max_num_speculative_tokens=16,
        )
        inputs = PlanInputs({}, {}, (), (), (), ENGINE, ())
        choice = HardwareChoice(gpu.id, gpu.name, gpu.memory_bytes, tp, gpu)
        self.grid: Grid = evaluate_catalogue(target, drafting, [choice], inputs, request).grid

    def at(self, values: np.ndarray, n: int, batch: int) -> float:
        return float(values[0, n - 1, list(self.grid.batches).index(batch)])

    def round_ratio(self, n: int, batch: int) -> tuple[float, float, float]:
        """Low, mid and high of the 95 % interval."""
        mid = self.at(self.grid.round_ratio, n, batch)
        down = self.at(self.grid.round_log_down, n, batch)
        up = self.at(self.grid.round_log_up, n, batch)
        return mid / np.exp(down), mid, mid * np.exp(up)

    def speedup_under_load(self, n: int, batch: int) -> float:
        """Time a token without over with speculation, others' prompts included."""
        plain = self.at(self.grid.baseline_tpot_s, n, batch)
        return plain / self.at(self.grid.tpot_s, n, batch)


def shrunk(llm: LlmSpec, factor: float) -> LlmSpec:
    """Return the LLM in a smaller number format."""
    size = {
        "weight_bytes": llm.weight_bytes * factor,
        "weight_bytes_active": llm.weight_bytes_active * factor,
    }
    return llm.model_copy(update=size)


# Qwen3-32B-FP8 on two L20, drafts of 0.6B, 1.7B and 4B: vLLM issue 21278. 0.22x to 0.61x
# measured with vLLM's old engine, acceptance not reported.
DRAFTS = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B")


@cache
def l20(draft: str) -> Case:
    llm = CATALOG.llm(draft)
    drafting = Drafting(
        Method.DRAFT_MODEL,
        draft,
        shrunk(llm, 0.5) if draft == DRAFTS[-1] else llm,
        given({n: n + 1.0 for n in (3, 5, 10)}),
    )
    target = shrunk(CATALOG.llm("Qwen/Qwen3-32B"), 0.5)
    return Case(target, drafting, CATALOG.gpu("l20"), 2, (500, 500))


def test_without_acceptance_nothing_is_promised_and_what_is_missing_is_named() -> None:
    request = PlanRequest(
        targets=("Qwen/Qwen3-32B",),
        drafts=DRAFTS,
        budget_usd_per_month=100_000,
        workload=Workload(prompt_tokens=500, output_tokens=300, temperature=0.0),
        gpus=("l20",),
        gpu_price_usd_per_hour={"l20": 1},
        tensor_parallel=(2,),
    )
    plan = recommend(request)
    assert {option.method for option in plan.options} == {Method.NONE}
    (rejection,) = plan.rejections
    assert (rejection.reason, rejection.count) == ("acceptance_unknown", 3)
    assert "no acceptance is measured or published" in plan.verdict.sentence
    assert "must emit more than" in plan.verdict.sentence
    assert any("modelled from data sheets" in line for line in plan.advice)


def test_larger_drafts_and_longer_rounds_cost_more_as_the_l20_report_ranks_them() -> None:
    for n in (3, 5, 10):
        ratios = [l20(draft).round_ratio(n, 1)[1] for draft in DRAFTS]
        assert ratios == sorted(ratios)
    # at an acceptance of 0.4 a token and below, every further token loses: 3 before 5 before 10
    for draft in DRAFTS:
        speedups = [
            float(tokens_per_round_iid(0.4, n)) / l20(draft).round_ratio(n, 1)[1]
            for n in (3, 5, 10)
        ]
        assert speedups == sorted(speedups, reverse=True)


# Apertus 8B (Llama's shape) with a DSpark drafter on one GH200, prompts of 3,800 tokens:
# swiss-ai load test. The drafter's size is not published: a twentieth to a quarter of the target.
@cache
def sweep() -> tuple[dict[str, float], ...]:
    with (DATA / "gh200_8b_dspark_load.csv").open(encoding="utf-8", newline="") as file:
        return tuple({k: float(v) for k, v in row.items()} for row in csv.DictReader(file))


@cache
def gh200(tokens: float, head_params: float) -> Case:
    target = CATALOG.llm(LLAMA_8B)
    pairing = CATALOG.pairings_for(LLAMA_8B)[0].model_copy(
        update={"method": Method.DSPARK, "draft_params": head_params}
    )
    drafting = Drafting(
        Method.DSPARK, pairing.draft, head_spec(target, pairing), given({7: tokens})
    )
    return Case(target, drafting, CATALOG.gpu("gh200-96gb"), 1, (3800, 200))


@pytest.mark.parametrize("head_params", [0.4e9, 1e9, 2e9])
def test_the_load_sweep_is_predicted_to_cross_between_8_and_32(head_params: float) -> None:
    for row in sweep():
        load = int(row["concurrency"])
        if load > 128:
            continue  # the engine itself ran no more at once
        measured = row["spec_output_tok_s"] / row["plain_output_tok_s"]
        predicted = gh200(row["spec_accept_len"], head_params).speedup_under_load(7, load)
        assert (predicted > 1) == (measured > 1)


@pytest.mark.parametrize(
    ("load", "within"), [(1, 0.09), (8, 0.11), (32, 0.06), (64, 0.12), (128, 0.17)]
)
def test_the_load_sweep_is_met_from_data_sheets(load: int, within: float) -> None:
    (row,) = (row for row in sweep() if row["concurrency"] == load)
    measured = row["spec_output_tok_s"] / row["plain_output_tok_s"]
    predicted = gh200(row["spec_accept_len"], 1e9).speedup_under_load(7, load)
    assert predicted == pytest.approx(measured, rel=within)


def test_a_steady_acceptance_would_not_have_crossed() -> None:
    # 1.99 tokens a round at 8 requests, 1.52 at 32: the report does not say why, and without
    # that fall its step times alone would have left a gain at every load
    assert gh200(1.99, 1e9).speedup_under_load(7, 32) > 1


# Qwen3-30B-A3B with EAGLE-3 on two H100, chain of 3: SpecForge issue 339. 0.72x and 0.79x.
@cache
def mixture() -> Case:
    target = CATALOG.llm("Qwen/Qwen3-30B-A3B")
    pairing = next(p for p in CATALOG.pairings_for(target.id) if p.method is Method.EAGLE3)
    drafting = Drafting(
        pairing.method, pairing.draft, head_spec(target, pairing), given({3: 1.86})
    )
    return Case(target, drafting, CATALOG.gpu("h100-sxm-80gb"), 2, (100, 400))


@pytest.mark.parametrize(("batch", "plain", "drafted"), [(1, 222.47, 159.78), (4, 566.21, 447.9)])
def test_a_mixture_of_experts_is_promised_no_gain(
    batch: int, plain: float, drafted: float
) -> None:
    low, _, high = mixture().round_ratio(3, batch)
    assert low <= 1.86 * plain / drafted <= high
    assert 1.86 / high < 1  # the interval of the speedup holds 1, which the plan warns of


def test_its_plain_step_is_met() -> None:
    tpot_s = mixture().at(mixture().grid.baseline_tpot_s, 3, 1)
    assert 1 / tpot_s == pytest.approx(222.47, rel=0.10)


def test_a_plan_for_the_mixture_carries_both_warnings() -> None:
    request = PlanRequest(
        targets=("Qwen/Qwen3-30B-A3B",),
        methods=(Method.EAGLE3,),
        budget_usd_per_month=100_000,
        workload=Workload(prompt_tokens=100, output_tokens=400, temperature=0.0),
        gpus=("h100-sxm-80gb",),
        tensor_parallel=(2,),
        assumed_acceptance=0.5,
    )
    plan = recommend(request)
    drafted = next(option for option in plan.options if option.method is Method.EAGLE3)
    context = Context(plan, drafted, moe_targets=request.targets)
    assert drafted.speedup.low < 1
    assert "reads more experts" in (moe_verification(context) or "")
    straddles = speedup_straddles_one(context)
    assert drafted.speedup.high < 1 or (straddles is not None and "holds 1" in straddles)


def test_the_first_line_says_of_the_mixture_that_it_is_not_decided() -> None:
    request = PlanRequest(
        targets=("Qwen/Qwen3-30B-A3B",),
        methods=(Method.EAGLE3,),
        budget_usd_per_month=100_000,
        workload=Workload(
            prompt_tokens=100, output_tokens=400, temperature=0.0, requests_per_s=0.3
        ),
        gpus=("h100-sxm-80gb",),
        gpu_price_usd_per_hour={"h100-sxm-80gb": 3},
        tensor_parallel=(2,),
    )
    plan = recommend(request)
    best = plan.options[0]
    assert best.speedup.low < 1 < best.speedup.high
    assert not plan.verdict.decided
    assert plan.verdict.sentence.startswith("Not decided: ")
    assert "it hangs on" in plan.verdict.sentence
    assert plan.verdict.settled_by.startswith("capplan profile ")
    assert plan.verdict.settled_by in plan.verdict.sentence
    assert sum(best.speedup_spread.values()) == pytest.approx(1)


# Llama-3.1-8B and -1B in Q8_0 on an RTX 3060, N = 5: llama.cpp issue 5877. 1.71x.
def test_a_consumer_card_that_gains_is_promised_a_gain() -> None:
    board = {"memory_bytes": 12e9, "memory_bytes_per_s": 360e9, "bf16_flops_per_s": 25.4e12}
    rtx_3060 = CATALOG.gpu("rtx-3090").model_copy(update=board)  # GA106, half a GA102
    draft = shrunk(CATALOG.llm("meta-llama/Llama-3.2-1B-Instruct"), 34 / 64)
    case = Case(
        shrunk(CATALOG.llm(LLAMA_8B), 34 / 64),  # q8_0: 34 bytes for 32 weights
        Drafting(Method.DRAFT_MODEL, draft.id, draft, given({5: 4.578})),
        rtx_3060,
        1,
        (100, 673),
    )
    low, _, high = case.round_ratio(5, 1)
    assert low <= 2.68 <= high
    assert 4.578 / high > 1  # no warning: the whole interval is a gain
    assert case.at(case.grid.baseline_tpot_s, 5, 1) == pytest.approx(30.78e-3, rel=0.10)


# QwQ-32B (the shape of Qwen2.5-32B) with an EAGLE head in SGLang, GPU and N not reported:
# SGLang issue 6949. 1.43x on one GPU, 0.97x on four.
@pytest.mark.parametrize("gpu", ["a100-sxm-80gb", "h100-sxm-80gb", "h20-96gb"])
def test_a_round_costs_more_steps_on_four_gpus_than_on_one(gpu: str) -> None:
    target = CATALOG.llm("Qwen/Qwen2.5-32B-Instruct")
    pairing = next(
        p for p in CATALOG.pairings_for("Qwen/Qwen3-32B") if p.method is Method.EAGLE3
    ).model_copy(update={"method": Method.EAGLE})
    head = Drafting(Method.EAGLE, pairing.draft, head_spec(target, pairing), given({5: 2.2}))

    def case(tp: int) -> Case:
        return Case(target, head, CATALOG.gpu(gpu), tp, (200, 500))

    one, four = case(1), case(4)
    assert four.round_ratio(5, 1)[1] > one.round_ratio(5, 1)[1]
    assert four.round_ratio(5, 1)[2] / four.round_ratio(5, 1)[0] > 1.4  # and it is less certain
    # the size of the effect is missed: what gave 1.43x on one GPU is put at 1.2 to 1.3x on four;
    # but the interval ends at the 0.97x reported, and a plan says that it is not decided
    tokens = 1.43 * one.round_ratio(5, 1)[1]
    assert tokens / four.round_ratio(5, 1)[2] <= 0.967 * 1.06


# Llama-3.1-8B with EAGLE on one H100 at batch 1: vLLM issue 20780
@pytest.mark.parametrize(("head", "best"), [(1, 3), (3, 4)])
def test_the_best_length_of_both_heads_is_found_from_data_sheets(head: int, best: int) -> None:
    with (DATA / "llama_8b_eagle_by_length.csv").open(encoding="utf-8", newline="") as file:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    tokens = {int(row["k"]): row[f"eagle{head}_accept_len"] for row in rows}
    method = Method.EAGLE if head == 1 else Method.EAGLE3
    pairing = next(
        p
        for p in CATALOG.pairings_for(LLAMA_8B)
        if p.method is method and p.draft.startswith("yuhuili/")
    )
    target = CATALOG.llm(LLAMA_8B)
    drafting = Drafting(method, pairing.draft, head_spec(target, pairing), given(tokens))
    case = Case(target, drafting, CATALOG.gpu("h100-sxm-80gb"), 1, (100, 256))
    found = {n: tau / case.round_ratio(n, 1)[1] for n, tau in tokens.items()}
    chosen = max(found, key=found.__getitem__)
    measured = {
        int(row["k"]): row["vanilla_tpot_ms"] / row[f"eagle{head}_tpot_ms"] for row in rows
    }
    assert max(measured, key=measured.__getitem__) == best
    assert measured[chosen] >= 0.96 * measured[best]
    errors = [found[n] / measured[n] - 1 for n in tokens]
    # EAGLE-3 took 1.0 ms a draft pass there, twice what the constants expect
    assert np.abs(errors).mean() < {1: 0.08, 3: 0.17}[head]
    for n in tokens:
        low, _, high = case.round_ratio(n, 1)
        assert tokens[n] / high <= measured[n] <= tokens[n] / low
