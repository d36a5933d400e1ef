"""What-ifs answer as a plan made anew for each scenario would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capplan.api.plans import plan_inputs, recommend
from capplan.api.what_if import whatif
from capplan.errors import RequestError
from capplan.planning.scenarios import Scenario, ScenarioGrid, best_choices
from capplan.profiles.store import StoredProfile
from capplan.schema.lengths import LognormalLength
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Slo, Workload

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
REQUEST = PlanRequest(
    targets=(LLAMA,),
    budget_usd_per_month=20_000,
    workload=Workload(requests_per_s=20.0, prompt_tokens=1000, output_tokens=300),
    gpus=("h100-sxm-80gb", "l40s-48gb", "a100-sxm-80gb"),
)


def test_without_a_change_a_scenario_is_the_plans_own_recommendation() -> None:
    plan = recommend(REQUEST)
    best = plan.options[0]
    found = whatif(plan, ScenarioGrid())
    assert len(found) == 1
    row = found.rows[0]
    assert row == found.base
    assert not row.choice_changes
    assert (row.draft, row.num_speculative_tokens) == (best.draft, best.num_speculative_tokens)
    assert (row.gpu, row.tensor_parallel) == (best.gpu, best.tensor_parallel)
    assert (row.provider, row.instance) == (best.provider, best.instance)
    assert row.replicas == best.replicas
    assert row.usd_per_month == pytest.approx(best.usd_per_month.mid, rel=1e-9)
    million = best.usd_per_million_output_tokens.mid
    assert row.usd_per_million_output_tokens == pytest.approx(million, rel=1e-9)
    assert row.speedup == pytest.approx(best.speedup.mid, rel=1e-9)
    assert row.tpot_ms == pytest.approx(best.tpot_ms.mid, rel=1e-9)


@pytest.mark.parametrize(("load", "lengths"), [(2.0, 1.0), (0.5, 1.0), (1.0, 2.0), (2.0, 0.5)])
def test_load_and_lengths_are_searched_as_a_plan_of_them_would_be(
    load: float, lengths: float
) -> None:
    workload = Workload(
        requests_per_s=20.0 * load,
        prompt_tokens=round(1000 * lengths),
        output_tokens=round(300 * lengths),
    )
    best = recommend(REQUEST.model_copy(update={"workload": workload})).options[0]
    row = whatif(REQUEST, ScenarioGrid(load=(load,), lengths=(lengths,))).rows[0]
    assert row.usd_per_month == pytest.approx(best.usd_per_month.mid, rel=1e-9)
    assert (row.draft, row.gpu, row.provider) == (best.draft, best.gpu, best.provider)
    assert row.speedup == pytest.approx(best.speedup.mid, rel=1e-9)


def test_prices_scale_the_bill_and_may_exceed_the_budget() -> None:
    found = whatif(REQUEST, ScenarioGrid(price=(1.0, 1.5, 1000.0)))
    now, dearer, over = found.rows
    assert dearer.usd_per_month == pytest.approx(1.5 * (now.usd_per_month or 0))
    assert not dearer.choice_changes
    assert not over.feasible
    assert over.usd_per_month is None
    assert over.choice_changes


def test_drafts_that_are_never_accepted_are_not_used() -> None:
    row = whatif(REQUEST, ScenarioGrid(acceptance=(0.0,))).rows[0]
    assert row.method == "none"
    assert row.speedup == 1.0
    assert row.speculation_changes == (found_method(REQUEST) != "none")


def found_method(request: PlanRequest) -> str | None:
    return whatif(request, ScenarioGrid()).base.method


def test_overheads_that_grow_never_make_a_plan_cheaper() -> None:
    rows = whatif(REQUEST, ScenarioGrid(overhead=(0.0, 1.0, 5.0, 50.0))).rows
    usd = [row.usd_per_million_output_tokens or 0 for row in rows]
    assert usd == sorted(usd)


def test_every_combination_is_a_row_in_the_order_of_the_grid() -> None:
    grid = ScenarioGrid(acceptance=(0.5, 1.0), price=(1.0, 2.0), load=(1.0, 3.0))
    assert len(grid.scenarios()) == 8
    assert grid.scenarios()[0] == Scenario(0.5, 1.0, 1.0)
    assert grid.scenarios()[-1] == Scenario(1.0, 2.0, 3.0)
    rows = whatif(REQUEST, grid).records()
    factors = [(r["acceptance_factor"], r["price_factor"], r["load_factor"]) for r in rows]
    assert factors == [(s.acceptance, s.price, s.load) for s in grid.scenarios()]


def test_a_frame_has_a_row_a_scenario() -> None:
    pytest.importorskip("pandas")
    frame = whatif(REQUEST, ScenarioGrid(price=(1.0, 2.0))).to_frame()
    assert len(frame) == 2
    assert {"price_factor", "usd_per_month", "speedup", "choice_changes"} <= set(frame.columns)


@pytest.mark.parametrize(
    "grid",
    [ScenarioGrid(price=(0.0,)), ScenarioGrid(load=(-1.0,)), ScenarioGrid(acceptance=(-0.1,))],
)
def test_a_factor_that_is_none_is_refused(grid: ScenarioGrid) -> None:
    with pytest.raises(RequestError, match="factor"):
        whatif(REQUEST, grid)


def test_a_load_that_the_plan_does_not_have_cannot_be_varied() -> None:
    request = REQUEST.model_copy(update={"workload": Workload()})
    with pytest.raises(RequestError, match="no load to vary"):
        whatif(request, ScenarioGrid(load=(1.0, 2.0)))
    assert whatif(request, ScenarioGrid(price=(1.0, 2.0))).base.feasible


def test_lengths_known_by_distribution_are_not_stretched() -> None:
    spread = Workload(
        requests_per_s=2.0, prompt_lengths=LognormalLength(median_tokens=500, sigma=1)
    )
    request, inputs = plan_inputs(REQUEST.model_copy(update={"workload": spread}))
    with pytest.raises(RequestError, match="lengths are known by their distribution"):
        best_choices(inputs, request, [Scenario(lengths=2.0)])


def test_where_no_limit_is_kept_a_scenario_has_no_choice() -> None:
    tight = {"slo": Slo(tpot_ms=0.001), "gpus": ("l40s-48gb",)}
    request, inputs = plan_inputs(REQUEST.model_copy(update=tight))
    assert best_choices(inputs, request, [Scenario(), Scenario(price=0.5)]) == [None, None]


def test_overheads_of_a_profiled_machine_are_scaled_as_they_were_measured(synthetic: Any) -> None:
    # passes of N = 3 at batch 1 take 13.8 ms: the rest of 16 ms is the round's own
    profile, arrays = synthetic.profile(rounds=(synthetic.rounds_cell(3, 0.016),))
    asked = PlanRequest.model_validate(
        {
            "targets": ("org/target",),
            "budget_usd_per_month": 100,
            "gpu_price_usd_per_hour": {"profile": 0.1},
            "max_num_speculative_tokens": 3,
        }
    )
    request, inputs = plan_inputs(asked, [StoredProfile(profile, arrays, Path("p.json"))])
    inputs = replace(inputs, prices=())
    (machine,) = inputs.machines
    assert machine.evidence.round_overhead_s > 0.001
    factors = (0.0, 1.0, 100.0)
    none, one, most = best_choices(inputs, request, [Scenario(overhead=f) for f in factors])
    assert none is not None
    assert one is not None
    assert most is not None
    assert none.speedup > one.speedup
    assert most.length == 0
