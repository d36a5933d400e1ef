"""What the serving simulation reads off a profile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.estimate.calibration import prompt_seconds_per_token
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.serving_acceptance import accepted_from_trace
from capplan.estimate.serving_profile import (
    profile_acceptance,
    profile_clock,
    profile_prefill,
)
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.verdict import Stability, Verdict


def prefill(tokens: int, seconds: float) -> TimingCell:
    return TimingCell(
        role=Role.TARGET,
        phase=Phase.PREFILL,
        batch=1,
        tokens_per_sequence=tokens,
        context=0,
        seconds=(seconds,) * 3,
        verdict=Verdict(stability=Stability.STABLE),
    )


@pytest.fixture
def evidence(synthetic: Any) -> ProfileEvidence:
    return evidence_from_profile(*synthetic.profile())


def with_prefills(synthetic: Any, *cells: TimingCell) -> ProfileEvidence:
    found, arrays = synthetic.profile()
    kept = tuple(cell for cell in found.timing if cell.phase is not Phase.PREFILL)
    return evidence_from_profile(found.model_copy(update={"timing": (*kept, *cells)}), arrays)


def test_two_prompts_tell_a_steps_own_time_from_that_of_its_tokens(synthetic: Any) -> None:
    found = profile_prefill(with_prefills(synthetic, prefill(100, 0.020), prefill(400, 0.050)))
    assert found.s_per_token == pytest.approx(1e-4)
    assert found.alone_s == pytest.approx(0.010)


def test_prompts_count_by_their_relative_errors(synthetic: Any) -> None:
    cells = (prefill(100, 0.020), prefill(200, 0.028), prefill(1000, 0.110))
    found = profile_prefill(with_prefills(synthetic, *cells))
    tokens, seconds = np.array([100.0, 200.0, 1000.0]), np.array([0.020, 0.028, 0.110])
    # normal equations of least squares with weights 1 / seconds^2
    weights = 1 / seconds**2
    mean_tokens, mean_s = (np.average(each, weights=weights) for each in (tokens, seconds))
    slope = np.average((tokens - mean_tokens) * (seconds - mean_s), weights=weights)
    slope /= np.average((tokens - mean_tokens) ** 2, weights=weights)
    assert found.s_per_token == pytest.approx(slope)
    assert found.alone_s == pytest.approx(mean_s - slope * mean_tokens)


def test_a_long_prompt_that_is_dear_beyond_its_length_stands_for_itself(synthetic: Any) -> None:
    # a line through both would make the step itself shorter than nothing
    found = profile_prefill(with_prefills(synthetic, prefill(100, 0.002), prefill(400, 0.100)))
    own_s = synthetic.TARGET_TIMES.fixed
    assert found.alone_s == pytest.approx(own_s, rel=0.01)
    assert found.alone_s + 400 * found.s_per_token == pytest.approx(0.100)


def test_one_prompt_is_taken_to_cost_a_decode_step_and_its_tokens(synthetic: Any) -> None:
    own_s = synthetic.TARGET_TIMES.fixed
    found = profile_prefill(with_prefills(synthetic, prefill(200, own_s + 0.030)))
    assert found.alone_s == pytest.approx(own_s, rel=0.01)
    assert found.alone_s + 200 * found.s_per_token == pytest.approx(own_s + 0.030)


def test_a_prompt_quicker_than_a_decode_step_keeps_its_measured_time(synthetic: Any) -> None:
    found = profile_prefill(with_prefills(synthetic, prefill(8, 0.004)))
    assert found.s_per_token > 0
    assert found.alone_s + 8 * found.s_per_token == pytest.approx(0.004)


def test_the_best_prefill_stands_for_a_prompts_token(synthetic: Any) -> None:
    cells = (prefill(100, 0.020), prefill(400, 0.050), prefill(200, 0.030))
    profile = with_prefills(synthetic, *cells).profile
    assert prompt_seconds_per_token(profile, Role.TARGET, 1.0) == pytest.approx(0.050 / 400)
    assert prompt_seconds_per_token(profile, Role.DRAFT, 1.0) == 1.0


def test_without_a_prompt_a_token_costs_what_a_verified_one_does(synthetic: Any) -> None:
    found = profile_prefill(with_prefills(synthetic))
    assert found.s_per_token == pytest.approx(synthetic.TARGET_TIMES.per_token, rel=0.05)


def test_the_clock_is_that_of_the_fitted_rounds(evidence: ProfileEvidence) -> None:
    clock = profile_clock(evidence, max_batch=16, lengths=(3,), longest_context=4000)
    for batch, n, context in ((1, 0, 100.0), (7, 0, 1500.0), (16, 3, 2500.0)):
        foretold = evidence.round_seconds(batch, n, context)
        assert clock(batch, n + 1, context, 0) == pytest.approx(foretold)


def test_traced_requests_stay_apart(evidence: ProfileEvidence) -> None:
    found = profile_acceptance(evidence, 0.0, None, 4)
    assert found is not None
    assert found.kinds == 10
    curve = evidence.curve(0.0, None)
    assert curve is not None
    for n in range(5):
        assert found.tokens_per_round(n) == pytest.approx(curve.at(n), rel=0.02)


def test_another_temperature_takes_the_curve(evidence: ProfileEvidence) -> None:
    found = profile_acceptance(evidence, 0.9, None, 4)
    assert found is not None
    assert found.kinds == 1


def test_no_drafts_need_no_trace(synthetic: Any) -> None:
    bare = evidence_from_profile(*synthetic.profile(draft=None))
    plain = profile_acceptance(bare, 0.0, None, 0)
    assert plain is not None
    assert plain.longest == 0
    assert profile_acceptance(bare, 0.0, None, 2) is None


def test_lookup_drafts_count_what_they_found(synthetic: Any) -> None:
    found = evidence_from_profile(*synthetic.profile(draft="ngram"))
    drafts = accepted_from_trace(found.traces[0])
    # the planted lookup proposes four tokens and gets two
    assert drafts.drafted[8] == pytest.approx(4.0, rel=0.05)
    assert np.allclose(drafts.at_least[8].mean(axis=0)[:2], 1.0, atol=0.05)
    assert drafts.tokens_per_round(8) == pytest.approx(3.0, rel=0.05)
