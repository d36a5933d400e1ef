"""What a profile or a plan lets expect of a server at the load it serves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from capplan.errors import ProfileInvalidError
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.plan_file import load_plan
from capplan.schema.observation import Observation
from capplan.schema.plan import LoadPoint, Plan, PlanOption
from capplan.schema.verdict import Stability
from capplan.schema.watching import Expected, ServedFigures
from capplan.units import MS_PER_S

Expectation = Callable[[ServedFigures], Expected | None]


def expectation(
    *,
    profile: Path | str | None = None,
    plan: Path | str | None = None,
    temperature: float = 0.0,
) -> Expectation | None:
    """Return what to expect, as a function of the load; None if there is nothing to go by.

    Parameters
    ----------
    profile
        A profile of this target on this GPU: of an engine, or of a server without speculation.
    plan
        A plan whose first option is what was deployed.
    temperature
        Of the traffic; counters do not tell it.

    Raises
    ------
    ProfileInvalidError
        If the profile neither timed the target nor observed a server without speculation.
    """
    if profile is not None:
        return from_profile(load_profile(profile), temperature)
    return from_plan(load_plan(plan)) if plan is not None else None


def from_profile(stored: StoredProfile, temperature: float) -> Expectation:
    """Expect what a profile measured (see ``expectation``)."""
    profile = stored.profile
    if profile.timing:
        return _from_evidence(evidence_from_profile(profile, stored.arrays), temperature)
    is_valid = profile.verdict.stability is not Stability.INVALID
    plain = _plain_steps(profile.observations) if is_valid else []
    if not plain:
        raise ProfileInvalidError(
            f"Profile {profile.id} holds no step time without speculation to compare with.",
            "Give a profile that timed the target, or one taken with capplan profile --server "
            "from a server without speculation.",
        )
    return _from_steps(plain, f"profile {profile.id}")


def from_plan(plan: Plan) -> Expectation | None:
    """Expect what the first option of a plan says; None if the plan has no load curve."""
    if not plan.options or not plan.options[0].load_curve:
        return None
    option = plan.options[0]
    curve = sorted(option.load_curve, key=lambda point: point.concurrency)
    return lambda figures: _at_load(option, curve, figures)


def _from_evidence(evidence: ProfileEvidence, temperature: float) -> Expectation:
    curve = evidence.curve(temperature, None)
    source = f"profile {evidence.profile.id}"

    def expected(figures: ServedFigures) -> Expected | None:
        if not figures.batch:
            return None
        batch, length = max(figures.batch, 1.0), figures.num_speculative_tokens
        context = figures.context_tokens or evidence.mean_context
        plain_s = evidence.round_seconds(batch, 0, context)
        if length is None or (length >= 1 and evidence.draft_id == ""):
            return Expected(source=source, baseline_step_s=plain_s)
        ratio = evidence.round_seconds(batch, length, context) / plain_s
        emitted = None
        if curve is not None and length < len(curve.tokens_per_round):
            emitted = float(curve.tokens_per_round[length])
        return Expected(
            source=source,
            baseline_step_s=plain_s,
            tokens_per_round=emitted,
            round_ratio=ratio,
            speedup=None if emitted is None else emitted / ratio,
        )

    return expected


def _plain_steps(observations: Sequence[Observation]) -> list[tuple[float, float]]:
    """Return (batch, seconds) of every window that a server without speculation was seen in."""
    points = [
        (seen.load.mean_concurrency, seen.step_s.typical)
        for seen in observations
        if seen.speculation is None and seen.step_s is not None and seen.usable_for("step_time")
    ]
    return sorted((batch, step_s) for batch, step_s in points if batch and step_s)


def _from_steps(points: Sequence[tuple[float, float]], source: str) -> Expectation:
    batches, steps_s = np.array(points).T

    def expected(figures: ServedFigures) -> Expected | None:
        if not figures.batch:
            return None
        # Held level beyond the batches that were seen: no step is invented.
        step_s = float(np.interp(figures.batch, batches, steps_s))
        return Expected(source=source, baseline_step_s=step_s)

    return expected


def _at_load(
    option: PlanOption, curve: Sequence[LoadPoint], figures: ServedFigures
) -> Expected | None:
    if not figures.batch:
        return None
    concurrency = [point.concurrency for point in curve]
    baseline_ms = np.interp(
        figures.batch, concurrency, [point.baseline_tpot_ms for point in curve]
    )
    speedup = float(np.interp(figures.batch, concurrency, [point.speedup.mid for point in curve]))
    emitted = option.acceptance.tokens_per_round.mid if option.acceptance is not None else None
    as_planned = figures.num_speculative_tokens in (None, option.num_speculative_tokens)
    source = f"plan of {option.id}"
    if not as_planned or emitted is None:
        return Expected(source=source, baseline_step_s=float(baseline_ms) / MS_PER_S)
    return Expected(
        source=source,
        baseline_step_s=float(baseline_ms) / MS_PER_S,
        speedup=speedup,
        tokens_per_round=emitted,
        round_ratio=emitted / speedup,
    )
