"""The one sentence says no more than the figures do."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.planning.planner import Outcome
from capplan.planning.verdict import verdict
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest, Rejection, SpreadCause, Tier
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


def test_a_speedup_that_may_lose_is_not_decided_and_says_what_would_settle_it(
    sample_plans: Any,
) -> None:
    best = sample_plans.make_option(
        speedup=Quantity(low=0.6, mid=1.1, high=1.5),
        speedup_spread={SpreadCause.EXPERTS: 0.7, SpreadCause.ACCEPTANCE: 0.3},
    )
    found = verdict(outcome((best,), None), REQUEST)
    assert found.sentence.startswith("Not decided: 1.10x (0.60-1.50)")
    assert "experts that verifying" in found.sentence
    assert "tokens a round on your text (30 %)" in found.sentence
    assert not found.decided
    assert found.settled_by in found.sentence
    assert found.settled_by.startswith("capplan profile ")


def test_a_speedup_that_cannot_lose_is_decided(sample_plans: Any) -> None:
    best = sample_plans.make_option(speedup=Quantity(low=1.01, mid=1.4, high=1.9))
    found = verdict(outcome((best,), None), REQUEST)
    assert found.decided
    assert found.settled_by == ""
    assert found.sentence.startswith("Speculate for ")


@pytest.mark.parametrize(
    ("cause", "method", "said", "command"),
    [
        (SpreadCause.ACCEPTANCE, Method.DRAFT_MODEL, "your text", "--prompts FILE"),
        (SpreadCause.DRAFT_PASSES, Method.DRAFT_MODEL, "drafting", "--draft"),
        (SpreadCause.VERIFICATION, Method.NGRAM, "verifying", "--method ngram"),
        (SpreadCause.EXCHANGE, Method.EAGLE3, "exchanges between", "--server URL"),
        (SpreadCause.ROUND, Method.EAGLE3, "beside its passes", "--server URL"),
    ],
)
def test_every_cause_is_named_with_a_command_that_fits_the_method(
    sample_plans: Any, cause: SpreadCause, method: Method, said: str, command: str
) -> None:
    best = sample_plans.make_option(
        method=method,
        tier=Tier.DATASHEET,
        tensor_parallel=4,
        speedup=Quantity(low=0.8, mid=1.3, high=1.6),
        speedup_spread={cause: 1.0},
    )
    found = verdict(outcome((best,), None), REQUEST)
    assert said in found.sentence
    assert command in found.settled_by


def test_a_draft_ranked_behind_plain_decoding_may_still_gain(sample_plans: Any) -> None:
    plain = sample_plans.make_option(method=Method.NONE, draft=None)
    drafted = sample_plans.make_option(
        speedup=Quantity(low=0.7, mid=0.9, high=1.3), speedup_spread={SpreadCause.ROUND: 1.0}
    )
    sentence = verdict(outcome((plain, drafted), plain), REQUEST).sentence
    assert "would not pay is not decided: 0.90x (0.70-1.30)" in sentence
