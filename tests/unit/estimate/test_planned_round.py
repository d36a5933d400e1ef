"""A round of a plan: its terms add up, its interval reaches further up, its causes sum to one."""

from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.planned_round import RoundFactors, RoundParts, round_in_steps
from capplan.estimate.steptime import VerificationExtra
from capplan.facts.engines import load_engine
from capplan.schema.engine import ROUND_TERMS, RoundConstants
from capplan.schema.plan import SpreadCause

STEP = np.array([10e-3, 20e-3])


def parts(*, experts: float = 0.0, passes: float = 3.0, is_head: bool = True) -> RoundParts:
    one = np.ones_like(STEP)
    return RoundParts(
        decode_s=STEP,
        extra=VerificationExtra(experts * one, 1e-3 * one, 0.0 * one),
        drafting_s=2e-3 * one,
        passes=passes * one,
        is_head=is_head,
    )


def test_measured_passes_simply_add_up() -> None:
    found = round_in_steps(parts(), RoundFactors.measured(round_s=0.5e-3, relative_se=0.0))
    assert found.value == pytest.approx((STEP + 1e-3 + 2e-3 + 0.5e-3) / STEP)
    assert found.log_up == pytest.approx(0.0)
    assert found.log_down == pytest.approx(0.0)


def test_one_measured_error_is_the_whole_interval() -> None:
    found = round_in_steps(parts(), RoundFactors.measured(0.0, relative_se=0.05))
    assert found.log_up == pytest.approx(1.96 * 0.05)
    assert found.log_down == pytest.approx(1.96 * 0.05)
    assert found.causes[SpreadCause.ROUND] == pytest.approx(1.0)


def test_an_interval_reaches_further_up_than_down() -> None:
    factors = RoundFactors.of(load_engine("vllm").rounds, moe=False)
    found = round_in_steps(parts(), factors)
    assert (found.log_up > found.log_down).all()
    assert sum(found.causes.values()) == pytest.approx(1.0)


def test_the_shorter_the_step_the_less_certain_the_round() -> None:
    # launches of draft passes do not shrink with the step: this is how tensor parallelism loses
    factors = RoundFactors.of(load_engine("vllm").rounds, moe=False)
    found = round_in_steps(parts(), factors)
    assert found.value[0] > found.value[1]
    assert found.log_up[0] > found.log_up[1]
    assert max(found.causes, key=lambda cause: found.causes[cause][0]) is SpreadCause.DRAFT_PASSES


def test_experts_that_dominate_are_named() -> None:
    factors = RoundFactors.of(load_engine("vllm").rounds, moe=True)
    found = round_in_steps(parts(experts=20e-3, passes=0.0), factors)
    assert max(found.causes, key=lambda cause: found.causes[cause][0]) is SpreadCause.EXPERTS


def test_a_term_that_was_measured_is_certain() -> None:
    rounds = load_engine("vllm").rounds.measured("arithmetic")
    assert rounds.values["arithmetic"] == 1.0
    assert rounds.log_sd["arithmetic"] == 0.0
    assert rounds.quantity("round_s").low < rounds.values["round_s"]


def test_constants_must_name_every_term() -> None:
    rounds = load_engine("vllm").rounds
    with pytest.raises(ValueError, match="each once"):
        RoundConstants(
            values=dict.fromkeys(ROUND_TERMS[:-1], 1.0),
            log_sd=rounds.log_sd,
            scatter_dense=0.1,
            scatter_moe=0.1,
        )
