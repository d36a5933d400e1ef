"""The one sentence says no more than the figures do."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.planning.planner import Outcome
from capplan.planning.verdict import verdict
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest, Rejection
from capplan.schema.quantity import Quantity


def outcome(options: tuple[Any, ...], baseline: Any, **fields: Any) -> Outcome:
    known = {
        "rejections": (),
        "offers": 1,
        "candidates": 1,
        "cheapest_over_budget_usd": None,
        **fields,
    }
    return Outcome(options=options, baseline=baseline, **known)


REQUEST = PlanRequest(targets=("org/a", "org/b"), budget_usd_per_month=1000)


def pair(sample_plans: Any, usd: float, tpot_ms: float) -> Outcome:
    best = sample_plans.make_option(
        usd_per_million_output_tokens=Quantity.exact(usd), tpot_ms=Quantity.exact(tpot_ms)
    )
    plain = sample_plans.make_option(
        method=Method.NONE,
        draft=None,
        usd_per_million_output_tokens=Quantity.exact(2.0),
        tpot_ms=Quantity.exact(20.0),
    )
    return outcome((best, plain), plain)


@pytest.mark.parametrize(
    ("usd", "tpot_ms", "said", "not_said"),
    [
        (1.5, 15.0, "25 % cheaper a token", "same cost"),
        (2.0, 15.0, "same cost a token as without, and faster", "cheaper"),
        (1.999, 25.0, "same cost a token as without", "faster"),
    ],
)
def test_savings_are_said_as_they_are(
    sample_plans: Any, usd: float, tpot_ms: float, said: str, not_said: str
) -> None:
    sentence = verdict(pair(sample_plans, usd, tpot_ms), REQUEST).sentence
    assert said in sentence
    assert not_said not in sentence


def test_plain_decoding_as_the_best_plan_is_said_plainly(sample_plans: Any) -> None:
    plain = sample_plans.make_option(method=Method.NONE, draft=None)
    found = verdict(outcome((plain,), plain), REQUEST)
    assert found.feasible
    assert "without speculation" in found.sentence


def test_nothing_feasible_names_the_targets_the_budget_and_the_gap() -> None:
    found = verdict(outcome((), None, cheapest_over_budget_usd=1500.0), REQUEST)
    assert not found.feasible
    assert "org/a, org/b" in found.sentence
    assert "1,500 USD a month: 500 more than the budget" in found.needed


def test_without_any_price_the_commonest_reason_is_what_it_takes() -> None:
    rejection = Rejection(reason="memory", count=3, example="x lacks 5 GiB", remedy="More GPUs.")
    needed = verdict(outcome((), None, rejections=(rejection,)), REQUEST).needed
    assert "x lacks 5 GiB" in needed
    assert "More GPUs." in needed
    assert "No offer matches" in verdict(outcome((), None), REQUEST).needed


def test_where_no_offer_is_left_an_unknown_acceptance_is_not_to_blame() -> None:
    rejection = Rejection(
        reason="acceptance_unknown", count=5, example="no acceptance", remedy="Measure it."
    )
    nothing = outcome((), None, rejections=(rejection,), offers=0, candidates=0)
    assert "loosen --gpu" in verdict(nothing, REQUEST).needed
