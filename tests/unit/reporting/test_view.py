from __future__ import annotations

from typing import Any

import pytest

from capplan.reporting import labels
from capplan.reporting.saving import saving
from capplan.reporting.view import baseline_of, build_view
from capplan.schema.pairing import Method
from capplan.schema.plan import Tier
from capplan.schema.quantity import Quantity


def test_saving_is_one_minus_the_ratio_of_costs() -> None:
    share = saving(Quantity.exact(1.5), Quantity.exact(2.0))
    assert (share.low, share.mid, share.high) == pytest.approx((0.25, 0.25, 0.25))


def test_saving_widens_with_the_spread_of_either_side() -> None:
    option = Quantity(low=1.4, mid=1.5, high=1.6)
    alone = saving(option, Quantity.exact(2.0))
    both = saving(option, Quantity(low=1.8, mid=2.0, high=2.2))
    assert alone.low == pytest.approx(1 - 1.6 / 2)
    assert both.low < alone.low < alone.mid < alone.high < both.high


def test_a_dearer_plan_says_that_it_costs_more(sample_plans: Any) -> None:
    dear = sample_plans.make_option(usd_per_million_output_tokens=Quantity.exact(4.86))
    view = build_view(
        sample_plans.make_plan(
            options=(dear,),
            baseline=sample_plans.make_baseline(
                usd_per_million_output_tokens=Quantity.exact(2.43)
            ),
        )
    )
    assert view.finalists[0].saving == "costs 100 % more"


def test_a_plan_of_the_same_cost_neither_saves_nor_costs_more(sample_plans: Any) -> None:
    option = sample_plans.make_option()
    cost = option.usd_per_million_output_tokens

    def said(plain_cost: Quantity, plan_cost: Quantity) -> str:
        plain = sample_plans.make_baseline(usd_per_million_output_tokens=plain_cost)
        best = option.model_copy(update={"usd_per_million_output_tokens": plan_cost})
        view = build_view(sample_plans.make_plan(options=(best, plain), baseline=plain))
        return view.finalists[0].saving

    exact = Quantity.exact(cost.mid)
    wide = Quantity(low=cost.mid / 2, mid=cost.mid, high=cost.mid * 2)
    assert said(exact, exact) == "costs the same"
    assert said(exact, wide) == "costs the same (50 % less to 100 % more)"


def test_neighbouring_loads_with_one_best_length_become_one_band(sample_plans: Any) -> None:
    bands = build_view(sample_plans.make_plan()).finalists[0].bands
    assert [(band.length, band.first, band.last) for band in bands] == [
        ("4", "1", "4"),
        ("3", "8", "16"),
        ("2", "32", "64"),
        ("1", "128", "128"),
    ]


def test_every_target_has_its_best_option(sample_plans: Any) -> None:
    other = sample_plans.make_option(id="other", target="meta-llama/Llama-3.1-8B-Instruct")
    plan = sample_plans.make_plan(options=(*sample_plans.make_plan().options, other))
    finalists = build_view(plan).finalists
    assert [finalist.option.rank for finalist in finalists] == [1, 6]
    assert finalists[1].option.target == "meta-llama/Llama-3.1-8B-Instruct"


def test_an_option_is_never_compared_to_another_targets_baseline(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    other = sample_plans.make_option(id="other", target="meta-llama/Llama-3.1-8B-Instruct")
    assert baseline_of(plan, plan.options[0]) == plan.baseline
    assert baseline_of(plan, other) is None


def test_without_speculation_there_is_no_guide_and_no_saving(sample_plans: Any) -> None:
    baseline = sample_plans.make_baseline()
    finalist = build_view(sample_plans.make_plan(options=(baseline,))).finalists[0]
    assert finalist.guide is None
    assert finalist.saving == ""


@pytest.mark.parametrize(("guide", "reason"), [(1.1, "bonus token"), (2.1, "verification cost")])
def test_the_guide_says_which_omission_weighs_more(
    sample_plans: Any, guide: float, reason: str
) -> None:
    option = sample_plans.make_option(guide_speedup=guide)
    view = build_view(sample_plans.make_plan(options=(option,))).finalists[0].guide
    assert view is not None
    assert f"the missing {reason} weighs more" in view.reason
    assert "4 tokens for 22 concurrent requests" in view.reason


def test_nothing_recommended_is_infeasible(sample_plans: Any) -> None:
    view = build_view(sample_plans.infeasible_plan())
    assert view.finalists == ()
    assert "9,870" in view.needed


def test_a_modelled_step_time_leads_to_the_profiler(sample_plans: Any) -> None:
    option = sample_plans.make_option(tier=Tier.DATASHEET, target="my model", draft="d")
    command = build_view(sample_plans.make_plan(options=(option,))).next_command
    assert command == "capplan profile 'my model' --draft d -o profile.json"


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("Qwen/Qwen3-32B", "Qwen3-32B"),
        ("/data/models/llama/", "llama"),
        ("plain", "plain"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
def test_short_ids_cut_only_paths_and_hub_ids(full: str, short: str) -> None:
    assert labels.short_id(full) == short


def test_every_method_and_rejection_of_the_schema_has_a_name() -> None:
    assert set(labels.METHODS) == set(Method)
    documented = "memory context tpot ttft budget acceptance_unknown vocabulary node_size"
    assert {*documented.split(), "kv_unknown"} <= set(labels.REASONS)
