from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from capplan.advice.rules import RULES, advise
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, Tier
from capplan.schema.price import Purchase
from capplan.schema.provenance import Kind, Source
from capplan.schema.quantity import Quantity

TODAY = date(2026, 11, 20)


@pytest.fixture
def plan_with(sample_plans: Any) -> Callable[..., Plan]:
    def make(**option: Any) -> Plan:
        quiet: dict[str, Any] = {"method": Method.EAGLE3, "draft": "org/head"}
        plan: Plan = sample_plans.make_plan(options=(sample_plans.make_option(**quiet | option),))
        load = plan.request.workload.model_copy(update={"temperature": 0.0})
        return plan.model_copy(
            update={"request": plan.request.model_copy(update={"workload": load})}
        )

    return make


def test_a_sound_plan_draws_no_advice(plan_with: Callable[..., Plan]) -> None:
    assert advise(plan_with(), as_of=TODAY) == ()


def test_nothing_is_said_about_an_infeasible_plan(sample_plans: Any) -> None:
    assert advise(sample_plans.infeasible_plan(), as_of=TODAY) == ()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"speedup": Quantity(low=0.94, mid=1.12, high=1.33)}, "0.94x to 1.33x, holds 1"),
        ({"tier": Tier.DATASHEET, "tier_note": "18 % error"}, "modelled from data sheets (18 %"),
        ({"method": Method.DRAFT_MODEL}, "without CUDA graphs"),
        ({"concurrency": 200}, "200 requests verify 800 tokens a step"),
        ({"purchase": Purchase.SPOT}, "4 spot GPUs at 3.99 USD"),
        ({"price_tier": "community"}, "is a community offer"),
        ({"utilisation": 0.93}, "Mean utilisation is 93 %"),
        ({"usd_per_month_idle": 5825.5}, "5,826 USD a month (50 %)"),
    ],
)
def test_each_rule_gives_its_number(
    plan_with: Callable[..., Plan], option: dict[str, Any], says: str
) -> None:
    advice = advise(plan_with(**option), as_of=TODAY)
    assert len(advice) == 1
    assert says in advice[0]


@pytest.mark.parametrize(
    ("kind", "says"),
    [(Kind.ASSUMED, "are assumed"), (Kind.CITED, "from elsewhere"), (Kind.CLAIMED, "elsewhere")],
)
def test_acceptance_that_was_not_measured_is_said(
    sample_plans: Any, plan_with: Callable[..., Plan], kind: Kind, says: str
) -> None:
    figure = sample_plans.make_option().acceptance.model_copy(
        update={"source": Source(kind=kind, reference="somebody")}
    )
    (advice,) = advise(plan_with(acceptance=figure), as_of=TODAY)
    assert says in advice
    assert "2.75 tokens a round" in advice


@pytest.mark.parametrize(("day", "said"), [(24, 0), (25, 1)])
def test_prices_are_stale_after_sixty_days(
    plan_with: Callable[..., Plan], day: int, said: int
) -> None:
    assert len(advise(plan_with(), as_of=date(2026, 11, day))) == said


def test_without_a_day_nothing_is_judged_and_an_undated_price_is_said(
    plan_with: Callable[..., Plan],
) -> None:
    undated = Source(kind=Kind.CITED, reference="a list", date=None)
    assert advise(plan_with()) == ()
    (advice,) = advise(plan_with(price_source=undated), as_of=date(2030, 1, 1))
    assert "is undated" in advice


def test_old_prices_of_other_options_are_counted(sample_plans: Any) -> None:
    fresh, old = (
        sample_plans.make_option(
            price_source=Source(kind=Kind.CITED, reference="a list", date=day)
        )
        for day in ("2029-12-01", "2029-01-01")
    )
    plan = sample_plans.make_plan(options=(fresh, old, old))
    said = " ".join(advise(plan, as_of=date(2030, 1, 1)))
    assert "Of the other options, 2 of 2 rest on prices older than 60 days" in said


def test_temperature_matters_for_drafted_tokens_only(sample_plans: Any) -> None:
    def advice(method: Method) -> str:
        option = sample_plans.make_option(method=method, draft="x")
        return " ".join(advise(sample_plans.make_plan(options=(option,)), as_of=TODAY))

    assert "At temperature 0.7" in advice(Method.EAGLE3)
    assert "At temperature" not in advice(Method.NGRAM)


def test_experts_are_mentioned_for_mixtures_only(plan_with: Callable[..., Plan]) -> None:
    plan = plan_with()
    (advice,) = advise(plan, as_of=TODAY, moe_targets={"Qwen/Qwen3-32B"})
    assert "reads more experts" in advice


def test_plain_decoding_hears_nothing_about_drafts(sample_plans: Any) -> None:
    plan = sample_plans.make_plan(options=(sample_plans.make_baseline(),))
    assert advise(plan, as_of=TODAY, moe_targets={"Qwen/Qwen3-32B"}) == ()


def test_every_rule_is_listed_once() -> None:
    assert len(set(RULES)) == len(RULES)


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (Method.DRAFT_MODEL, "capplan profile Qwen/Qwen3-32B --draft x"),
        (Method.NGRAM, "--method ngram"),
        (Method.EAGLE3, "vllm:spec_decode_num_accepted_tokens_total"),
    ],
)
def test_acceptance_is_measured_by_what_can_measure_it(
    sample_plans: Any, method: Method, remedy: str
) -> None:
    figure = sample_plans.make_option().acceptance.model_copy(
        update={"source": Source(kind=Kind.CITED, reference="somebody")}
    )
    option = sample_plans.make_option(method=method, draft="x", acceptance=figure)
    advice = " ".join(advise(sample_plans.make_plan(options=(option,)), as_of=TODAY))
    assert remedy in advice
