"""Two plans side by side, and which assumptions may be moved."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from capplan.economics.bill import Tariff, monthly_bill
from capplan.errors import RequestError
from capplan.planning.plan_difference import bill_usd, compare_plans
from capplan.planning.sensitivity import combinations, why_not_moved, with_lengths
from capplan.schema.lengths import LognormalLength
from capplan.schema.plan import PlanRequest
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo, TrafficPart, Workload

NAMES = ("before.json", "after.json")


def compared(before: Any, after: Any) -> Any:
    return compare_plans(before, after, NAMES)


def usd(found: Any) -> dict[str, Decimal]:
    return {part.cause: part.usd for part in found.parts}


# ---- two plans


def test_a_plan_and_itself_differ_in_nothing(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    found = compared(plan, plan)
    assert (found.before, found.after) == NAMES
    assert found.usd_before == found.usd_after == plan.options[0].bill.total_usd
    assert found.parts == found.settings == found.notes == ()
    assert found.option_before == found.option_after == plan.options[0].id
    assert found.usd_per_million_before == 1.87


def test_a_dearer_hour_is_a_cause_of_its_own(sample_plans: Any) -> None:
    before = sample_plans.make_plan()
    dearer = monthly_bill(2, 2, Tariff(Decimal("9.576"), 2))  # 7.98 and a fifth
    after = sample_plans.make_plan(options=(sample_plans.make_option(bill=dearer),))
    found = compared(before, after)
    (price,) = found.parts
    assert price.cause == "price"
    assert price.usd == found.usd_after - found.usd_before == Decimal("2330.16")
    assert (price.before, price.after) == (
        "3.99 USD a GPU and hour", "4.788 USD a GPU and hour",
    )  # fmt: skip


def test_more_load_on_more_replicas(sample_plans: Any) -> None:
    before = sample_plans.make_plan()
    more = sample_plans.make_option(
        bill=monthly_bill(4, 2, Tariff(Decimal("7.98"), 2)),
        replicas=4,
        gpus_rented=8,
        planned_output_tokens_per_s=4800.0,
        output_tokens_per_s={"low": 9480.0, "mid": 10420.0, "high": 11380.0},
    )
    found = compared(before, sample_plans.make_plan(options=(more,)))
    parts = usd(found)
    assert parts["load"] == found.usd_after - found.usd_before
    assert sum(parts.values()) == found.usd_after - found.usd_before
    assert found.parts[0].before == "2,400 tokens/s"
    assert {(one.name, one.before, one.after) for one in found.settings} >= {
        ("replicas", "2", "4"), ("rented", "4 GPUs", "8 GPUs"),
    }  # fmt: skip


def test_a_peak_is_what_the_replicas_are_for(sample_plans: Any) -> None:
    peak = sample_plans.make_option(utilisation_at_peak=0.92)
    found = compared(sample_plans.make_plan(), sample_plans.make_plan(options=(peak,)))
    load = next(part for part in found.parts if part.cause == "load")
    assert (load.before, load.after) == ("2,400 tokens/s", "4,800 tokens/s")
    # twice the load on the same GPUs: fewer of them stand idle
    parts = usd(found)
    assert parts["load"] == -parts["whole replicas and nodes"] > 0
    assert found.usd_after == found.usd_before


def test_other_hardware_takes_step_time_batch_and_group_with_it(sample_plans: Any) -> None:
    other = sample_plans.make_option(gpu_name="H200 SXM", tensor_parallel=1, gpus_rented=2)
    found = compared(sample_plans.make_plan(), sample_plans.make_plan(options=(other,)))
    causes = {part.cause: (part.before, part.after) for part in found.parts}
    assert causes["hardware"] == ("2 x H100 SXM 80GB", "1 x H200 SXM")
    assert "step time" not in causes
    assert "batch that fits" not in causes
    assert abs(found.parts[0].usd) == max(abs(part.usd) for part in found.parts)


def test_another_draft_is_told_and_plain_decoding_yields_a_token_a_round(
    sample_plans: Any,
) -> None:
    plain = sample_plans.make_plan(options=(sample_plans.make_baseline(),))
    found = compared(sample_plans.make_plan(), plain)
    acceptance = next(part for part in found.parts if part.cause == "acceptance")
    assert (acceptance.before, acceptance.after) == ("2.75 tokens a round", "1 tokens a round")
    assert any("another draft or N" in note for note in found.notes)
    assert sum(usd(found).values()) == found.usd_after - found.usd_before


def test_without_a_load_more_tokens_are_more_load(sample_plans: Any) -> None:
    request = sample_plans.make_plan().request
    tokens = request.model_copy(update={"workload": Workload(output_tokens_per_month=1e9)})
    none = request.model_copy(update={"workload": Workload()})
    loaded, empty = (sample_plans.make_plan(request=one) for one in (tokens, none))
    assert compared(loaded, loaded).notes == ()
    for pair in ((loaded, empty), (empty, loaded), (empty, empty)):
        assert "a plan without a load" in compared(*pair).notes[0]


def test_a_plan_without_an_option_has_nothing_to_compare(sample_plans: Any) -> None:
    plan, nothing = sample_plans.make_plan(), sample_plans.infeasible_plan()
    found = compared(plan, nothing)
    assert found.notes == ("no option to compare in after.json",)
    assert found.usd_after is found.option_after is found.usd_per_million_after is None
    assert found.parts == ()
    both = compared(nothing, nothing)
    assert both.notes == ("no option to compare in before.json and after.json",)
    assert both.usd_before is None


def test_settings_of_request_limits_and_versions(sample_plans: Any) -> None:
    before = sample_plans.make_plan()
    request = before.request.model_copy(
        update={
            "slo": Slo(tpot_ms=30.0, ttft_ms=500.0),
            "budget_usd_per_month": 25_000.0,
            "engine": "sglang",
        }
    )
    after = sample_plans.make_plan(request=request, capplan_version="9.9")
    found = {(one.group, one.name): (one.before, one.after) for one in
             compared(before, after).settings}  # fmt: skip
    assert found["limits", "tpot ms"] == ("40", "30")
    assert found["limits", "ttft ms"] == ("", "500")
    assert found["limits", "budget USD a month"] == ("20000", "25000")
    assert found["engine", "engine"] == ("vllm", "sglang")
    assert found["engine", "capplan"][1] == "9.9"


def test_a_bill_of_an_older_version_is_the_middle_of_its_interval(sample_plans: Any) -> None:
    old = sample_plans.make_option(
        bill=None, usd_per_month=Quantity(low=900.0, mid=1000.5, high=1100.0)
    )
    assert bill_usd(old) == Decimal("1000.5")
    found = compared(
        sample_plans.make_plan(options=(old,)), sample_plans.make_plan(options=(old,))
    )
    assert found.usd_before == Decimal("1000.5")
    assert found.parts == ()


# ---- assumptions that may be moved

REQUEST = PlanRequest(
    targets=("an LLM",), budget_usd_per_month=1000.0,
    workload=Workload(requests_per_s=2.0, prompt_tokens=1000, output_tokens=300),
)  # fmt: skip
SPREAD = LognormalLength(median_tokens=100.0, sigma=0.5)


def loaded(**workload: Any) -> PlanRequest:
    return REQUEST.model_copy(update={"workload": Workload(**workload)})


@pytest.mark.parametrize(
    ("request_", "name", "why"),
    [
        (REQUEST, "load", None),
        (REQUEST, "prompt", None),
        (REQUEST, "lengths", None),
        (loaded(), "load", "no load"),
        (loaded(prompt_lengths=SPREAD), "prompt", "distribution"),
        (loaded(prompt_lengths=SPREAD), "lengths", "distribution"),
        (loaded(prompt_lengths=SPREAD), "output", None),
        (loaded(output_lengths=SPREAD), "output", "distribution"),
        (loaded(mix=(TrafficPart(share=1, output_tokens=50),)), "output", "distribution"),
        (loaded(mix=(TrafficPart(share=1),)), "output", None),
        (loaded(prompt_lengths=SPREAD), "price", None),
    ],
)
def test_what_a_plan_does_not_have_is_not_moved(
    request_: PlanRequest, name: str, why: str | None
) -> None:
    found = why_not_moved(request_, name)
    assert found is None if why is None else why in str(found)


def test_lengths_are_whole_and_never_vanish() -> None:
    longer = with_lengths(REQUEST, 1.5, 0.5).workload
    assert (longer.prompt_tokens, longer.output_tokens) == (1500, 150)
    least = with_lengths(REQUEST, 1e-9, 1e-9).workload
    assert (least.prompt_tokens, least.output_tokens) == (1, 2)
    assert least.requests_per_s == 2.0
    assert with_lengths(REQUEST, 1.0, 1.0) is REQUEST


def test_every_combination_of_lengths_has_a_grid_of_the_rest() -> None:
    factors = {"prompt": (0.5, 1.0), "price": (1.0, 2.0), "output": (1.0, 3.0)}
    found = list(combinations(REQUEST, factors))
    assert [(prompt, output) for prompt, output, _, _ in found] == [
        (0.5, 1.0), (0.5, 3.0), (1.0, 1.0), (1.0, 3.0),
    ]  # fmt: skip
    assert all(grid.price == (1.0, 2.0) and grid.load == (1.0,) for *_, grid in found)
    assert found[1][2].workload.output_tokens == 900
    assert found[2][2] is REQUEST


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"weather": (1.0,)}, "'weather' is no factor"),
        ({"price": ()}, "price has no factor"),
        ({"prompt": (0.0,)}, "factor of 0 on prompt"),
        ({"output": (-1.0,)}, "factor of -1 on output"),
        ({"prompt": (float("inf"),)}, "factor of inf on prompt"),
        ({"prompt": (float("nan"),)}, "factor of nan on prompt"),
        ({"price": tuple(range(1, 102)), "load": tuple(range(1, 101))}, "10,100 scenarios"),
    ],
)
def test_factors_that_are_none_are_refused(factors: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        list(combinations(REQUEST, factors))


def test_ten_thousand_scenarios_are_the_most() -> None:
    factors = {"price": tuple(range(1, 101)), "load": tuple(range(1, 101))}
    ((_, _, _, grid),) = combinations(REQUEST, factors)
    assert len(grid.scenarios()) == 10_000


def test_a_load_that_is_not_there_may_stand_at_one() -> None:
    nothing = loaded()
    assert list(combinations(nothing, {"load": (1.0,)}))
    with pytest.raises(RequestError, match="load cannot be varied: the plan has no load"):
        list(combinations(nothing, {"load": (1.0, 2.0)}))
