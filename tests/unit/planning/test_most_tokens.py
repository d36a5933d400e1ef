"""A budget and no rate: as many output tokens as whole nodes within it make."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

import capplan
from capplan.api.what_if import whatif
from capplan.facts.catalog import load_catalog
from capplan.planning import most_tokens
from capplan.planning.scenarios import ScenarioGrid
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Workload

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MONTH_S = 730 * 3600


@cache
def _catalog() -> Any:
    return load_catalog()


def request(budget: float, **fields: Any) -> PlanRequest:
    given: dict[str, Any] = {"gpus": ("h100-sxm-80gb", "l40s-48gb"), **fields}
    return PlanRequest(targets=(LLAMA,), budget_usd_per_month=budget, **given)


def plan(budget: float, **fields: Any) -> Plan:
    return capplan.recommend(request(budget, **fields), catalog=_catalog())


def bought(option: PlanOption) -> Quantity:
    assert option.output_tokens_per_month is not None
    return option.output_tokens_per_month


def node_usd(option: PlanOption) -> float:
    assert option.bill is not None
    nodes = option.bill.nodes or option.replicas
    return float(option.bill.total_usd) / nodes


def test_every_option_rents_as_many_whole_nodes_as_the_budget_pays_for() -> None:
    found = plan(30_000)
    assert len(found.options) > 20
    for option in found.options:
        assert option.bill is not None
        nodes = math.floor(30_000 / node_usd(option) + 1e-9)
        assert option.bill.nodes == nodes
        assert option.replicas == nodes * (option.bill.gpus_per_node // option.tensor_parallel)
        assert option.usd_per_month.mid <= 30_000


def test_options_come_by_their_tokens_and_equal_ones_by_dollars() -> None:
    options = plan(30_000).options
    keys = [
        (-round(bought(one).mid / MONTH_S, 6), one.usd_per_million_output_tokens.mid)
        for one in options
    ]
    assert keys == sorted(keys)


def test_a_budget_of_exactly_so_many_nodes_buys_them_and_a_cent_less_does_not() -> None:
    one = plan(30_000, gpus=("l40s-48gb",)).options[0]
    usd = one.usd_per_month.mid
    exactly = plan(usd, gpus=("l40s-48gb",)).options[0]
    assert (exactly.id, exactly.usd_per_month.mid) == (one.id, usd)
    less = plan(usd - 0.01, gpus=("l40s-48gb",))
    same = next(option for option in less.options if option.id == one.id)
    assert one.bill is not None
    assert same.bill is not None
    assert (same.bill.nodes or 0) == (one.bill.nodes or 0) - 1


def test_tokens_are_those_of_the_planned_utilisation_and_carry_the_intervals_of_speed() -> None:
    for option in plan(30_000, workload=Workload(utilisation=0.4)).options[:10]:
        tokens, capacity = bought(option), option.output_tokens_per_s
        assert tokens.mid == pytest.approx(capacity.mid * 0.4 * MONTH_S)
        assert tokens.low / tokens.mid == pytest.approx(capacity.low / capacity.mid)
        assert tokens.high / tokens.mid == pytest.approx(capacity.high / capacity.mid)
        million = option.usd_per_month.mid / tokens.mid * 1e6
        assert option.usd_per_million_output_tokens.mid == pytest.approx(million)


def test_the_first_words_are_the_tokens_with_their_interval() -> None:
    found = plan(30_000)
    tokens = bought(found.options[0])
    sentence = found.verdict.sentence
    assert sentence.startswith("Most output tokens for 30,000 USD a month: ")
    said = sentence.partition("month: ")[2].split(" M")[0].replace(",", "")
    assert float(said) == pytest.approx(tokens.mid / 1e6, rel=5e-3)
    assert "at 60 % utilisation" in sentence
    assert any("up to the budget" in one.value for one in found.assumptions)


def test_a_stated_load_stays_as_it_is_and_its_tokens_are_exact() -> None:
    found = plan(30_000, workload=Workload(requests_per_s=2.0, output_tokens=200))
    assert "Most output tokens" not in found.verdict.sentence
    for option in found.options[:10]:
        assert bought(option) == Quantity.exact(2.0 * 200 * MONTH_S)


def test_shared_nodes_are_bought_by_the_replica() -> None:
    for option in plan(30_000, share_node=True).options[:20]:
        assert option.bill is not None
        replica_usd = float(option.bill.total_usd) / option.replicas
        assert option.replicas == math.floor(30_000 / replica_usd + 1e-9)
        assert option.usd_per_month_idle == 0


def test_a_budget_below_one_node_says_what_the_cheapest_costs() -> None:
    found = plan(100.0)
    assert not found.verdict.feasible
    assert "The cheapest node on which it runs costs" in found.verdict.needed


def test_fewer_hours_buy_more_nodes_and_no_more_tokens_than_hours_allow() -> None:
    full, half = (plan(20_000, hours_per_month=hours).options[0] for hours in (730, 365))
    assert half.replicas >= 2 * full.replicas - 1
    assert bought(half).mid == pytest.approx(
        half.planned_output_tokens_per_s * 365 * 3600, rel=1e-9
    )


def test_what_ifs_rank_as_the_plan_does_and_dearer_nodes_buy_fewer() -> None:
    asked = request(30_000)
    best = plan(30_000).options[0]
    found = whatif(asked, ScenarioGrid(price=(0.5, 1.0, 2.0)), catalog=_catalog())
    cheap, same, dear = found.rows
    assert (same.replicas, same.gpu, same.provider) == (best.replicas, best.gpu, best.provider)
    assert same.usd_per_month == pytest.approx(best.usd_per_month.mid)
    assert cheap.replicas is not None
    assert dear.replicas is not None
    assert cheap.replicas >= best.replicas >= dear.replicas
    for row in found.rows:
        assert row.usd_per_month is not None
        assert row.usd_per_month <= 30_000 * (1 + 1e-9)


def test_a_budget_beyond_all_bills_is_still_an_answer() -> None:
    assert plan(1e15, gpus=("l40s-48gb",)).options


def test_options_of_plans_that_do_not_know_their_tokens_say_nothing(sample_plans: Any) -> None:
    known = sample_plans.make_option(output_tokens_per_month=Quantity.exact(2e9))
    older = sample_plans.make_option(output_tokens_per_month=None)
    assert most_tokens.bought(older, request(1000)) == ""
    assert most_tokens.against_plain(known, older) == ""
    assert most_tokens.against_plain(older, known) == ""
    half = sample_plans.make_option(output_tokens_per_month=Quantity.exact(1e9))
    same = ", as many tokens as the best plan without"
    assert most_tokens.against_plain(known, known) == same
    assert "100 % more tokens" in most_tokens.against_plain(known, half)


def test_tokens_are_told_in_three_figures_and_none_as_0(sample_plans: Any) -> None:
    tokens = Quantity(low=0.0, mid=1_234_567.0, high=1_234_567_890.0)
    option = sample_plans.make_option(output_tokens_per_month=tokens)
    assert "1.23 M (0-1,230 M)" in most_tokens.bought(option, request(1000))
