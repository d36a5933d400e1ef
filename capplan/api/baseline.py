"""A live server beside an earlier profile: alarms where a window lies outside of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capplan.errors import ProfileInvalidError
from capplan.estimate.drift import ServedWindow, served_windows
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.observed import only_observed, tokens_per_round
from capplan.estimate.step_changes import run_error
from capplan.estimate.uncertainty import LogEstimate, ratio_of_requests
from capplan.profiles.store import StoredProfile, load_profile
from capplan.schema.cells import DraftSampling
from capplan.schema.observation import SpeculationCounts
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability
from capplan.schema.watching import Notice, ServedFigures
from capplan.units import MS_PER_S

REACH = 3.29
"""Standard errors, 99.9 %: a watch looks once a minute, and one look in a thousand may err."""
FEW_ROUNDS = 200
"""Windows with fewer rounds are not judged."""
_SOURCE = "capplan watch --baseline"

BaselineRule = Callable[[ServedFigures], tuple[Notice, ...]]
_Figure = Callable[[ServedFigures], LogEstimate | None]


@dataclass(frozen=True)
class _Baseline:
    tokens: _Figure
    step_s: _Figure
    profile: str

    def __call__(self, figures: ServedFigures) -> tuple[Notice, ...]:
        found = (self._tokens(figures), self._step(figures))
        return tuple(notice for notice in found if notice is not None)

    def _tokens(self, figures: ServedFigures) -> Notice | None:
        expected, seen = self.tokens(figures), seen_tokens(figures)
        if expected is None or seen is None or not _apart(seen, expected):
            return None
        what = f"{seen.mid:.2f} tokens a round, {_range(expected, seen, 1.0)} in the profile"
        if seen.mid < expected.mid:
            return self._notice(
                "alarm",
                "acceptance_left_baseline",
                f"{what}: fewer are accepted than when {self.profile} was taken.",
                "Profile again and compare: capplan diff OLD NEW --by context --by hour. Other "
                "prompts, longer contexts or a new engine version show there.",
            )
        return self._notice(
            "advice",
            "acceptance_above_baseline",
            f"{what}: more are accepted than when {self.profile} was taken.",
            "Profile again: a longer N may pay (capplan schedule PROFILE).",
        )

    def _step(self, figures: ServedFigures) -> Notice | None:
        expected = self.step_s(figures)
        if expected is None or not figures.step_s or (figures.drafts or 0) < FEW_ROUNDS:
            return None
        seen = LogEstimate(figures.step_s, 0.0)
        if seen.mid <= expected.mid or not _apart(seen, expected):
            return None
        return self._notice(
            "alarm",
            "step_left_baseline",
            f"A step takes {seen.mid * MS_PER_S:.3g} ms, "
            f"{_range(expected, seen, MS_PER_S)} ms in the profile at this load.",
            "See what else runs on the GPU, its clocks and the engine's version: capplan diff OLD "
            "NEW.",
        )

    def _notice(self, level: str, check: str, text: str, remedy: str) -> Notice:
        return Notice.model_validate(
            {"level": level, "check": check, "text": text, "remedy": remedy, "source": _SOURCE}
        )


def baseline_rule(profile: StoredProfile | Path | str, temperature: float = 0.0) -> BaselineRule:
    """Return a rule that compares a live window with a profile.

    Parameters
    ----------
    profile
        Of the same pairing: measured by an engine or by torch (traces), or observed at a server.
        Step times are compared where an engine timed them or a server showed them.
    temperature
        Of the traffic.

    Raises
    ------
    ProfileInvalidError
        If the profile judged itself invalid.
    """
    stored = profile if isinstance(profile, StoredProfile) else load_profile(profile)
    if stored.profile.verdict.stability is Stability.INVALID:
        raise ProfileInvalidError(
            f"Profile {stored.profile.id} judged itself invalid: it is no baseline.",
            "Take a baseline that is stable: capplan profile --server URL.",
        )
    if only_observed(stored.profile):
        windows = served_windows(stored.profile.observations)
        return _Baseline(
            lambda figures: _observed_tokens(windows, figures.num_speculative_tokens),
            lambda figures: _observed_step(stored.profile, figures),
            stored.profile.id,
        )
    evidence = evidence_from_profile(stored.profile, stored.arrays)
    return _Baseline(
        lambda figures: _traced_tokens(evidence, temperature, figures.num_speculative_tokens),
        lambda figures: _timed_step(evidence, figures),
        stored.profile.id,
    )


def seen_tokens(figures: ServedFigures) -> LogEstimate | None:
    """Return a window's tokens a round with its error; None from too few rounds."""
    drafts, rate, emitted = figures.drafts, figures.acceptance_rate, figures.tokens_per_round
    if not drafts or drafts < FEW_ROUNDS or not rate or emitted is None or emitted <= 1:
        return None
    rounds = drafts / (figures.draft_share or 1.0)
    accepted = (emitted - 1.0) * rounds
    return tokens_per_round(
        SpeculationCounts(
            drafts=drafts, drafted=max(accepted / rate, accepted), accepted=accepted, rounds=rounds
        )
    )


def _apart(seen: LogEstimate, expected: LogEstimate) -> bool:
    error = math.hypot(seen.log_sd, expected.log_sd)
    return abs(math.log(seen.mid / expected.mid)) > REACH * error


def _range(expected: LogEstimate, seen: LogEstimate, scale: float) -> str:
    """Return ``2.31 (2.18-2.45 expected of a window like this)``."""
    factor = math.exp(REACH * math.hypot(seen.log_sd, expected.log_sd))
    low, high = expected.mid / factor * scale, expected.mid * factor * scale
    return f"{expected.mid * scale:.3g} ({low:.3g}-{high:.3g} for a window like this)"


def _traced_tokens(
    evidence: ProfileEvidence, temperature: float, length: int | None
) -> LogEstimate | None:
    if not length:
        return None
    for mode in DraftSampling:
        curve = evidence.curve(temperature, None, mode)
        if curve is not None and length < len(curve.tokens_per_round):
            return LogEstimate(curve.at(length), float(curve.relative_se[length]))
    return None


def _timed_step(evidence: ProfileEvidence, figures: ServedFigures) -> LogEstimate | None:
    """Return an engine's step; torch's own passes are no step of a server."""
    if evidence.profile.backend.name != "vllm" or not figures.batch:
        return None
    length = figures.num_speculative_tokens or 0
    context = figures.context_tokens or evidence.mean_context
    step_s = evidence.round_seconds(max(figures.batch, 1.0), length, context)
    error = math.hypot(evidence.target_step.relative_se, run_error(evidence.profile))
    return LogEstimate(step_s, error)


def _observed_tokens(windows: list[ServedWindow], length: int | None) -> LogEstimate | None:
    same = [one for one in windows if one.num_speculative_tokens in (None, length)]
    if not same:
        return None
    rounds = np.array([one.rounds for one in same])
    accepted = np.array([one.accepted for one in same])
    value, relative = ratio_of_requests(rounds + accepted, rounds)
    if len(same) < 3:
        relative = max(one.tokens_per_round.log_sd for one in same)
    return LogEstimate(value, relative)


def _observed_step(profile: Profile, figures: ServedFigures) -> LogEstimate | None:
    """Return the step at this batch, between windows that were seen; None beyond them."""
    points = sorted(
        (seen.load.mean_concurrency, seen.step_s.typical)
        for seen in profile.observations
        if seen.step_s is not None
        and seen.step_s.typical
        and seen.load.mean_concurrency
        and seen.usable_for("step_time")
    )
    if not points or not figures.batch:
        return None
    batches, steps_s = np.array(points).T
    if not batches[0] * 0.9 <= figures.batch <= batches[-1] * 1.1:
        return None
    step_s = float(np.interp(figures.batch, batches, steps_s))
    near = steps_s[np.abs(np.log(batches / figures.batch)) < math.log(1.5)]
    scatter = float(np.std(np.log(near), ddof=1)) if len(near) > 2 else 0.0
    return LogEstimate(step_s, math.hypot(scatter, run_error(profile)))
