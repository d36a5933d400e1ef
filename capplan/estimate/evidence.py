"""What is known of a pairing: acceptance at every N, with its interval and its origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from capplan.errors import ProfileInvalidError
from capplan.estimate.acceptance import (
    MAX_NUM_SPECULATIVE_TOKENS,
    ReplayCounts,
    decaying_rates,
    fit_decay,
    replay_per_start,
    replay_per_token,
    tokens_per_round_from_conditional,
    tokens_per_round_iid,
    transfer_temperature,
)
from capplan.estimate.calibration import fit_step_time
from capplan.estimate.steptime import FittedStep
from capplan.estimate.uncertainty import Z_95, ratio_of_sums
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.profile import (
    AcceptanceCell,
    DraftSampling,
    ModelDraft,
    Profile,
    Role,
    Stability,
)
from capplan.schema.provenance import Kind, Source

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[np.generic]]

UNKNOWN_TEMPERATURE_RELATIVE_SE = 0.10
"""Sources that give no temperature may have been measured anywhere between 0 and 1."""
EXTRAPOLATION_RELATIVE_SE = 0.02
"""A position beyond the measured lengths; the decay fit misses N=7 by 1.0 % from N=3 and 5."""
SINGLE_SOURCE_RELATIVE_SE = 0.05
"""One published value without a spread: rounding and an unknown text."""
NOISY_FACTOR = 1.5
"""Step-time errors of a profile with verdict ``noisy`` are widened by this factor."""

DEFINITION = "emitted tokens a target pass, bonus token included, over all rounds"


@dataclass(frozen=True)
class AcceptanceCurve:
    """Tokens per round at N = 0 .. 16; index 0 is plain decoding and equals 1."""

    tokens_per_round: Floats
    relative_se: Floats
    definition: str
    source: Source
    lossless: bool = True

    def at(self, num_speculative_tokens: int) -> float:
        """Return tokens per round at N."""
        return float(self.tokens_per_round[num_speculative_tokens])


def curve_from_alpha(alpha: float, source: Source) -> AcceptanceCurve:
    """Return the i.i.d. curve of one assumed acceptance a token."""
    lengths = np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1)
    return AcceptanceCurve(
        tokens_per_round=tokens_per_round_iid(alpha, lengths),
        relative_se=np.where(lengths > 0, SINGLE_SOURCE_RELATIVE_SE + 0.01 * lengths, 0.0),
        definition=f"{DEFINITION}; i.i.d. from one acceptance a token of {alpha:g}",
        source=source,
    )


def curve_from_facts(
    facts: Sequence[AcceptanceFact], temperature: float, task: str | None
) -> AcceptanceCurve | None:
    """Build a curve from published values of one pairing; None if there are none.

    Values at the temperature nearest to the wanted one are used and transferred; the spread
    between tasks becomes the interval unless one task was asked for and is there.
    """
    if not facts:
        return None
    nearest = min(abs((fact.temperature or 0.0) - temperature) for fact in facts)
    chosen = [f for f in facts if abs((f.temperature or 0.0) - temperature) <= nearest + 1e-9]
    of_task = [f for f in chosen if task is not None and f.task.casefold() == task.casefold()]
    chosen = of_task or chosen
    lengths = sorted({fact.num_speculative_tokens for fact in chosen})
    values = {
        n: np.array([f.tokens_per_round for f in chosen if f.num_speculative_tokens == n])
        for n in lengths
    }
    first, ratio = fit_decay(lengths, [float(values[n].mean()) for n in lengths])
    curve = tokens_per_round_from_conditional(
        decaying_rates(first, ratio, MAX_NUM_SPECULATIVE_TOKENS)
    )
    measured_at = float(np.mean([fact.temperature or 0.0 for fact in chosen]))
    curve, transfer_se = transfer_temperature(curve, measured_at, temperature)
    all_n = np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1)
    # a transfer to a lower temperature must not emit more than it drafts
    curve = np.minimum(curve, all_n + 1.0)
    unknown = any(fact.temperature is None for fact in chosen)
    spread = _task_spread(values)
    outside = np.maximum(all_n - max(lengths), 0) + np.maximum(min(lengths) - all_n, 0)
    relative_se = np.sqrt(
        spread**2
        + transfer_se**2
        + (UNKNOWN_TEMPERATURE_RELATIVE_SE if unknown else 0.0) ** 2
        + (EXTRAPOLATION_RELATIVE_SE * outside) ** 2
    )
    relative_se[0] = 0.0
    return AcceptanceCurve(
        tokens_per_round=curve,
        relative_se=relative_se,
        definition=_facts_definition(chosen, lengths, temperature, ratio),
        source=Source(
            kind=Kind.CITED if transfer_se == 0 else Kind.DERIVED,
            reference=_references([fact.source.reference for fact in chosen]),
            date=max((fact.source.date or "" for fact in chosen), default="") or None,
        ),
    )


_FEW_REFERENCES = 3


def _references(references: Sequence[str]) -> str:
    """Name a few sources in full; of many rows of one source, the source and their number."""
    distinct = sorted(set(references))
    if len(distinct) <= _FEW_REFERENCES:
        return "; ".join(distinct)
    # a reference ends with its place in the source: "dashboard @commit, model/task/setting"
    by_source = Counter(reference.rpartition(", ")[0] or reference for reference in distinct)
    return "; ".join(f"{name} ({rows} rows)" for name, rows in by_source.items())


def _task_spread(values: Mapping[int, Floats]) -> float:
    """Return the relative standard deviation between tasks, largest over the lengths."""
    spreads = [float(v.std(ddof=1) / v.mean()) for v in values.values() if len(v) > 1]
    return max([*spreads, SINGLE_SOURCE_RELATIVE_SE])


def _facts_definition(
    facts: Sequence[AcceptanceFact], lengths: Sequence[int], temperature: float, ratio: float
) -> str:
    tasks = ", ".join(sorted({fact.task for fact in facts}))
    temperatures = {fact.temperature for fact in facts}
    at = ", ".join(sorted("not published" if t is None else f"{t:g}" for t in temperatures))
    law = "i.i.d. extrapolation" if len(lengths) < 2 else f"decay ratio {ratio:.3f} fitted"
    shown = ", ".join(map(str, lengths))
    return (
        f"{DEFINITION}; published at N={shown} on {tasks} (temperature {at}), {law}, "
        f"brought to temperature {temperature:g}"
    )


@dataclass(frozen=True)
class TracedAcceptance:
    """Acceptance of one trace cell at every N, in one sampling mode."""

    task: str
    temperature: float
    draft_sampling: DraftSampling | None
    counts: tuple[ReplayCounts, ...]
    """Index N = 0 .. 16."""

    def tokens_per_round(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return tokens per round at N and its relative standard error."""
        counts = self.counts[num_speculative_tokens]
        return ratio_of_sums(counts.emitted, counts.rounds)

    def acceptance_rate(self, num_speculative_tokens: int) -> tuple[float, float]:
        """Return accepted over drafted tokens at N and its relative standard error."""
        counts = self.counts[num_speculative_tokens]
        return ratio_of_sums(counts.accepted, counts.drafted)


def replay_cell(cell: AcceptanceCell, index: int, arrays: Arrays) -> tuple[TracedAcceptance, ...]:
    """Replay one trace cell for every N and every draft-sampling mode."""
    lengths = range(MAX_NUM_SPECULATIVE_TOKENS + 1)

    def array(name: str) -> NDArray[np.generic]:
        return arrays[f"acceptance/{index}/{name}"]

    offsets = array("offsets").astype(np.int64)
    if cell.trace_kind == "per_start":
        proposed, accepted = array("proposed"), array("accepted")
        counts = tuple(replay_per_start(proposed, accepted, offsets, n) for n in lengths)
        return (TracedAcceptance(cell.task, cell.temperature, None, counts),)
    return tuple(
        TracedAcceptance(
            cell.task,
            cell.temperature,
            mode,
            tuple(replay_per_token(array(f"accept_{mode.value}"), offsets, n) for n in lengths),
        )
        for mode in DraftSampling
    )


def pool(traces: Sequence[TracedAcceptance]) -> TracedAcceptance:
    """Pool cells of one temperature and mode: their requests are put together."""
    counts = tuple(
        ReplayCounts(
            *(
                np.concatenate([getattr(trace.counts[n], name) for trace in traces])
                for name in ("rounds", "emitted", "drafted", "accepted", "accepted_per_position")
            )
        )
        for n in range(MAX_NUM_SPECULATIVE_TOKENS + 1)
    )
    first = traces[0]
    return TracedAcceptance("all", first.temperature, first.draft_sampling, counts)


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

    def curve(
        self, temperature: float, task: str | None, mode: DraftSampling = DraftSampling.GREEDY
    ) -> AcceptanceCurve | None:
        """Return acceptance at a temperature, from the nearest one traced; None without traces.

        Drafts are taken as greedy, which is the engine's default.
        """
        modes = {mode, None}
        usable = [trace for trace in self.traces if trace.draft_sampling in modes]
        if not usable:
            return None
        nearest = min((trace.temperature for trace in usable), key=lambda t: abs(t - temperature))
        at = [trace for trace in usable if trace.temperature == nearest]
        of_task = [trace for trace in at if task is not None and trace.task == task]
        traced = pool(of_task or at)
        pairs = [traced.tokens_per_round(n) for n in range(MAX_NUM_SPECULATIVE_TOKENS + 1)]
        if not np.isfinite([value for value, _ in pairs]).all():
            return None  # no text went beyond the prefill's own token: there was no round
        curve, transfer_se = transfer_temperature(
            np.array([value for value, _ in pairs]), nearest, temperature
        )
        most = np.arange(MAX_NUM_SPECULATIVE_TOKENS + 1) + 1.0
        curve = np.minimum(curve, most)
        # one request has no spread, but its tokens per round lie in 1 .. N+1 all the same
        widest = np.log(most) / Z_95
        relative_se = np.minimum(np.hypot([error for _, error in pairs], transfer_se), widest)
        tasks = ", ".join(sorted({trace.task for trace in (of_task or at)}))
        requests = len(traced.counts[0].rounds)
        sampling = f", {mode.value} drafts" if self.draft is not None else ""
        return AcceptanceCurve(
            tokens_per_round=curve,
            relative_se=relative_se,
            definition=(
                f"{DEFINITION}; trace of {requests} requests ({tasks}) at temperature "
                f"{nearest:g}{sampling}"
            ),
            source=Source(
                kind=Kind.MEASURED if transfer_se == 0 else Kind.DERIVED,
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
    target_step = fit_step_time(profile, Role.TARGET)
    if target_step is None:
        raise ProfileInvalidError(
            f"Profile {profile.id} holds no timing of the target.",
            "Measure again without a time budget that cuts the timing out.",
        )
    draft_step = fit_step_time(profile, Role.DRAFT)
    if profile.verdict.stability is Stability.NOISY:
        target_step = _widened(target_step)
        draft_step = _widened(draft_step) if draft_step is not None else None
    draft = profile.draft
    llm = (
        _with_measured_kv(draft.llm.spec, profile, Role.DRAFT)
        if isinstance(draft, ModelDraft)
        else None
    )
    overhead, scatter = _round_overhead(profile, target_step, draft_step)
    traces = [
        trace
        for index, cell in enumerate(profile.acceptance)
        for trace in replay_cell(cell, index, arrays)
    ]
    return ProfileEvidence(
        profile=profile,
        target=_with_measured_kv(profile.target.spec, profile, Role.TARGET),
        method=draft.method if draft is not None else Method.NONE,
        draft_id=llm.id if llm is not None else (draft.method.value if draft else ""),
        draft=llm,
        target_step=target_step,
        draft_step=draft_step,
        round_overhead_s=overhead,
        round_relative_se=scatter,
        traces=tuple(traces),
    )


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


def _round_overhead(
    profile: Profile, target: FittedStep, draft: FittedStep | None
) -> tuple[float, float]:
    """Return what really run rounds cost beyond the fitted passes, and the scatter about it.

    The first verification of a round attends to the prompt and what was written so far; the mean
    context of the trace stands for it.
    """
    if not profile.rounds:
        return 0.0, 0.0
    context = mean_context(profile)
    measured, predicted = [], []
    for cell in profile.rounds:
        if cell.rounds == 0:
            continue
        drafted_a_round = cell.drafted / cell.rounds
        passes = cell.num_speculative_tokens if draft is not None else 0
        spent = float(target.seconds(cell.batch, 1.0 + drafted_a_round, context))
        if draft is not None:
            spent += passes * float(draft.seconds(cell.batch, 1, context))
        measured.append(cell.seconds / cell.rounds)
        predicted.append(spent)
    if not measured:
        return 0.0, 0.0
    overhead = max(float(np.median(np.subtract(measured, predicted))), 0.0)
    errors = (np.array(predicted) + overhead) / np.array(measured) - 1.0
    return overhead, float(np.sqrt(np.mean(errors**2)))
