"""What a profile shows: fitted step times, replayed acceptance, the cost of real rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from capplan.errors import ProfileInvalidError
from capplan.estimate.acceptance import MAX_NUM_SPECULATIVE_TOKENS
from capplan.estimate.calibration import fit_step_time
from capplan.estimate.curves import DEFINITION, AcceptanceCurve, tasks_text
from capplan.estimate.engine_rounds import fit_engine, is_engine_profile
from capplan.estimate.fitted_step import FittedStep
from capplan.estimate.observed import only_observed
from capplan.estimate.round_overhead import RoundPasses, round_overhead
from capplan.estimate.temperature import KEPT, drafter_of, transfer_temperature
from capplan.estimate.tracing import Arrays, TracedAcceptance, pool, replay_cell
from capplan.estimate.uncertainty import Z_95
from capplan.schema.cells import DraftSampling, Role
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import Draft, EngineDraft, ModelDraft
from capplan.schema.pairing import DraftSampleMethod, Method
from capplan.schema.profile import Profile
from capplan.schema.provenance import Kind, Source
from capplan.schema.verdict import Stability

_LOOKUP = frozenset({Method.NGRAM, Method.SUFFIX})
_SAMPLED: dict[DraftSampling, DraftSampleMethod] = {
    DraftSampling.GREEDY: "greedy",
    DraftSampling.PROBABILISTIC: "probabilistic",
}
NOISY_FACTOR = 1.5
"""Step-time errors of a profile with verdict ``noisy`` are widened by this factor."""


@dataclass(frozen=True)
class ProfileEvidence:
    """Everything a profile tells the planner, fitted and replayed."""

    profile: Profile
    target: LlmSpec
    method: Method
    draft_id: str
    draft: LlmSpec | None
    target_step: FittedStep
    draft_step: FittedStep | None
    round_overhead_s: float
    round_relative_se: float
    """Scatter of really run rounds about the fitted step times."""
    traces: tuple[TracedAcceptance, ...]

    @property
    def mean_context(self) -> float:
        """Mean tokens in the cache while the traced requests were written."""
        return mean_context(self.profile)

    def round_seconds(self, batch: float, num_speculative_tokens: int, context: float) -> float:
        """Return the time of a round in which every request has N drafts; a plain step at 0."""
        n = num_speculative_tokens
        verified = float(self.target_step.seconds(batch, n + 1.0, context))
        if n == 0:
            return verified
        drafted = 0.0
        if self.draft_step is not None:
            drafted = n * float(self.draft_step.seconds(batch, 1.0, context))
        return verified + drafted + self.round_overhead_s

    def curve(
        self,
        temperature: float,
        task: str | None,
        mode: DraftSampling = DraftSampling.GREEDY,
        *,
        thinking: bool | None = None,
    ) -> AcceptanceCurve | None:
        """Return acceptance at a temperature, from the nearest one traced; None without traces.

        Drafts are taken as greedy, which is the engine's default. Of traces with and without
        thinking, those asked for are taken where there are any.
        """
        modes = {mode, None}
        usable = [trace for trace in self.traces if trace.draft_sampling in modes]
        if thinking is not None:
            usable = [trace for trace in usable if trace.thinking is thinking] or usable
        if not usable:
            return None
        nearest = min((trace.temperature for trace in usable), key=lambda t: abs(t - temperature))
        at = [trace for trace in usable if trace.temperature == nearest]
        wanted = None if task is None else task.casefold()
        of_task = [trace for trace in at if trace.task.casefold() == wanted]
        traced = pool(of_task or at)
        values, errors = traced.curve()
        if len(values) <= MAX_NUM_SPECULATIVE_TOKENS or not np.isfinite(values).all():
            return None  # no text went beyond the prefill's own token: there was no round
        kept = KEPT[drafter_of(self.method)]
        moved = transfer_temperature(values, nearest, temperature, kept)
        most = np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1) + 1.0
        curve = np.minimum(moved.tokens_per_round, most)
        # one request has no spread, but its tokens per round lie in 1 .. N+1 all the same
        widest = np.log(most) / Z_95
        relative_se = np.minimum(np.hypot(errors, moved.relative_se), widest)
        tasks = tasks_text((trace.task for trace in (of_task or at)), task)
        requests = len(traced.counts[0].rounds)
        lookup = self.method in _LOOKUP
        sampling = "" if lookup else f", {mode.value} drafts"
        drafting = [traced.drafting(n) for n in range(MAX_NUM_SPECULATIVE_TOKENS + 1)]
        found = {
            "draft_share": np.array([share for share, _ in drafting]),
            "drafted": np.array([tokens for _, tokens in drafting]),
        }
        return AcceptanceCurve(
            tokens_per_round=curve,
            relative_se=relative_se,
            **(found if lookup else {}),
            draft_sampling=None if lookup else _SAMPLED[mode],
            definition=(
                f"{DEFINITION}; trace of {requests} requests ({tasks}) at temperature "
                f"{nearest:g}{sampling}"
            ),
            source=Source(
                kind=Kind.MEASURED if nearest == temperature else Kind.DERIVED,
                reference=f"profile {self.profile.id}",
                date=self.profile.created_at[:10],
            ),
        )


def evidence_from_profile(profile: Profile, arrays: Arrays) -> ProfileEvidence:
    """Fit and replay a profile.

    Raises
    ------
    ProfileInvalidError
        If the profile's own verdict is ``invalid``, or the target was not timed.
    """
    if profile.verdict.stability is Stability.INVALID:
        reasons = "; ".join(
            f"{r.check} {r.value:g} (limit {r.threshold:g})" for r in profile.verdict.reasons
        )
        raise ProfileInvalidError(
            f"Profile {profile.id} judged itself invalid: {reasons}.",
            profile.verdict.reasons[0].remedy if profile.verdict.reasons else "Measure again.",
        )
    steps = _steps(profile)
    target_step, draft_step = steps.target, steps.draft
    if profile.verdict.stability is Stability.NOISY:
        target_step = _widened(target_step)
        draft_step = _widened(draft_step) if draft_step is not None else None
    draft = profile.draft
    llm = (
        _with_measured_kv(draft.llm.spec, profile, Role.DRAFT)
        if isinstance(draft, ModelDraft)
        else None
    )
    draft_llm = draft is not None and draft.method is Method.DRAFT_MODEL
    traces = tuple(
        trace
        for index, cell in enumerate(profile.acceptance)
        for trace in replay_cell(cell, index, arrays, draft_llm=draft_llm)
    )
    passes = RoundPasses(target_step, draft_step, mean_context(profile))
    overhead, scatter = round_overhead(profile, passes, traces)
    if steps.round_s is not None:
        overhead, scatter = steps.round_s, 0.0
    return ProfileEvidence(
        profile=profile,
        target=_with_measured_kv(profile.target.spec, profile, Role.TARGET),
        method=draft.method if draft is not None else Method.NONE,
        draft_id=_draft_id(draft),
        draft=llm,
        target_step=target_step,
        draft_step=draft_step,
        round_overhead_s=overhead,
        round_relative_se=scatter,
        traces=traces,
    )


@dataclass(frozen=True)
class _Steps:
    target: FittedStep
    draft: FittedStep | None
    round_s: float | None
    """Of an engine's rounds, fitted with their steps; None where only passes were timed."""


def _steps(profile: Profile) -> _Steps:
    if only_observed(profile):
        raise ProfileInvalidError(
            f"Profile {profile.id} holds observations of a served load and no step times.",
            "capplan recommend takes its acceptance; for step times measure with capplan profile.",
        )
    if is_engine_profile(profile):
        fit = fit_engine(profile)
        return _Steps(fit.target, fit.draft, fit.round_s)
    target = fit_step_time(profile, Role.TARGET)
    if target is None:
        raise ProfileInvalidError(
            f"Profile {profile.id} holds no timing of the target.",
            "Measure again without a time budget that cuts the timing out.",
        )
    return _Steps(target, fit_step_time(profile, Role.DRAFT), None)


def _draft_id(draft: Draft | None) -> str:
    if isinstance(draft, ModelDraft):
        return draft.llm.spec.id
    if isinstance(draft, EngineDraft):
        return draft.id
    return draft.method.value if draft is not None else ""


def _with_measured_kv(llm: LlmSpec, profile: Profile, role: Role) -> LlmSpec:
    """Take KV bytes a token from what was measured where the architecture does not say."""
    measured = [r.kv_bytes_per_token for r in profile.memory if r.role is role]
    if llm.kv_bytes_per_token is not None or not measured:
        return llm
    return llm.model_copy(update={"kv_bytes_per_token": measured[0]})


def _widened(step: FittedStep) -> FittedStep:
    return replace(step, relative_se=step.relative_se * NOISY_FACTOR)


def mean_context(profile: Profile) -> float:
    """Return the mean tokens in the cache while the traced requests were written."""
    held = [
        (cell.prompt_tokens + cell.generated_tokens / 2) / cell.requests
        for cell in profile.acceptance
    ]
    return float(np.mean(held)) if held else 0.0
