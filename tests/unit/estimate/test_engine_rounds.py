"""Step times that an engine reports whole, fitted: planted coefficients must come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from capplan.advice.guide.checklist import profile_checklist
from capplan.errors import ProfileError
from capplan.estimate.curves import AcceptanceCurve
from capplan.estimate.engine_rounds import fit_engine, is_engine_profile
from capplan.estimate.evidence import evidence_from_profile
from capplan.estimate.replay import count_rounds
from capplan.reporting.profile_text import render_profile
from capplan.schema.cells import AcceptanceCell, DraftSampling, Phase, Role, TimingCell
from capplan.schema.measured_setup import EngineDraft
from capplan.schema.pairing import Method
from capplan.schema.profile import Profile
from capplan.schema.verdict import Verdict

FIXED, SEQUENCE, ROUND, PASS, TOKEN = 8e-3, 2e-4, 1.5e-3, 9e-4, 5e-5


def planted_s(batch: int, n: int) -> float:
    drafted = ROUND + PASS * n + TOKEN * batch * n if n else 0.0
    return FIXED + SEQUENCE * batch + drafted


def cells(
    verdict: Verdict, batches: Sequence[int], lengths: Sequence[int], noise: float = 0.0
) -> tuple[TimingCell, ...]:
    rng = np.random.default_rng(0)
    return tuple(
        TimingCell(
            role=Role.TARGET,
            phase=Phase.ROUND if n else Phase.DECODE,
            batch=batch,
            tokens_per_sequence=n + 1,
            context=300,
            seconds=tuple(planted_s(batch, n) * (1 + noise * rng.standard_normal(5))),
            verdict=verdict,
        )
        for batch in batches
        for n in lengths
    )


def engine_profile(
    synthetic: Any,
    draft: str | EngineDraft = "model",
    batches: Sequence[int] = (1, 8),
    lengths: Sequence[int] = (0, 2, 4),
    noise: float = 0.0,
) -> Profile:
    base, _ = synthetic.profile(draft=draft if isinstance(draft, str) else "ngram")
    update: dict[str, Any] = {
        "timing": cells(synthetic.STABLE, batches, lengths, noise),
        "acceptance": (),
    }
    if isinstance(draft, EngineDraft):
        update["draft"] = draft
    return base.model_copy(update=update)


@pytest.mark.parametrize("draft", ["model", "ngram", EngineDraft(method=Method.MTP, id="mtp")])
@pytest.mark.parametrize(("batch", "n"), [(4, 1), (4, 3), (16, 5), (16, 0)])
def test_rounds_at_batches_and_lengths_that_were_not_measured_are_predicted(
    synthetic: Any, draft: str | EngineDraft, batch: int, n: int
) -> None:
    fit = fit_engine(engine_profile(synthetic, draft))
    seconds = float(fit.target.seconds(batch, n + 1, 300)) + (fit.round_s if n else 0.0)
    if fit.draft is not None:
        seconds += n * float(fit.draft.seconds(batch, 1, 300))
    assert seconds == pytest.approx(planted_s(batch, n), rel=1e-3)
    assert (fit.draft is not None) == (draft == "model")


def test_a_drafted_token_of_a_draft_model_costs_its_pass_and_its_verification(
    synthetic: Any,
) -> None:
    fit = fit_engine(engine_profile(synthetic))
    assert fit.draft is not None
    assert float(fit.draft.seconds(8, 1, 300)) == pytest.approx(PASS + 8 * TOKEN, rel=1e-3)
    assert fit.round_s == pytest.approx(ROUND, rel=1e-3)


def test_noise_is_told_by_points_left_out(synthetic: Any) -> None:
    grid = {"batches": (1, 2, 4, 8, 16), "lengths": (0, 1, 3, 5)}
    quiet = fit_engine(engine_profile(synthetic, **grid))
    noisy = fit_engine(engine_profile(synthetic, **grid, noise=0.2))
    assert quiet.target.relative_se < 1e-6 < 0.02 < noisy.target.relative_se < 0.3


def test_rounds_without_a_plain_step_are_refused(synthetic: Any) -> None:
    profile = engine_profile(synthetic, lengths=(2, 4))
    assert is_engine_profile(profile)
    with pytest.raises(ProfileError, match="0 plain and 4 speculative step times"):
        fit_engine(profile)


def test_counts_of_rounds_at_fewer_drafts_are_those_of_their_first_positions() -> None:
    drafted, accepted = np.array([3, 3, 0, 2]), np.array([3, 1, 0, 2])
    counts = count_rounds(drafted, accepted, np.array([0, 3, 4]), 2)
    assert counts.rounds.tolist() == [3, 1]
    assert counts.emitted.tolist() == [3 + 2 + 1, 1 + 2]
    assert counts.accepted_per_position.tolist() == [[2, 1], [1, 1]]
    assert counts.drafted.tolist() == [4, 2]
    assert counts.rounds_with_draft.tolist() == [2, 1]


def engine_rounds(synthetic: Any, n: int, probability: float) -> tuple[Profile, dict[str, Any]]:
    """Return an engine's profile whose positions are accepted i.i.d."""
    rng = np.random.default_rng(1)
    requests, rounds = 64, 100
    hits = rng.random((requests * rounds, n)) < probability
    arrays = {
        "acceptance/0/offsets": np.arange(requests + 1) * rounds,
        "acceptance/0/drafted": np.full(requests * rounds, n, dtype=np.uint8),
        "acceptance/0/accepted": np.cumprod(hits, axis=1).sum(axis=1).astype(np.uint8),
    }
    cell = AcceptanceCell(
        task="chat",
        temperature=0.0,
        trace_kind="per_round",
        draft_sampling=DraftSampling.GREEDY,
        max_num_speculative_tokens=n,
        prompts_sha256="0",
        requests=requests,
        prompt_tokens=100,
        generated_tokens=100,
        seed=0,
    )
    return engine_profile(synthetic).model_copy(update={"acceptance": (cell,)}), arrays


def traced(synthetic: Any, n: int, probability: float) -> AcceptanceCurve:
    """Return the curve that a plan takes from such a profile."""
    profile, arrays = engine_rounds(synthetic, n, probability)
    curve = evidence_from_profile(profile, arrays).curve(0.0, None)
    assert curve is not None
    return curve


def test_an_engines_rounds_give_the_curve_up_to_n_and_a_wider_one_beyond(synthetic: Any) -> None:
    curve = traced(synthetic, 4, 0.6)
    expected = [1.0, 1.6, 1.96, 2.176, 2.3056]
    assert curve.tokens_per_round[:5] == pytest.approx(expected, rel=0.02)
    assert curve.tokens_per_round[5] > curve.tokens_per_round[4]
    assert curve.relative_se[16] > curve.relative_se[4] > 0


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_the_summary_of_an_engines_profile_needs_no_length_that_was_not_run(
    synthetic: Any, n: int
) -> None:
    profile, arrays = engine_rounds(synthetic, n, 0.6)
    evidence = evidence_from_profile(profile, arrays)
    assert evidence.traces[0].tokens_per_round(8)[0] > 1.6
    assert evidence.traces[0].drafting(8) == (1.0, 8.0)
    text = render_profile(profile, arrays, profile_checklist(evidence))
    assert "Engine steps" in text
    assert "popular guide's checklist" in text
