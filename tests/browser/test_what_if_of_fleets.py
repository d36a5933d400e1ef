"""The page's controls of several services: the sum of what Python computes of every part."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from capplan.api.plans import plan_inputs, recommend
from capplan.estimate.curves import AcceptanceCurve
from capplan.planning import reevaluation
from capplan.planning.inputs import PlanInputs
from capplan.planning.part_plans import PartPlan, part_plans
from capplan.planning.reevaluation import Reevaluated, reevaluate
from capplan.reporting import formatting as fmt, render
from capplan.schema.arrival import Arrival
from capplan.schema.plan import Plan, PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.schema.workload import Slo, Workload

pytestmark = pytest.mark.browser
LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-32B"
WEEK = Arrival(day_of_week=(10, 10, 10, 10, 9, 4, 4))
CHAT = NamedWorkload(
    name="chat",
    target=LLAMA,
    slo=Slo(tpot_ms=20),
    workload=Workload(requests_per_s=8.0, prompt_tokens=1200, output_tokens=300, arrival=WEEK),
)
FAQ = NamedWorkload(
    name="faq",
    target=LLAMA,
    slo=Slo(tpot_ms=20),
    workload=Workload(requests_per_s=0.4, prompt_tokens=1000, output_tokens=200, arrival=WEEK),
)
BATCH = NamedWorkload(
    name="batch",
    target=LLAMA,
    workload=Workload(output_tokens_per_month=3e8, prompt_tokens=2000, output_tokens=200),
)
THINK = NamedWorkload(
    name="think",
    target=QWEN,
    slo=Slo(tpot_ms=40, ttft_ms=3000),
    workload=Workload(requests_per_s=1.0, prompt_tokens=300, output_tokens=1500),
)
FULLER = THINK.model_copy(
    update={"workload": THINK.workload.model_copy(update={"utilisation": 0.8})}
)
FLEETS = {
    "two LLMs": (CHAT, THINK),
    "a group and one alone": (FAQ, BATCH, THINK),
    "two utilisations": (CHAT, FULLER),
}
PARTS = {
    "two LLMs": {"chat", "think"},
    "a group and one alone": {"faq + batch", "think"},
    "two utilisations": {"chat", "think"},
}
SETTINGS = [
    {"price": 1.0, "load": 1.0, "acceptance": 1.0},
    {"price": 0.7, "load": 1.0, "acceptance": 1.0},
    {"price": 1.0, "load": 2.3, "acceptance": 1.0},
    {"price": 1.0, "load": 1.0, "acceptance": 0.5},
    {"price": 1.3, "load": 0.4, "acceptance": 1.6},
    {"price": 1.0, "load": 6.0, "acceptance": 0.0},
]
UTILISATIONS = (1.0, 0.75)
"""On that of the largest part; all others move by the same factor."""


@pytest.fixture(scope="module", params=FLEETS)
def planned(request: pytest.FixtureRequest, browser: Any, tmp_path_factory: Any) -> Plan:
    """A fleet from the shipped facts, its page open in the browser."""
    asked = PlanRequest(
        targets=(LLAMA,),
        budget_usd_per_month=200_000.0,
        services=FLEETS[request.param],
        gpus=("h100-sxm-80gb", "l40s-48gb"),
        max_num_speculative_tokens=4,
    )
    plan = recommend(asked)
    assert {one.label for one in part_plans(plan)} == PARTS[request.param]
    path = tmp_path_factory.mktemp("fleet") / "plan.html"
    path.write_text(render(plan, "html"), encoding="utf-8")
    browser.open(path)
    return plan


def _moved(part: PartPlan, chosen: dict[str, float], shift: float) -> PartPlan:
    """Return a part at another price, load and utilisation."""
    request = part.plan.request
    load = request.workload
    changed: dict[str, Any] = {"utilisation": min(load.utilisation * shift, 1.0)}
    for name in ("requests_per_s", "output_tokens_per_month"):
        if getattr(load, name) is not None:
            changed[name] = getattr(load, name) * chosen["load"]
    arrival = load.arrival
    if arrival is not None and arrival.peak_requests_per_s is not None:
        peak = {"peak_requests_per_s": arrival.peak_requests_per_s * chosen["load"]}
        changed["arrival"] = arrival.model_copy(update=peak)
    bill = part.option.bill
    assert bill is not None
    rent = bill.usd_per_node_hour * Decimal(repr(chosen["price"]))
    option = part.option.model_copy(
        update={"bill": bill.model_copy(update={"usd_per_node_hour": rent})}
    )
    plan = part.plan.model_copy(
        update={
            "request": request.model_copy(update={"workload": load.model_copy(update=changed)}),
            "options": (option,),
        }
    )
    return replace(part, plan=plan)


def _curve(inputs: PlanInputs, part: PartPlan, factor: float) -> AcceptanceCurve | None:
    drafting = reevaluation._drafting(inputs, part.plan.request, part.option)
    if drafting is None or drafting.acceptance is None:
        return None
    curve = drafting.acceptance
    most = np.arange(len(curve.tokens_per_round)) + 1.0
    tokens = 1.0 + (curve.tokens_per_round - 1.0) * factor
    return replace(curve, tokens_per_round=np.clip(tokens, 1.0, most))


def _by_python(
    plan: Plan, inputs: PlanInputs, chosen: dict[str, float], shift: float
) -> list[Reevaluated]:
    parts = [_moved(part, chosen, shift) for part in part_plans(plan)]
    return [
        reevaluate(
            inputs, part.plan.request, part.option, _curve(inputs, part, chosen["acceptance"])
        )
        for part in parts
    ]


def _by_page(browser: Any, chosen: dict[str, float]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = browser.value(
        "(() => { const plan = JSON.parse(document.getElementById('plan').textContent);"
        "const whole = capplanWhatIf.wholeOf(plan, plan.options[0]);"
        f"return capplanWhatIf.answerWhole(whole, {json.dumps(chosen)}); }})()"
    )
    return found


def test_the_page_adds_up_what_the_planner_computes_of_every_part(
    browser: Any, planned: Plan
) -> None:
    compared = 0
    _, inputs = plan_inputs(planned.request)
    limit = planned.request.workload.utilisation
    for shift in UTILISATIONS:
        for chosen in SETTINGS:
            mine = _by_page(browser, {**chosen, "utilisation": limit * shift})
            theirs = _by_python(planned, inputs, chosen, shift)
            options = [part.option for part in theirs if part.option is not None]
            why_not = [part.why_not for part in theirs]
            assert (mine is None) == (len(options) < len(theirs)), (chosen, why_not)
            if mine is None:
                continue
            compared += 1
            usd = sum(one.usd_per_month.mid for one in options)
            assert mine["replicas"] == sum(one.replicas for one in options), chosen
            assert mine["gpus"] == sum(one.gpus_rented for one in options)
            assert mine["usdPerMonth"]["mid"] == pytest.approx(usd, rel=1e-6), chosen
            millions = sum(
                one.usd_per_month.mid / one.usd_per_million_output_tokens.mid for one in options
            )
            assert mine["usdPerMillion"]["mid"] == pytest.approx(usd / millions, rel=1e-6)
            slowest = max(one.tpot_ms.mid for one in options)
            assert mine["tpotMs"]["mid"] == pytest.approx(slowest, rel=1e-6), chosen
    assert compared >= 8


def test_left_alone_the_page_shows_the_fleets_own_figures(browser: Any, planned: Plan) -> None:
    shown = browser.value(
        "Object.fromEntries([...document.querySelectorAll('[data-cell]')].map("
        "(cell) => [cell.dataset.cell, cell.textContent]))"
    )
    assert planned.fleet is not None
    assert shown["planned-month"] == fmt.usd_interval(planned.fleet.ways[0].usd_per_month)
    for name in ("month", "million", "replicas", "tpot", "utilisation"):
        assert shown[f"now-{name}"] == shown[f"planned-{name}"], name
    assert "now-speedup" not in shown


def test_twice_the_price_is_twice_the_bill_of_all_services(browser: Any, planned: Plan) -> None:
    browser.value(
        "(() => { const knob = document.querySelector(\"[data-knob='price']\");"
        "knob.value = '200'; knob.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    assert planned.fleet is not None
    twice = planned.fleet.ways[0].usd_per_month.scaled(2.0)
    cell = "document.querySelector(\"[data-cell='now-month']\").textContent"
    assert browser.value(cell) == fmt.usd_interval(twice)
    browser.click("[data-reset]")
    assert browser.complaints() == []
