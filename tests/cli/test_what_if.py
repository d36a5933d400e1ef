"""``capplan what-if``: a plan in other circumstances, from a plan file of the shipped facts."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from pathlib import Path

import pytest

import capplan
from capplan.api.answers import Commitment, Questions, Spot, answer_what_if
from capplan.errors import RequestError
from capplan.schema.arrival import Arrival
from capplan.schema.lengths import LognormalLength
from capplan.schema.plan import Plan, PlanRequest
from capplan.schema.price import Electricity, Purchase
from capplan.schema.workload import Workload

Call = Callable[..., tuple[int, str, str]]
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
DAY = (2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 11, 10, 10, 11, 11, 10, 9, 8, 7, 6, 5, 4, 3)
WORKLOAD = Workload(
    requests_per_s=40.0,
    prompt_tokens=1000,
    output_tokens=300,
    arrival=Arrival(hour_of_day=DAY, day_of_week=(10, 10, 10, 10, 9, 4, 4)),
)
REQUEST = PlanRequest(
    targets=(LLAMA,),
    budget_usd_per_month=60_000,
    workload=WORKLOAD,
    gpus=("h100-sxm-80gb", "l40s-48gb"),
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return capplan.recommend(REQUEST)


@pytest.fixture(scope="module")
def plan_file(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(plan.model_dump_json())
    return path


# ---- sensitivity


def test_the_base_of_the_sensitivity_is_the_plans_own_bill(plan: Plan) -> None:
    found = answer_what_if(plan)
    tornado, best = found.sensitivity, plan.options[0]
    assert tornado is not None
    assert tornado.base.usd_per_month == pytest.approx(best.usd_per_month.mid, rel=1e-9)
    million = best.usd_per_million_output_tokens.mid
    assert tornado.base.usd_per_million_output_tokens == pytest.approx(million, rel=1e-9)
    assert not tornado.base.choice_changes
    assert found.notes == ()


def test_every_assumption_is_moved_alone_and_the_largest_swing_stands_first(plan: Plan) -> None:
    tornado = answer_what_if(plan).sensitivity
    assert tornado is not None
    names = {row.factor_name for row in tornado.rows}
    assert names == {"acceptance", "price", "load", "prompt", "output", "overhead"}
    swings = [row.swing_usd_per_month or 0 for row in tornado.rows]
    assert swings == sorted(swings, reverse=True)
    price = next(row for row in tornado.rows if row.factor_name == "price")
    base = tornado.base.usd_per_month or 0
    assert price.swing_usd_per_month == pytest.approx(0.4 * base)
    assert not price.less.choice_changes


def test_more_load_longer_texts_and_higher_overheads_are_never_cheaper(plan: Plan) -> None:
    tornado = answer_what_if(plan, Questions(move_by=0.4)).sensitivity
    assert tornado is not None
    for row in tornado.rows:
        less, more = row.less.usd_per_month, row.more.usd_per_month
        assert less is not None
        assert more is not None
        if row.factor_name == "acceptance":
            less, more = more, less
        assert less <= more * (1 + 1e-9), row.factor_name


def test_above_the_budget_the_best_at_any_budget_is_shown(plan: Plan) -> None:
    tight = plan.options[0].usd_per_month.mid * 1.05
    request = REQUEST.model_copy(update={"budget_usd_per_month": tight})
    tornado = answer_what_if(capplan.recommend(request)).sensitivity
    assert tornado is not None
    price = next(row for row in tornado.rows if row.factor_name == "price")
    assert price.less.within_budget
    assert not price.more.within_budget
    assert price.more.usd_per_month == pytest.approx(1.2 * (tornado.base.usd_per_month or 0))


def test_what_a_plan_does_not_have_is_left_out_and_said(run: Call, tmp_path: Path) -> None:
    lengths = LognormalLength(median_tokens=200, sigma=1.0)
    workload = Workload(prompt_tokens=1000, output_lengths=lengths)
    request = REQUEST.model_copy(update={"workload": workload})
    path = tmp_path / "plan.json"
    path.write_text(capplan.recommend(request).model_dump_json())
    code, out, _ = run("what-if", path)
    assert code == 0
    assert "load: the plan has no load" in out
    assert "output: the lengths are a distribution" in out


def test_a_plan_that_rests_on_a_profile_asks_for_it(plan: Plan) -> None:
    profiled = plan.model_copy(update={"profiles": ("p-1",)})
    with pytest.raises(RequestError, match="p-1"):
        answer_what_if(profiled)
    assert answer_what_if(profiled, Questions(spares=1)).spares is not None


def test_a_plan_made_otherwise_is_said_to_differ(plan: Plan) -> None:
    other = plan.options[0].model_copy(
        update={"usd_per_month": plan.options[0].usd_per_month.scaled(1.5)}
    )
    found = answer_what_if(plan.model_copy(update={"options": (other,)}))
    assert "made anew" in found.notes[0]


# ---- scenarios


def test_factors_of_one_give_the_plans_own_figures(plan: Plan) -> None:
    names = ("acceptance", "price", "load", "prompt", "output", "lengths", "overhead")
    found = answer_what_if(plan, Questions(factors=dict.fromkeys(names, (1.0,)))).scenarios
    assert found is not None
    (row,) = found.rows
    best = plan.options[0]
    assert row["usd_per_month"] == pytest.approx(best.usd_per_month.mid, rel=1e-9)
    assert row["replicas"] == best.replicas
    assert row["choice_changes"] is False
    assert (row["prompt_factor"], row["output_factor"]) == (1.0, 1.0)


def test_one_side_of_the_lengths_is_that_of_a_plan_made_so(plan: Plan) -> None:
    found = answer_what_if(plan, Questions(factors={"output": (1.0, 2.0)})).scenarios
    assert found is not None
    workload = WORKLOAD.model_copy(update={"output_tokens": 600})
    best = capplan.recommend(REQUEST.model_copy(update={"workload": workload})).options[0]
    assert found.rows[1]["usd_per_month"] == pytest.approx(best.usd_per_month.mid, rel=1e-9)
    assert found.rows[1]["gpu"] == best.gpu
    same = (best.draft, best.num_speculative_tokens, best.gpu, best.instance) == (
        plan.options[0].draft,
        plan.options[0].num_speculative_tokens,
        plan.options[0].gpu,
        plan.options[0].instance,
    )
    assert found.rows[1]["choice_changes"] is not same


def test_rows_stand_in_the_order_in_which_the_factors_were_given(plan: Plan) -> None:
    factors = {"load": (1.0, 0.5), "output": (1.0, 1.5), "price": (0.8, 1.0)}
    found = answer_what_if(plan, Questions(factors=factors)).scenarios
    assert found is not None
    given = [(row["load_factor"], row["output_factor"], row["price_factor"]) for row in found.rows]
    assert given == list(product(*factors.values()))


def test_a_thousand_scenarios_take_about_a_second(plan: Plan) -> None:
    steps = tuple(0.5 + 0.15 * step for step in range(10))
    factors = {"load": steps, "price": steps, "acceptance": steps}
    answer_what_if(plan, Questions(factors={"load": (1.0,)}))
    start = time.perf_counter()
    found = answer_what_if(plan, Questions(factors=factors)).scenarios
    elapsed = time.perf_counter() - start
    assert found is not None
    assert len(found.rows) == 1000
    # a second on a machine that does nothing else; busy ones in CI get time
    assert elapsed < 5


@pytest.mark.parametrize(
    ("factors", "said"),
    [
        ({"gpus": (1.0,)}, "no factor of a plan"),
        ({"load": ()}, "has no factor"),
        ({"prompt": (0.0,)}, "more than 0"),
        ({"load": (-1.0,)}, "is none"),
        ({"load": (1.0,) * 200, "price": (1.0,) * 200}, "40,000 scenarios"),
    ],
)
def test_factors_that_are_none_are_refused(
    plan: Plan, factors: dict[str, tuple[float, ...]], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        answer_what_if(plan, Questions(factors=factors))


# ---- the fleet


def test_the_first_month_and_no_spares_are_the_plan(plan: Plan) -> None:
    found = answer_what_if(plan, Questions(growth_per_month=0.08, spares=2))
    best = plan.options[0]
    assert found.growth is not None
    assert found.spares is not None
    month = found.growth.months[0]
    assert month.replicas == best.replicas
    assert month.gpus_paid == best.gpus_rented
    assert month.usd_per_month == pytest.approx(best.usd_per_month.mid, rel=1e-12)
    assert month.usd_per_million_output_tokens == pytest.approx(
        best.usd_per_million_output_tokens.mid, rel=1e-9
    )
    assert month.planned_fleet_utilisation_at_peak == pytest.approx(best.utilisation_at_peak)
    assert found.spares.rows[0].usd_per_month == pytest.approx(best.usd_per_month.mid, rel=1e-12)


def test_every_option_of_a_plan_comes_out_as_planned() -> None:
    request = REQUEST.model_copy(
        update={
            "purchases": (Purchase.ON_DEMAND, Purchase.SPOT, Purchase.RESERVED),
            "gpu_price_usd_per_hour": {"l40s-48gb": Decimal("0.37")},
            "electricity": Electricity(usd_per_kwh=Decimal("0.31"), pue=Decimal("1.3")),
        }
    )
    plan = capplan.recommend(request)
    assert len({option.purchase for option in plan.options}) > 1
    assert any(option.price_tier == "own" for option in plan.options)
    for rank, option in enumerate(plan.options, start=1):
        found = answer_what_if(plan, Questions(growth_per_month=0.0, months=1), rank)
        assert found.growth is not None
        for month in found.growth.months:
            assert month.replicas == option.replicas
            assert month.usd_per_month == pytest.approx(option.usd_per_month.mid, rel=1e-12)
        assert found.growth.outgrown_in_month is None


def test_the_busiest_hour_needs_the_fixed_fleet_and_the_week_less(plan: Plan) -> None:
    found = answer_what_if(plan, Questions(autoscale=True, scale_up_lag_minutes=10)).autoscaling
    best = plan.options[0]
    assert found is not None
    assert found.fixed_usd_per_month == pytest.approx(best.usd_per_month.mid)
    assert found.most_replicas == best.replicas
    assert found.gpu_hours_per_month < found.fixed_gpu_hours_per_month
    assert found.peak_within_hour == pytest.approx(1.0)
    assert len(found.hours) == 168


def test_a_stated_peak_above_the_busiest_hour_is_kept_in_all_hours() -> None:
    arrival = Arrival(hour_of_day=DAY, peak_requests_per_s=120.0)
    workload = WORKLOAD.model_copy(update={"arrival": arrival})
    plan = capplan.recommend(REQUEST.model_copy(update={"workload": workload}))
    found = answer_what_if(plan, Questions(autoscale=True)).autoscaling
    assert found is not None
    busiest_hour = 40.0 * 11 / (sum(DAY) / 24)
    assert found.peak_within_hour == pytest.approx(120.0 / busiest_hour)
    assert found.most_replicas == plan.options[0].replicas


def test_without_hours_or_a_load_there_is_nothing_to_follow() -> None:
    steady = WORKLOAD.model_copy(update={"arrival": None})
    plan = capplan.recommend(REQUEST.model_copy(update={"workload": steady}))
    with pytest.raises(RequestError, match="in which hours"):
        answer_what_if(plan, Questions(autoscale=True))
    none = capplan.recommend(REQUEST.model_copy(update={"workload": Workload()}))
    for questions in (Questions(autoscale=True), Questions(growth_per_month=0.1)):
        with pytest.raises(RequestError, match="no load"):
            answer_what_if(none, questions)


def test_prices_are_stated_or_listed_and_never_made_up(plan: Plan) -> None:
    one = plan.options[0]
    nowhere = plan.model_copy(update={"options": (one.model_copy(update={"provider": "nobody"}),)})
    with pytest.raises(RequestError, match="No spot price"):
        answer_what_if(nowhere, Questions(spot=Spot(0.5, 0.05)))
    with pytest.raises(RequestError, match="No reserved price"):
        answer_what_if(nowhere, Questions(commitment=Commitment(0.5)))


def test_a_listed_spot_price_is_that_of_the_options_own_provider() -> None:
    request = REQUEST.model_copy(update={"purchases": (Purchase.ON_DEMAND,)})
    plan = capplan.recommend(request)
    catalog = capplan.load_catalog()
    spot = {
        (row.provider, row.gpu, row.gpu_count)
        for row in catalog.prices
        if row.purchase is Purchase.SPOT and row.tier in request.price_tiers
    }
    ranks = [
        rank
        for rank, option in enumerate(plan.options, start=1)
        if option.bill and (option.provider, option.gpu, option.bill.gpus_per_node) in spot
    ]
    assert ranks, "no option whose provider lists spot: choose another request"
    found = answer_what_if(plan, Questions(spot=Spot(0.5, 0.1)), ranks[0]).spot
    assert found is not None
    provider = plan.options[ranks[0] - 1].provider
    assert found.spot_price_source.reference.startswith(provider)
    assert found.spot_price_source.kind.value == "cited"


def test_a_blend_starts_from_an_option_on_demand() -> None:
    request = REQUEST.model_copy(update={"purchases": (Purchase.SPOT,)})
    plan = capplan.recommend(request)
    with pytest.raises(RequestError, match="bought spot"):
        answer_what_if(plan, Questions(spot=Spot(0.5, 0.05)))


# ---- command line


def test_the_default_is_a_tornado_with_bars(run: Call, plan_file: Path) -> None:
    code, out, err = run("what-if", plan_file)
    assert (code, err) == (0, "")
    assert "each moved by 20 % alone" in out
    assert "█" in out
    assert f"capplan breakeven --plan {plan_file}" in " ".join(out.split())
    assert "Held fixed" in out


def test_several_questions_at_once_as_text_and_json(
    run: Call, plan_file: Path, tmp_path: Path
) -> None:
    questions = ("--growth", "8%", "--autoscale", "--spares", "1", "--commit-share", "0.5")
    prices = ("--commit-price", "1.5")
    code, out, _ = run("what-if", plan_file, *questions, *prices)
    assert code == 0
    for head in ("Growth of 8 %", "Autoscaling", "Spare replicas", "Commitment to 50 %"):
        assert head in out
    target = tmp_path / "answers.json"
    assert run("what-if", plan_file, *questions, *prices, "-o", target)[0] == 0
    found = json.loads(target.read_text())
    assert found["schema_version"] == 1
    assert found["sensitivity"] is None
    assert found["growth"]["growth_per_month"] == pytest.approx(0.08)


def test_spot_from_stated_prices(run: Call, plan_file: Path) -> None:
    flags = ("--spot-share", "0.5", "--spot-price", "0.9", "--interruption-overhead", "0.05")
    code, out, _ = run("what-if", plan_file, *flags)
    assert code == 0
    assert "stated with the request (--spot-price)" in out


@pytest.mark.parametrize(
    ("flags", "columns"),
    [
        ((), {"factor_name", "factor", "usd_per_month", "tpot_ms"}),
        (("--set", "load=0.5,1,2"), {"load_factor", "usd_per_month", "choice_changes"}),
        (("--growth", "5"), {"month", "replicas", "usd_per_month"}),
        (("--autoscale",), {"hour_of_week", "replicas", "output_tokens_per_s"}),
        (("--spares", "2"), {"spare_replicas", "usd_of_spares_per_month"}),
    ],
)
def test_csv_is_one_table_with_units(
    run: Call, plan_file: Path, flags: tuple[str, ...], columns: set[str]
) -> None:
    code, out, _ = run("what-if", plan_file, *flags, "--format", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) >= 3
    assert columns <= set(rows[0])


def test_csv_of_two_questions_is_refused(run: Call, plan_file: Path) -> None:
    code, _, err = run("what-if", plan_file, "--spares", "1", "--autoscale", "--format", "csv")
    assert code == 2
    assert "CSV holds one table" in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--set", "load"), "is not NAME=F,F"),
        (("--set", "load=1", "--set", "load=2"), "stands there twice"),
        (("--growth", "much"), "not a number of per cent"),
        (("--scale-up-lag-minutes", "5"), "belongs to --autoscale"),
        (("--spot-price", "1"), "belongs to --spot-share"),
        (("--commit-price", "1"), "belongs to --commit-share"),
        (("--spot-share", "0.5"), "needs --interruption-overhead"),
    ],
)
def test_misuse_is_explained(
    run: Call, plan_file: Path, flags: tuple[str, ...], said: str
) -> None:
    code, _, err = run("what-if", plan_file, *flags)
    assert code == 2
    assert said in " ".join(err.split())


def test_a_move_of_everything_and_a_growth_of_nothing_are_errors(
    run: Call, plan_file: Path
) -> None:
    assert run("what-if", plan_file, "--by", "100")[0] == 2
    assert run("what-if", plan_file, "--growth", "-100%")[0] == 2


def test_the_help_has_examples(run: Call) -> None:
    code, out, _ = run("what-if", "--help")
    assert code == 0
    assert "capplan what-if plan.json --growth 8% --months 24" in out
