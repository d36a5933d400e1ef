"""What facts and profiles say of acceptance, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from capplan.errors import ProfileError, ProfileInvalidError
from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.curves import (
    SINGLE_SOURCE_RELATIVE_SE,
    UNKNOWN_TEMPERATURE_RELATIVE_SE,
    AcceptanceCurve,
    curve_from_alpha,
    curve_from_facts,
)
from capplan.estimate.evidence import (
    NOISY_FACTOR,
    evidence_from_profile,
)
from capplan.estimate.task_transfer import TASK_SPREAD, transfer_task
from capplan.estimate.temperature import KEPT, Drafter
from capplan.schema.cells import Role
from capplan.schema.profile import MemoryRecord
from capplan.schema.provenance import Kind, Source
from capplan.schema.verdict import Stability


def curve_of(facts: list[Any], temperature: float = 0.0, task: str | None = None) -> Any:
    curve = curve_from_facts(facts, temperature, task)
    assert curve is not None
    return curve


def test_nothing_published_is_no_curve() -> None:
    assert curve_from_facts([], 0.0, None) is None


def test_one_published_length_is_extrapolated_with_a_typical_fall(synthetic: Any) -> None:
    curve = curve_of([synthetic.fact(3, 2.2)])
    assert curve.at(0) == 1.0
    assert curve.at(3) == pytest.approx(2.2)
    # i.i.d.: alpha of 2.2 at N = 3 solves 1 + a + a^2 + a^3 = 2.2; published drafts fall
    alpha = float(np.real(np.roots([1, 1, 1, -1.2])[2]))
    assert 2.25 < curve.at(8) < float(tokens_per_round_iid(alpha, 8))
    assert "typical of published drafts" in curve.definition
    assert curve.source.kind is Kind.CITED


def test_several_lengths_fit_the_fall_between_them(synthetic: Any) -> None:
    curve = curve_of([synthetic.fact(2, 2.10), synthetic.fact(3, 2.29)])
    assert curve.at(2) == pytest.approx(2.10, rel=1e-4)
    assert curve.at(3) == pytest.approx(2.29, rel=1e-4)
    # vLLM issue 20780, EAGLE-1: 2.47 at N = 7, where i.i.d. says 2.9
    assert curve.at(7) == pytest.approx(2.47, rel=0.03)
    assert "fitted to these" in curve.definition


def test_temperature_one_keeps_the_published_share_of_the_accepted_tokens(
    synthetic: Any,
) -> None:
    cold = curve_of([synthetic.fact(3, 2.2)])
    hot = curve_of([synthetic.fact(3, 2.2)], temperature=1.0)
    kept = KEPT[Drafter.LLM]
    assert hot.at(3) == pytest.approx(1 + kept.mid * 1.2)
    added = kept.log_sd * (hot.at(3) - 1) / hot.at(3)
    assert hot.relative_se[3] == pytest.approx(np.hypot(cold.relative_se[3], added))
    assert hot.source.kind is Kind.DERIVED


def test_values_at_the_nearest_temperature_win(synthetic: Any) -> None:
    facts = [synthetic.fact(3, 3.0), synthetic.fact(3, 2.0, temperature=1.0)]
    assert curve_of(facts, temperature=1.0).at(3) == pytest.approx(2.0)
    assert curve_of(facts, temperature=0.1).at(3) > 2.9


def test_an_unknown_temperature_widens(synthetic: Any) -> None:
    known = curve_of([synthetic.fact(3, 2.2)]).relative_se[3]
    unknown = curve_of([synthetic.fact(3, 2.2, temperature=None)]).relative_se[3]
    assert known == pytest.approx(TASK_SPREAD * np.sqrt(2), rel=0.02)  # one text says little
    assert unknown == pytest.approx(np.hypot(known, UNKNOWN_TEMPERATURE_RELATIVE_SE))


def test_lengths_beyond_those_published_widen(synthetic: Any) -> None:
    spread = curve_of([synthetic.fact(3, 2.2), synthetic.fact(5, 2.4)]).relative_se
    assert spread[3] == pytest.approx(spread[5], rel=0.02)
    assert spread[3] < spread[8] < spread[16]
    assert spread[1] > spread[3]
    assert spread[0] == 0.0


def test_the_spread_between_tasks_is_the_interval_until_one_is_asked_for(synthetic: Any) -> None:
    facts = [synthetic.fact(3, 2.0, task="maths"), synthetic.fact(3, 3.0, task="code")]
    everything = curve_of(facts)
    assert everything.at(3) == pytest.approx(2.5)
    assert everything.relative_se[3] == pytest.approx(transfer_task([2.0, 3.0]).log_sd, rel=0.01)
    code = curve_of(facts, task="Code")
    assert code.at(3) == pytest.approx(3.0)
    assert code.relative_se[3] == pytest.approx(SINGLE_SOURCE_RELATIVE_SE, rel=0.02)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_no_transfer_makes_a_round_emit_more_than_n_plus_one(synthetic: Any, n: int) -> None:
    nearly_all = synthetic.fact(n, n + 0.98, temperature=1.0)
    curve = curve_of([nearly_all], temperature=0.0)
    assert (curve.tokens_per_round <= np.arange(17) + 1).all()
    assert (np.diff(curve.tokens_per_round) >= 0).all()


def test_assumed_acceptance_says_so(synthetic: Any) -> None:
    source = Source(kind=Kind.ASSUMED, reference="the caller")
    curve = curve_from_alpha(0.8, source)
    assert curve.at(5) == pytest.approx(3.68928)
    assert curve.relative_se[0] == 0.0
    assert curve.source.kind is Kind.ASSUMED


def measured(synthetic: Any, temperature: float = 0.0, **of_profile: Any) -> AcceptanceCurve:
    evidence = evidence_from_profile(*synthetic.profile(**of_profile))
    curve = evidence.curve(temperature, None)
    assert curve is not None
    return curve


def test_a_trace_gives_every_length_from_one_pass(synthetic: Any) -> None:
    curve = measured(synthetic, probability=0.7, tokens_each=400)
    expected = tokens_per_round_iid(0.7, np.arange(17))
    # 399 tokens a request: the round that the end cuts costs a little
    np.testing.assert_allclose(curve.tokens_per_round, expected, rtol=0.01)
    assert curve.source.kind is Kind.MEASURED
    assert "10 requests" in curve.definition


def test_another_temperature_than_traced_is_derived_and_wider(synthetic: Any) -> None:
    here = measured(synthetic)
    there = measured(synthetic, temperature=0.5)
    assert there.at(3) < here.at(3)
    assert there.relative_se[3] > here.relative_se[3]
    assert there.source.kind is Kind.DERIVED


def test_one_request_gives_a_wide_but_finite_interval(synthetic: Any) -> None:
    curve = measured(synthetic, requests=1)
    assert np.isfinite(curve.relative_se).all()
    # tokens per round lie in 1 .. N+1 whatever the text: no more is claimed
    low = curve.at(4) / np.exp(1.96 * curve.relative_se[4])
    assert low <= 1.0


def test_texts_of_one_token_are_no_measurement(synthetic: Any) -> None:
    evidence = evidence_from_profile(*synthetic.profile(tokens_each=1))
    assert evidence.curve(0.0, None) is None


def test_a_trace_that_accepts_everything_stays_within_n_plus_one(synthetic: Any) -> None:
    profile, arrays = synthetic.profile(probability=1.0)
    cells = (synthetic.acceptance_cell(10, 200, temperature=1.0),)
    evidence = evidence_from_profile(profile.model_copy(update={"acceptance": cells}), arrays)
    curve = evidence.curve(0.0, None)
    assert curve is not None
    assert (curve.tokens_per_round <= np.arange(17) + 1).all()


def test_lookup_drafts_are_replayed_from_their_starts(synthetic: Any) -> None:
    # every round accepts 2 of 4 proposed: 3 tokens a round for N >= 2, 2 for N = 1
    curve = measured(synthetic, draft="ngram", tokens_each=301)
    assert curve.tokens_per_round[1:6].tolist() == pytest.approx([2.0, 3.0, 3.0, 3.0, 3.0])


def test_a_profile_without_a_draft_knows_no_acceptance(synthetic: Any) -> None:
    evidence = evidence_from_profile(*synthetic.profile(draft=None))
    assert evidence.curve(0.0, None) is None


def test_an_invalid_profile_is_refused_with_its_own_reason(synthetic: Any) -> None:
    profile, arrays = synthetic.profile(stability=Stability.INVALID)
    with pytest.raises(ProfileInvalidError) as caught:
        evidence_from_profile(profile, arrays)
    assert "drift 0.3 (limit 0.02)" in caught.value.message
    assert caught.value.remedy == "Close other work."


def test_a_noisy_profile_widens_step_times(synthetic: Any) -> None:
    stable = evidence_from_profile(*synthetic.profile(noise=0.05))
    noisy = evidence_from_profile(*synthetic.profile(noise=0.05, stability=Stability.NOISY))
    assert noisy.target_step.relative_se == pytest.approx(
        NOISY_FACTOR * stable.target_step.relative_se
    )


def test_a_profile_without_timing_of_the_target_is_refused(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    drafts_only = tuple(c for c in profile.timing if c.role.value == "draft")
    with pytest.raises(ProfileError, match="no timing of the target"):
        evidence_from_profile(profile.model_copy(update={"timing": drafts_only}), arrays)


def test_what_real_rounds_cost_beyond_their_passes_is_the_overhead(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    context = 100 + 200 // 2
    cells = tuple(
        synthetic.rounds_cell(
            n,
            synthetic.TARGET_TIMES.seconds(1, n + 1, context)
            + n * synthetic.DRAFT_TIMES.seconds(1, 1, context)
            + 3e-3,
        )
        for n in (1, 2, 4, 8)
    )
    evidence = evidence_from_profile(profile.model_copy(update={"rounds": cells}), arrays)
    assert evidence.round_overhead_s == pytest.approx(3e-3, rel=1e-6)
    assert evidence.round_relative_se == pytest.approx(0.0, abs=1e-6)


def test_kv_bytes_that_the_spec_lacks_come_from_the_measurement(synthetic: Any) -> None:
    profile, arrays = synthetic.profile()
    bare = profile.target.model_copy(update={"spec": synthetic.llm(kv_bytes_per_token=None)})
    record = MemoryRecord(role=Role.TARGET, weight_bytes=2e9, kv_bytes_per_token=4096.0)
    changed = profile.model_copy(update={"target": bare, "memory": (record,)})
    assert evidence_from_profile(changed, arrays).target.kv_bytes_per_token == 4096.0


@pytest.mark.parametrize("asked", ["poems", "Code", None])
def test_a_task_of_which_nothing_is_known_is_named(synthetic: Any, asked: str | None) -> None:
    facts = [synthetic.fact(2, 2.0, task=task) for task in ("code", "chat")]
    published = curve_from_facts(facts, 0.0, asked)
    traced = evidence_from_profile(*synthetic.profile()).curve(0.0, asked)
    assert published is not None
    assert traced is not None
    for curve in (published, traced):
        assert ("not on poems, of which nothing is known" in curve.definition) is (
            asked == "poems"
        )
