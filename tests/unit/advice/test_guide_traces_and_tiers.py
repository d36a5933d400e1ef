"""The guide's controller judged by replays, its three tiers by the law of composition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.advice.guide.measured import adaptive_gain
from capplan.advice.guide.sheet import AuditEvidence, Sheet
from capplan.advice.guide.tiers import levels
from capplan.facts.catalog import load_catalog
from capplan.facts.published import load_controller_replays
from capplan.resources import models_db_dir
from capplan.schema.audit import ClaimVerdict, ControllerReplay, Finding
from capplan.schema.quantity import Quantity

CLAIM = "adaptive-throughput-gain"


@pytest.fixture(scope="module")
def sheet() -> Sheet:
    return Sheet(load_catalog().claims)


def with_values(**changed: float) -> Sheet:
    claims = load_catalog().claims
    values = {name.replace("_", "-"): value for name, value in changed.items()}
    return Sheet(
        claim.model_copy(update={"value": values.get(claim.id, claim.value)}) for claim in claims
    )


def replay(over_five: float, over_best: float) -> ControllerReplay:
    gains = [
        Quantity(low=gain - 0.01, mid=gain, high=gain + 0.01) for gain in (over_five, over_best)
    ]
    return ControllerReplay(
        pairing="p", setting="s", requests=100, best_n=3, guide_n=2.3,
        over_five=gains[0], over_best=gains[1],
    )  # fmt: skip


def judged(sheet: Sheet, *replays: ControllerReplay) -> Finding:
    found = list(adaptive_gain(sheet, AuditEvidence(controller_replays=replays)))
    assert [claim for claim, _ in found] == [CLAIM]
    return found[0][1]


def test_a_gain_that_few_replays_reach_is_contradicted(sheet: Sheet) -> None:
    said = judged(sheet, replay(0.20, -0.02), replay(-0.1, -0.15), replay(0.05, -0.01))
    assert said.verdict is ClaimVerdict.CONTRADICTED
    assert "8 % or more in 1" in said.reason
    assert "-10 to +20 % over a fixed 5" in said.reason
    assert "-15.0 to -1.0 %, a gain in none" in said.reason
    assert said.source is not None


def test_a_gain_that_most_replays_reach_is_reproduced(sheet: Sheet) -> None:
    said = judged(sheet, replay(0.09, 0.03), replay(0.12, -0.02), replay(0.01, 0.0))
    assert said.verdict is ClaimVerdict.REPRODUCED
    assert "a gain in 1:" in said.reason


def test_without_replays_nothing_is_judged(sheet: Sheet) -> None:
    assert list(adaptive_gain(sheet, AuditEvidence())) == []


def test_the_shipped_replays_never_gain_over_the_best_single_length(sheet: Sheet) -> None:
    replays = load_controller_replays(models_db_dir() / "claims" / "controllers")
    assert len(replays) >= 18
    assert len({(one.pairing, one.setting) for one in replays}) == len(replays)
    assert all(one.over_best.high <= 0 for one in replays if one.best_n)
    short = [one.over_five for one in replays if 0 < one.best_n < 5 and one.over_five]
    assert all(gain.high > 0 for gain in short)


def test_of_eight_inner_drafts_four_are_of_use_where_five_tokens_are_taken(sheet: Sheet) -> None:
    found = dict(levels(sheet))
    said = found["multilevel-inner-n"]
    assert said.verdict is ClaimVerdict.INCONSISTENT
    assert "of the 8 that the smallest LLM drafts at most 4" in said.reason
    assert "multilevel-inner-n" not in dict(levels(with_values(multilevel_inner_n=4)))


def test_the_acceptance_that_the_guides_middle_llm_needs(sheet: Sheet) -> None:
    said = dict(levels(sheet))["rule-multilevel-size"]
    assert said.verdict is ClaimVerdict.CONTRADICTED
    # by hand at 0.7: two levels at best 10 drafts, (10 x 0.5/72 + 1) / 3.2674 = 0.3273 of a step;
    # the pair at best (3 x 0.5/72 + 3/72) / 2.533 = 0.0247, 0.0754 of it: acceptances a with
    # 1 + sum over i of max(0, a^i - 0.0754) > 1 / 0.3273 = 3.055 begin at 0.746
    assert "0.56 (0.5), 0.75 (0.7), 0.84 (0.8)" in said.reason


def test_a_middle_llm_as_large_as_the_target_is_never_worth_it() -> None:
    said = dict(levels(with_values(multilevel_medium_size=72)))["rule-multilevel-size"]
    assert "never (0.5), never (0.7), never (0.8)" in said.reason


def test_replays_without_a_five_say_nothing_of_it(sheet: Sheet) -> None:
    silent = replay(0.2, 0.0).model_copy(update={"over_five": None})
    evidence = AuditEvidence(controller_replays=(silent,))
    assert list(adaptive_gain(sheet, replace(evidence))) == []
