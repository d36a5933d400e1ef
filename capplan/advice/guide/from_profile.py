"""A profile as the guide's rules see it: what was measured, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.advice.guide import points
from capplan.advice.guide.situation import Gain, Judged, Situation, Symptom
from capplan.estimate.evidence import ProfileEvidence
from capplan.estimate.steptime import verify_seconds
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.schema.cells import DraftSampling, RoundsCell
from capplan.schema.pairing import Method

_LENGTHS = range(1, 9)
_BATCHES = (1, 4, 8)


@dataclass(frozen=True)
class Traced:
    """A profile's traces by temperature, and what a round of them costs."""

    evidence: ProfileEvidence

    def at(self, temperature: float) -> tuple[TracedAcceptance, ...]:
        """Return the traces at a temperature, with the engine's default drafts."""
        usual = (None, DraftSampling.GREEDY)
        return tuple(
            trace
            for trace in self.evidence.traces
            if trace.draft_sampling in usual and trace.temperature == temperature
        )

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The traced temperatures, the lowest first."""
        traced = sorted({trace.temperature for trace in self.evidence.traces})
        return tuple(temperature for temperature in traced if self.at(temperature))

    @property
    def coldest(self) -> TracedAcceptance | None:
        """The traces at the lowest temperature, pooled; None without any."""
        return pool(self.at(self.temperatures[0])) if self.temperatures else None

    @property
    def nothing(self) -> str:
        """Why there is nothing to judge."""
        drafts = self.evidence.method is not Method.NONE
        return "No acceptance was traced." if drafts else "The profile has no draft."

    def round_ratio(self, trace: TracedAcceptance, length: int, batch: int) -> float:
        """Return the plain steps that a mean round takes, overhead included."""
        evidence, context = self.evidence, self.evidence.mean_context
        decode = float(evidence.target_step.seconds(batch, 1, context))
        share, drafted = 1.0, float(length)
        if evidence.draft is None:
            share, drafted = trace.drafting(length)
        spent = float(verify_seconds(evidence.target_step, batch, drafted, share, context))
        if evidence.draft_step is not None:
            spent += length * float(evidence.draft_step.seconds(batch, 1, context))
        return (spent + evidence.round_overhead_s) / decode

    def best(self, trace: TracedAcceptance, batch: int) -> tuple[int, float]:
        """Return the fastest length at a batch with its projected speedup; 0 where none pays."""
        gains = {
            n: trace.tokens_per_round(n)[0] / self.round_ratio(trace, n, batch) for n in _LENGTHS
        }
        length = max(gains, key=lambda n: gains[n])
        return (length if gains[length] > 1 else 0), gains[length]


def profile_situation(evidence: ProfileEvidence) -> Situation:
    """Return what the rules look at of a profile."""
    traced, draft = Traced(evidence), evidence.draft
    lengths, lengths_say = _lengths(traced)
    rate, acceptance_says = _acceptance(traced)
    flag_on, flag_says = _flag(evidence)
    return Situation(
        pairing=_pairing(traced),
        families=None if draft is None else (evidence.target.family, draft.family),
        best_lengths=lengths,
        lengths_say=lengths_say,
        gains=tuple(_gain(traced, temperature) for temperature in traced.temperatures),
        flag_on=flag_on,
        flag_says=flag_says,
        acceptance_rate=rate,
        acceptance_says=acceptance_says,
        code=_task(traced, points.CODE_OR_TRANSLATION, first=True),
        maths=_task(traced, points.MATHS, first=False),
        eagle=Judged(None, "One profile has one draft: capplan recommend compares several."),
        target_params=evidence.target.params_total,
        slow=_slow(evidence),
        memory=_memory(evidence),
        first_token=Symptom(False, "A profile holds no time to first token."),
        quality=_quality(evidence),
    )


def _pairing(traced: Traced) -> str:
    draft, trace = traced.evidence.draft, traced.coldest
    if draft is None:
        looks_up = traced.evidence.method is not Method.NONE
        return "Drafts are looked up." if looks_up else traced.nothing
    tokens = (
        traced.nothing
        if trace is None
        else f"{trace.tokens_per_round(points.LENGTH)[0]:.2f} tokens a round at N = "
        f"{points.LENGTH}, temperature {traced.temperatures[0]:g}."
    )
    return f"{draft.family} drafts for {traced.evidence.target.family}. What counts: {tokens}"


def _lengths(traced: Traced) -> tuple[frozenset[int], str]:
    trace = traced.coldest
    if trace is None:
        return frozenset(), traced.nothing
    found = {batch: traced.best(trace, batch) for batch in _BATCHES}
    told = "; ".join(
        f"batch {batch}: " + (f"{length} ({gain:.2f}x)" if length else "off")
        for batch, (length, gain) in found.items()
    )
    return frozenset(length for length, _ in found.values()), (
        f"Fastest length here by projection: {told}."
    )


def _gain(traced: Traced, temperature: float) -> Gain:
    trace = pool(traced.at(temperature))
    length, gain = traced.best(trace, 1)
    if not length:
        says = f"At temperature {temperature:g} no length pays at batch 1 ({gain:.2f}x at best)."
        return Gain(temperature, False, says)
    tokens, _ = trace.tokens_per_round(length)
    says = (
        f"At temperature {temperature:g}, batch 1: {tokens:.2f} tokens a round, {gain:.2f}x at "
        f"N = {length}."
    )
    return Gain(temperature, True, says)


def _flag(evidence: ProfileEvidence) -> tuple[bool | None, str]:
    backend = evidence.profile.backend
    if backend.name not in ("vllm", "server"):
        return None, f"The {backend.name} backend never had it. {points.NO_FLAG}"
    return any("block_manager" in name for name in backend.arguments), points.NO_FLAG


def _acceptance(traced: Traced) -> tuple[float | None, str]:
    """Put the tokens at which a round pays here in place of the guide's rate."""
    trace = traced.coldest
    if trace is None:
        return None, traced.nothing
    rate, _ = trace.acceptance_rate(points.LENGTH)
    tokens, _ = trace.tokens_per_round(points.LENGTH)
    told = " and ".join(
        f"{traced.round_ratio(trace, points.LENGTH, batch):.2f} tokens a round at batch {batch}"
        for batch in (_BATCHES[0], _BATCHES[-1])
    )
    return rate, (
        f"{rate * 100:.0f} % of the drafts are accepted at N = {points.LENGTH} and temperature "
        f"{traced.temperatures[0]:g}, {tokens:.2f} tokens a round; a round breaks even at {told}."
    )


def _task(traced: Traced, words: tuple[str, ...], *, first: bool) -> Judged:
    """Say whether the tasks that the guide puts first, or last, were so here."""
    traces = traced.at(traced.temperatures[0]) if traced.temperatures else ()
    tokens = {trace.task: trace.tokens_per_round(points.LENGTH)[0] for trace in traces}
    ranked = sorted(tokens, key=lambda task: -tokens[task])
    about = sum(points.is_about(task, words) for task in ranked)
    if about in (0, len(ranked)):
        return Judged(None, "Not among the traced tasks, or nothing to compare it with.")
    told = ", ".join(f"{task} {tokens[task]:.2f}" for task in ranked)
    claimed = ranked[:about] if first else ranked[-about:]
    holds = all(points.is_about(task, words) for task in claimed)
    return Judged(holds, f"Measured, tokens a round at N = {points.LENGTH}: {told}.")


def _slow(evidence: ProfileEvidence) -> Symptom:
    """Say what kept really run rounds below the guide's limit."""
    gains = [(cell, _actual(cell)) for cell in evidence.profile.rounds if cell.rounds]
    low = [(cell, gain) for cell, gain in gains if gain < points.LOW_SPEEDUP]
    if not low:
        return Symptom(False, "Every run is above." if gains else "No speculation was run.")
    cell, gain = min(low, key=lambda found: found[1])
    return Symptom(
        True,
        f"{len(low)} of {len(gains)} runs are below; the lowest, {gain:.2f}x at N = "
        f"{cell.num_speculative_tokens}, batch {cell.batch}: {_why_slow(cell, gain)}.",
    )


def _why_slow(cell: RoundsCell, gain: float) -> str:
    tokens, drafted = cell.emitted / cell.rounds, cell.drafted / cell.rounds
    if drafted < cell.num_speculative_tokens / 2:
        return f"only {drafted:.2f} tokens are drafted a round, lookup finds little to copy"
    ratio = tokens / gain
    return (
        f"{tokens:.2f} tokens a round for {ratio:.2f} steps; "
        f"{points.limiting(tokens, ratio, drafted)}"
    )


def _actual(cell: RoundsCell) -> float:
    plain = cell.baseline_emitted / cell.baseline_seconds
    return cell.emitted / cell.seconds / plain if plain else 1.0


def _memory(evidence: ProfileEvidence) -> Symptom:
    failed = [s for s in evidence.profile.skipped if "memory" in s.reason.lower()]
    if not failed:
        return Symptom(False, "Nothing ran out of memory.")
    return Symptom(
        True,
        f"{len(failed)} cells ran out of memory, the first {failed[0].what}. {points.NO_LEVER} "
        "Lower batch or context.",
    )


def _quality(evidence: ProfileEvidence) -> Symptom:
    """Say in how many requests speculation left the text as it was."""
    compared = [c for c in evidence.profile.rounds if c.identical_outputs is not None]
    if not compared:
        return Symptom(False, "No text was compared.")
    same = sum(cell.identical_outputs or 0 for cell in compared)
    asked = sum(cell.requests for cell in compared)
    says = f"{same} of {asked} texts equal those of plain decoding at temperature 0"
    if same == asked:
        return Symptom(False, f"{says}.")
    return Symptom(
        True,
        f"{says}; the rest may be ties of low precision. Compare their log-probabilities; the "
        "flag that the guide names is gone.",
    )
