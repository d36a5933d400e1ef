"""Hardware that a profile measured is a candidate like any other, once it has a price."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capplan.api import plans
from capplan.errors import ProfileInvalidError
from capplan.facts.catalog import load_catalog
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.plan import Plan, PlanRequest, Tier
from capplan.schema.verdict import Stability
from capplan.schema.workload import Slo, Workload


def stored(synthetic: Any, **of_profile: Any) -> StoredProfile:
    profile, arrays = synthetic.profile(**of_profile)
    return StoredProfile(profile, arrays, Path("p.json"))


def recommend(*profiles: StoredProfile, price: float | None = 0.10, **fields: Any) -> Plan:
    prices = {} if price is None else {"profile": price}
    asked = PlanRequest(
        targets=("org/target",),
        budget_usd_per_month=fields.pop("budget", 1e6),
        gpu_price_usd_per_hour=prices,
        **fields,
    )
    return plans.recommend(asked, profiles)


def of_machine(plan: Plan) -> list[Any]:
    return [option for option in plan.options if option.tier is Tier.PROFILED]


def test_a_profiled_machine_is_planned_at_the_stated_price(synthetic: Any) -> None:
    options = of_machine(recommend(stored(synthetic), budget=100.0))
    assert {option.method for option in options} == {Method.NONE, Method.DRAFT_MODEL}
    for option in options:
        assert option.gpu == "profile:Toy CPU"
        assert option.usd_per_gpu_hour == 0.10
        assert option.usd_per_month.mid == pytest.approx(73.0)


def test_without_a_price_the_machine_is_a_rejection_that_names_the_flag(synthetic: Any) -> None:
    plan = recommend(stored(synthetic), price=None)
    assert not of_machine(plan)
    rejected = next(r for r in plan.rejections if r.reason == "price_unknown")
    assert "Toy CPU" in rejected.example
    assert "--gpu-price profile=" in rejected.remedy


def test_its_step_times_are_the_fitted_ones(synthetic: Any) -> None:
    workload = Workload(prompt_tokens=500, output_tokens=200)
    # nothing that is rented costs so little: the machine's options are written out in full
    plan = recommend(stored(synthetic, noise=0.0), workload=workload, budget=80)
    drafted = next(o for o in of_machine(plan) if o.method is Method.DRAFT_MODEL)
    n = drafted.num_speculative_tokens
    point = next(p for p in drafted.load_curve if p.concurrency == 4)
    target, draft = synthetic.TARGET_TIMES, synthetic.DRAFT_TIMES
    round_s = target.seconds(4, n + 1, 600) + n * draft.seconds(4, 1, 600)
    assert drafted.acceptance is not None
    expected = drafted.acceptance.tokens_per_round.mid * target.seconds(4, 1, 600) / round_s
    assert point.speedup.mid == pytest.approx(expected, rel=1e-6)


def test_its_measured_acceptance_also_serves_rented_gpus(synthetic: Any) -> None:
    plan = recommend(stored(synthetic))
    rented = [o for o in plan.options if o.tier is Tier.DATASHEET and o.acceptance is not None]
    assert rented
    assert rented[0].acceptance is not None
    assert rented[0].acceptance.source.reference == "profile p-0001"


def test_batches_beyond_those_measured_are_not_planned(synthetic: Any) -> None:
    for option in of_machine(recommend(stored(synthetic))):
        assert option.max_concurrency <= 16


def test_lookup_drafts_cost_no_draft_pass(synthetic: Any) -> None:
    options = of_machine(recommend(stored(synthetic, draft="ngram", tokens_each=301)))
    drafted = next(option for option in options if option.method is Method.NGRAM)
    assert drafted.draft == "ngram"
    assert drafted.cost_ratio is not None
    assert drafted.cost_ratio.mid == 0.0
    # every round accepts at most 2: drafting more only costs verification
    assert drafted.num_speculative_tokens <= 2


def test_a_profile_of_one_request_still_makes_a_plan(synthetic: Any) -> None:
    plan = recommend(stored(synthetic, requests=1))
    drafted = [o for o in of_machine(plan) if o.method is Method.DRAFT_MODEL]
    assert drafted
    assert drafted[0].speedup.low < 1 < drafted[0].speedup.high


def test_a_trace_that_accepts_everything_makes_a_plan_at_another_temperature(
    synthetic: Any,
) -> None:
    profile, arrays = synthetic.profile(probability=1.0)
    cell = synthetic.acceptance_cell(10, 200, temperature=1.0)
    changed = profile.model_copy(update={"acceptance": (cell,)})
    plan = recommend(StoredProfile(changed, arrays, Path("p.json")))
    drafted = next(o for o in of_machine(plan) if o.acceptance is not None)
    assert drafted.acceptance.tokens_per_round.mid <= drafted.num_speculative_tokens + 1


def test_a_profile_that_judged_itself_invalid_is_refused(synthetic: Any) -> None:
    with pytest.raises(ProfileInvalidError):
        recommend(stored(synthetic, stability=Stability.INVALID))


def test_a_noisy_profile_has_wider_intervals(synthetic: Any) -> None:
    def width(stability: Stability) -> float:
        found = recommend(stored(synthetic, noise=0.05, stability=stability))
        option = next(o for o in of_machine(found) if o.method is Method.NONE)
        return float(option.tpot_ms.high / option.tpot_ms.low)

    assert width(Stability.NOISY) > width(Stability.STABLE) > 1


def test_kv_bytes_nobody_knows_are_a_rejection_not_a_traceback(synthetic: Any) -> None:
    profile, arrays = synthetic.profile(draft=None)
    bare = profile.target.model_copy(update={"spec": synthetic.llm(kv_bytes_per_token=None)})
    changed = profile.model_copy(update={"target": bare})
    plan = recommend(StoredProfile(changed, arrays, Path("p.json")))
    assert not plan.options
    assert any(rejection.reason == "kv_unknown" for rejection in plan.rejections)


def test_published_acceptance_serves_a_profile_that_took_none(synthetic: Any) -> None:
    target, draft = "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct"
    profile, _ = synthetic.profile(acceptance=())
    named = profile.model_copy(
        update={
            "target": profile.target.model_copy(update={"spec": synthetic.llm(target)}),
            "draft": profile.draft.model_copy(
                update={"llm": profile.draft.llm.model_copy(update={"spec": synthetic.llm(draft)})}
            ),
        }
    )
    catalog = load_catalog()
    published = AcceptanceFact(
        **{**dict(synthetic.fact(3, 2.5)), "target": target, "draft": draft}
    )
    asked = PlanRequest(
        targets=(target,),
        budget_usd_per_month=1e6,
        gpu_price_usd_per_hour={"profile": 0.1},
        gpus=("l4",),
    )
    plan = plans.recommend(
        asked,
        [StoredProfile(named, {}, Path("p.json"))],
        replace(catalog, acceptance=(*catalog.acceptance, published)),
    )
    drafted = [o for o in of_machine(plan) if o.draft == draft]
    assert drafted
    assert drafted[0].acceptance.source.reference == "a hand-made row"


def test_two_profiles_of_one_machine_do_not_double_plain_decoding(synthetic: Any) -> None:
    plan = recommend(stored(synthetic), stored(synthetic, draft="ngram"))
    ids = [option.id for option in plan.options]
    assert len(ids) == len(set(ids))


def test_a_limit_below_the_machines_step_rejects_it(synthetic: Any) -> None:
    # no other offer is left that comes nearer the limit and would be the example
    nothing_else = {"purchases": ("spot",), "providers": ("lambda",)}
    plan = recommend(stored(synthetic, draft=None), slo=Slo(tpot_ms=5.0), **nothing_else)
    assert not of_machine(plan)
    assert any("Toy CPU" in rejection.example for rejection in plan.rejections)
