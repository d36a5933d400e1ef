"""The controls of the page compute what Python computes: one formula, written twice, held equal.

The page's answer is compared with the planner's own evaluation of the same option at another
acceptance, price, load and utilisation (``capplan.planning.reevaluation``).
"""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capplan.api.plans import plan_inputs, recommend
from capplan.planning import reevaluation
from capplan.reporting import formatting as fmt, render
from capplan.schema.arrival import Arrival
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.workload import Slo, Workload

pytestmark = pytest.mark.browser
TARGET = "Qwen/Qwen3-32B"
SETTINGS = [
    {"price": 1.0, "load": 1.0, "acceptance": 1.0, "utilisation": 0.6},
    {"price": 0.7, "load": 1.0, "acceptance": 1.0, "utilisation": 0.6},
    {"price": 1.0, "load": 2.3, "acceptance": 1.0, "utilisation": 0.6},
    {"price": 1.0, "load": 1.0, "acceptance": 0.5, "utilisation": 0.6},
    {"price": 1.0, "load": 1.0, "acceptance": 1.7, "utilisation": 0.6},
    {"price": 1.3, "load": 0.2, "acceptance": 0.8, "utilisation": 0.9},
    {"price": 1.0, "load": 9.0, "acceptance": 1.2, "utilisation": 0.3},
    {"price": 1.0, "load": 4.0, "acceptance": 0.0, "utilisation": 0.6},
]


def _request(workload: dict[str, Any], **more: Any) -> PlanRequest:
    load = {"prompt_tokens": 1500, "output_tokens": 400, **workload}
    return PlanRequest(
        targets=(TARGET,), budget_usd_per_month=200_000.0, workload=Workload(**load), **more
    )


REQUESTS = {
    "a rate": _request({"requests_per_s": 6.0}, slo=Slo(tpot_ms=40.0)),
    "a tight limit": _request({"requests_per_s": 30.0}, slo=Slo(tpot_ms=14.0)),
    "tokens a month": _request({"output_tokens_per_month": 8e9}, share_node=True),
    "no load": _request({}),
    "a peak": _request(
        {"requests_per_s": 6.0, "arrival": Arrival(day_of_week=(10, 10, 10, 10, 9, 4, 4))},
        hours_per_month=Decimal(730),
    ),
}


@pytest.fixture(scope="module", params=REQUESTS)
def planned(
    request: pytest.FixtureRequest, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Plan:
    """A plan from the shipped facts, its page open in the browser."""
    plan = recommend(REQUESTS[request.param])
    path = tmp_path_factory.mktemp("what-if") / "plan.html"
    path.write_text(render(plan, "html"), encoding="utf-8")
    browser.open(path)
    return plan


def _by_python(plan: Plan, option: PlanOption, chosen: dict[str, float]) -> PlanOption | None:
    """Return the option as the planner evaluates it in these circumstances."""
    load = plan.request.workload
    changed = {"utilisation": chosen["utilisation"]}
    for name in ("requests_per_s", "output_tokens_per_month"):
        if getattr(load, name) is not None:
            changed[name] = getattr(load, name) * chosen["load"]
    request = plan.request.model_copy(update={"workload": load.model_copy(update=changed)})
    assert option.bill is not None
    rent = option.bill.usd_per_node_hour * Decimal(repr(chosen["price"]))
    dearer = option.model_copy(
        update={"bill": option.bill.model_copy(update={"usd_per_node_hour": rent})}
    )
    _, inputs = plan_inputs(plan.request)
    drafting = reevaluation._drafting(inputs, request, option)
    assert drafting is not None
    curve = drafting.acceptance
    if curve is not None:
        most = np.arange(len(curve.tokens_per_round)) + 1.0
        tokens = 1.0 + (curve.tokens_per_round - 1.0) * chosen["acceptance"]
        curve = replace(curve, tokens_per_round=np.clip(tokens, 1.0, most))
    return reevaluation.reevaluate(inputs, request, dearer, curve).option


def _by_page(browser: Any, at: int, chosen: dict[str, float]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = browser.value(
        "(() => { const plan = JSON.parse(document.getElementById('plan').textContent);"
        f"const fleet = capplanWhatIf.fleetOf(plan, plan.options[{at}]);"
        f"return capplanWhatIf.answer(fleet, {json.dumps(chosen)}); }})()"
    )
    return found


def test_the_page_computes_what_the_planner_computes(browser: Any, planned: Plan) -> None:
    drawn = [at for at, option in enumerate(planned.options) if option.load_curve][:4]
    compared = 0
    for at in drawn:
        option = planned.options[at]
        for chosen in SETTINGS:
            mine, theirs = _by_page(browser, at, chosen), _by_python(planned, option, chosen)
            assert (mine is None) == (theirs is None), (option.id, chosen)
            if mine is None or theirs is None:
                continue
            compared += 1
            assert mine["replicas"] == theirs.replicas, (option.id, chosen)
            assert mine["gpus"] == theirs.gpus_rented
            assert max(round(mine["concurrency"]), 1) == pytest.approx(theirs.concurrency, abs=1)
            for name, expected in (
                ("usdPerMonth", theirs.usd_per_month),
                ("usdPerMillion", theirs.usd_per_million_output_tokens),
                ("tpotMs", theirs.tpot_ms),
                ("speedup", theirs.speedup),
            ):
                assert mine[name]["mid"] == pytest.approx(expected.mid, rel=1e-6), (name, chosen)
    assert compared >= 8


def test_left_alone_the_page_shows_the_plans_own_figures(browser: Any, planned: Plan) -> None:
    shown = browser.value(
        "Object.fromEntries([...document.querySelectorAll('[data-cell]')].map("
        "(cell) => [cell.dataset.cell, cell.textContent]))"
    )
    for name in ("month", "million", "replicas", "tpot", "speedup", "concurrency", "utilisation"):
        if f"planned-{name}" in shown:
            assert shown[f"now-{name}"] == shown[f"planned-{name}"], name


def _enter(browser: Any, selector: str, text: str) -> None:
    """Put a text into a field, as if it were typed."""
    browser.value(
        f"(() => {{ const field = document.querySelector({json.dumps(selector)});"
        f"field.value = {json.dumps(text)};"
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_moving_a_control_changes_the_figures_shown(browser: Any, planned: Plan) -> None:
    option = planned.options[0]
    _enter(browser, "[data-knob='price']", repr(option.usd_per_gpu_hour * 2))
    chosen = {**SETTINGS[0], "price": 2.0}
    twice = _by_python(planned, option, chosen)
    assert twice is not None
    assert browser.value("document.querySelector(\"[data-cell='now-month']\").textContent") == (
        fmt.usd_interval(twice.usd_per_month)
    )
    browser.click("[data-reset]")
    assert browser.value("document.querySelector(\"[data-cell='now-month']\").textContent") == (
        fmt.usd_interval(option.usd_per_month)
    )


def test_a_bill_of_today_is_compared_and_nonsense_is_marked(browser: Any, pages: Path) -> None:
    browser.open(pages / "plan.html")
    _enter(browser, "[data-today]", "20000")
    assert "USD less than today" in browser.value(
        "document.querySelector('[data-answer]').textContent"
    )
    _enter(browser, "[data-knob='load']", "-3")
    knob = "document.querySelector(\"[data-knob='load']\")"
    assert browser.value(f"{knob}.getAttribute('aria-invalid')") == "true"
    assert browser.complaints() == []
