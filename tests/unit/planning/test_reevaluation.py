"""An option of a plan again: under its own evidence the same; and what other evidence does."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from capplan.api.plans import plan_inputs
from capplan.estimate.curves import curve_from_alpha
from capplan.planning.inputs import PlanInputs
from capplan.planning.planner import search
from capplan.planning.reevaluation import price_row, reevaluate
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption, PlanRequest, Tier
from capplan.schema.provenance import Kind, Source
from capplan.schema.workload import Slo, Workload

GPU, DRAFT = "h100-sxm-80gb", "Qwen/Qwen3-0.6B"
REQUEST = PlanRequest.model_validate(
    {
        "targets": ("Qwen/Qwen3-8B",),
        "budget_usd_per_month": 1e6,
        "workload": Workload(requests_per_s=8.0, prompt_tokens=1000, output_tokens=300),
        "gpus": (GPU,),
        "tensor_parallel": (2,),
        "drafts": (DRAFT,),
        "assumed_acceptance": 0.8,
        "max_num_speculative_tokens": 3,
        "gpu_price_usd_per_hour": {GPU: 2.5},
    }
)


@cache
def planned() -> tuple[PlanInputs, tuple[PlanOption, ...]]:
    resolved, inputs = plan_inputs(REQUEST)
    return inputs, search(inputs, resolved).options


def drafted() -> PlanOption:
    return next(option for option in planned()[1] if option.draft == DRAFT)


def test_under_the_plans_own_evidence_an_option_is_what_it_was() -> None:
    inputs, options = planned()
    assert {option.method for option in options} == {Method.NONE, Method.DRAFT_MODEL}
    for option in options:
        again = reevaluate(inputs, REQUEST, option)
        assert again.option is not None
        assert again.why_not == ""
        assert again.option.id == option.id
        assert again.option.usd_per_month == option.usd_per_month
        assert again.option.tpot_ms == option.tpot_ms


def test_the_unrounded_bill_is_for_exactly_the_gpus_that_the_load_asks_for() -> None:
    option = drafted()
    rate = option.output_tokens_per_s.mid / option.replicas
    load, full = 8.0 * 300, REQUEST.workload.utilisation
    expected = load / (rate * full) * 2 * 2.5 * 730
    found = reevaluate(planned()[0], REQUEST, option)
    assert found.unrounded_usd_per_month == pytest.approx(expected)
    assert found.unrounded_usd_per_month <= option.usd_per_month.mid


def test_without_a_load_the_bill_is_that_of_the_nodes() -> None:
    request = REQUEST.model_copy(
        update={"workload": Workload(), "budget_usd_per_month": 2 * 2 * 2.5 * 730}
    )
    inputs, _ = planned()
    option = search(inputs, request).options[0]
    found = reevaluate(inputs, request, option)
    assert found.unrounded_usd_per_month == 2 * 2 * 2.5 * 730


def test_better_acceptance_never_costs_more_and_its_own_n_stays() -> None:
    inputs, option = planned()[0], drafted()
    source = Source(kind=Kind.ASSUMED, reference="test")
    bills = []
    for alpha in (0.3, 0.6, 0.9):
        found = reevaluate(inputs, REQUEST, option, curve_from_alpha(alpha, source))
        assert found.option is not None
        assert found.option.num_speculative_tokens == option.num_speculative_tokens
        bills.append(found.unrounded_usd_per_month)
    assert bills == sorted(bills, reverse=True)


def test_a_draft_of_which_nothing_was_measured_is_no_option_unless_a_curve_is_given() -> None:
    unassumed = REQUEST.model_copy(update={"assumed_acceptance": None})
    inputs, option = planned()[0], drafted()
    found = reevaluate(inputs, unassumed, option)
    assert found.option is None
    assert found.unrounded_usd_per_month != found.unrounded_usd_per_month
    assert found.why_not.startswith(f"{DRAFT}: Qwen/Qwen3-8B + {DRAFT}")
    assert "no acceptance is measured or published" in found.why_not
    curve = curve_from_alpha(0.8, Source(kind=Kind.MEASURED, reference="counters"))
    again = reevaluate(inputs, unassumed, option, curve)
    assert again.option is not None
    assert again.option.usd_per_month.mid == pytest.approx(option.usd_per_month.mid)


@pytest.mark.parametrize(
    ("draft", "named"), [("org/other", "org/other"), (None, "plain decoding")]
)
def test_a_way_to_draft_that_is_not_known_is_named(draft: str | None, named: str) -> None:
    option = drafted().model_copy(update={"draft": draft})
    assert reevaluate(planned()[0], REQUEST, option).why_not == f"{named}: not known"


def test_hardware_that_the_evidence_lacks_is_named() -> None:
    inputs, options = planned()
    found = reevaluate(replace(inputs, gpus={}), REQUEST, options[0])
    assert found.option is None
    assert found.why_not == f"{options[0].gpu_name} is not known to this evidence"


def test_limits_that_no_batch_keeps_leave_no_option() -> None:
    inputs, options = planned()
    tight = REQUEST.model_copy(update={"slo": Slo(tpot_ms=0.01)})
    found = reevaluate(inputs, tight, options[0])
    assert found.option is None
    assert found.why_not == "it no longer fits the memory or keeps the limits"


def test_the_offer_of_an_option_is_told_by_its_bill_and_without_one_by_its_price() -> None:
    option = planned()[1][0]
    row = price_row(option)
    assert (row.gpu_count, row.usd_per_hour) == (2, Decimal(5))
    older = price_row(option.model_copy(update={"bill": None}))
    assert (older.gpu_count, older.usd_per_hour) == (2, Decimal(5))


def test_a_profiled_machine_is_evaluated_from_its_own_steps(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    stored = StoredProfile(profile, arrays, Path("p.json"))
    request = PlanRequest.model_validate(
        {
            "targets": ("org/target",),
            "budget_usd_per_month": 100,
            "gpu_price_usd_per_hour": {"profile": 0.1},
        }
    )
    resolved, inputs = plan_inputs(request, [stored])
    option = next(o for o in search(inputs, resolved).options if o.tier is Tier.PROFILED)
    found = reevaluate(inputs, resolved, option)
    assert found.option is not None
    assert found.option.tier is Tier.PROFILED
    assert found.option.tpot_ms == option.tpot_ms
