"""The guide's checklist and troubleshooting table, applied to what a profile measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from capplan.advice.guide import points
from capplan.estimate.evidence import ProfileEvidence
from capplan.estimate.steptime import verify_seconds
from capplan.estimate.tracing import TracedAcceptance, pool
from capplan.schema.audit import GuidePoint
from capplan.schema.pairing import Method
from capplan.schema.profile import DraftSampling, RoundsCell

_LENGTHS = range(1, 9)
_BATCHES = (1, 4, 8)
_NO_DRAFT = "The profile has no draft."
_NO_TRACE = "No acceptance was traced."


@dataclass(frozen=True)
class ProfileSituation:
    """A profile's evidence, with what several rules need of it."""

    evidence: ProfileEvidence

    @property
    def drafts(self) -> bool:
        """Whether anything was traced for a draft."""
        return self.evidence.method is not Method.NONE

    def traces(self, temperature: float | None = None) -> tuple[TracedAcceptance, ...]:
        """Return traces with the engine's default drafts, at one temperature or all."""
        usual = (None, DraftSampling.GREEDY)
        return tuple(
            trace
            for trace in self.evidence.traces
            if trace.draft_sampling in usual and temperature in (None, trace.temperature)
        )

    def temperatures(self) -> tuple[float, ...]:
        """Return the traced temperatures, the lowest first."""
        return tuple(sorted({trace.temperature for trace in self.traces()}))

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

    def speedup(self, trace: TracedAcceptance, length: int, batch: int) -> float:
        """Return the projected speedup of a length at a batch."""
        tokens, _ = trace.tokens_per_round(length)
        return tokens / self.round_ratio(trace, length, batch)


ProfileRule = Callable[[ProfileSituation], GuidePoint]


def profile_checklist(evidence: ProfileEvidence) -> tuple[GuidePoint, ...]:
    """Return every point of the guide applied to a profile."""
    situation = ProfileSituation(evidence)
    return tuple(rule(situation) for rule in PROFILE_RULES)


def same_family(at: ProfileSituation) -> GuidePoint:
    """Say whether target and draft share a family, and what their pairing yields."""
    target, draft = at.evidence.target, at.evidence.draft
    if draft is None:
        return points.SAME_FAMILY.aside(_NO_DRAFT if not at.drafts else "Drafts are looked up.")
    says = f"{draft.family} drafts for {target.family}; {_coldest_tokens(at)}"
    return points.SAME_FAMILY.kept_if(draft.family == target.family, says)


def _coldest_tokens(at: ProfileSituation) -> str:
    temperatures = at.temperatures()
    if not temperatures:
        return _NO_TRACE.lower()
    tokens, _ = pool(at.traces(temperatures[0])).tokens_per_round(points.LENGTH)
    return f"{tokens:.2f} tokens a round at N = {points.LENGTH}, temperature {temperatures[0]:g}."


def universal_length(at: ProfileSituation) -> GuidePoint:
    """Say which length is fastest at a few batches on this machine."""
    rule, temperatures = points.UNIVERSAL_N, at.temperatures()
    if not temperatures:
        return rule.aside(_NO_TRACE if at.drafts else _NO_DRAFT)
    trace = pool(at.traces(temperatures[0]))
    told, best_lengths = [], []
    for batch in _BATCHES:
        by_length = {n: at.speedup(trace, n, batch) for n in _LENGTHS}
        best = max(by_length, key=lambda n, found=by_length: found[n])  # type: ignore[misc]
        loses = by_length[best] <= 1
        best_lengths.append(0 if loses else best)
        told.append(f"batch {batch}: " + ("off" if loses else f"{best} ({by_length[best]:.2f}x)"))
    says = f"Fastest length here by projection: {'; '.join(told)}."
    return rule.kept_if(set(best_lengths) == {points.LENGTH}, says)


def cool_enough(at: ProfileSituation) -> GuidePoint:
    """Say what was accepted at temperatures up to the guide's limit."""
    cool = tuple(t for t in at.temperatures() if t <= points.ENABLE_TO)
    return _by_temperature(at, points.COOL, cool, pays=True)


def too_hot(at: ProfileSituation) -> GuidePoint:
    """Say what was accepted above the guide's limit."""
    hot = tuple(t for t in at.temperatures() if t > points.OFF_ABOVE)
    return _by_temperature(at, points.HOT, hot, pays=False)


def _by_temperature(
    at: ProfileSituation, rule: points.GuideRule, temperatures: tuple[float, ...], *, pays: bool
) -> GuidePoint:
    if not temperatures:
        return rule.aside("No such temperature was traced.")
    told, gains = [], []
    for temperature in temperatures:
        trace = pool(at.traces(temperature))
        best = max(_LENGTHS, key=lambda n, trace=trace: at.speedup(trace, n, 1))  # type: ignore[misc]
        gains.append(at.speedup(trace, best, 1))
        tokens, _ = trace.tokens_per_round(best)
        told.append(
            f"{temperature:g}: {tokens:.2f} tokens a round, {gains[-1]:.2f}x at N = {best}"
        )
    says = f"Batch 1, temperature {'; '.join(told)}."
    return rule.kept_if(all((gain > 1) == pays for gain in gains), says)


def block_manager(at: ProfileSituation) -> GuidePoint:
    """Say that the flag is gone, for engines that had it."""
    backend = at.evidence.profile.backend
    if backend.name not in ("vllm", "server"):
        return points.BLOCK_MANAGER.aside(
            f"The {backend.name} backend never had it. {points.NO_FLAG}"
        )
    used = any("block_manager" in name for name in backend.arguments)
    return points.BLOCK_MANAGER.kept_if(used, points.NO_FLAG)


def break_even(at: ProfileSituation) -> GuidePoint:
    """Put the acceptance at which a round pays here in place of the guide's 60 %."""
    rule, temperatures = points.ACCEPTANCE, at.temperatures()
    if not temperatures:
        return rule.aside(_NO_TRACE if at.drafts else _NO_DRAFT)
    trace = pool(at.traces(temperatures[0]))
    rate, _ = trace.acceptance_rate(points.LENGTH)
    told = []
    for batch in (_BATCHES[0], _BATCHES[-1]):
        ratio = at.round_ratio(trace, points.LENGTH, batch)
        told.append(f"{ratio:.2f} tokens a round at batch {batch}")
    tokens, _ = trace.tokens_per_round(points.LENGTH)
    says = (
        f"{rate * 100:.0f} % of the drafts at N = {points.LENGTH} and temperature "
        f"{temperatures[0]:g}, {tokens:.2f} tokens a round; a round breaks even at "
        f"{' and '.join(told)}."
    )
    return rule.kept_if(rate >= points.LEAST_ACCEPTANCE, says)


def code_first(at: ProfileSituation) -> GuidePoint:
    """Say whether code and translation were accepted most here."""
    return _task_rule(at, points.CODE_FIRST, points.CODE_OR_TRANSLATION, first=True)


def maths_with_care(at: ProfileSituation) -> GuidePoint:
    """Say whether maths was accepted least here."""
    return _task_rule(at, points.MATHS_CAREFULLY, points.MATHS, first=False)


def _task_rule(
    at: ProfileSituation, rule: points.GuideRule, words: tuple[str, ...], *, first: bool
) -> GuidePoint:
    temperatures = at.temperatures()
    traces = at.traces(temperatures[0]) if temperatures else ()
    tokens = {t.task: t.tokens_per_round(points.LENGTH)[0] for t in traces}
    ranked = sorted(tokens, key=lambda task: -tokens[task])
    about = sum(points.is_about(task, words) for task in ranked)
    if about in (0, len(ranked)):
        return rule.aside("Not among the traced tasks, or nothing to compare it with.")
    told = ", ".join(f"{task} {tokens[task]:.2f}" for task in ranked)
    claimed = ranked[:about] if first else ranked[-about:]
    holds = all(points.is_about(task, words) for task in claimed)
    return rule.kept_if(holds, f"Measured, tokens a round at N = {points.LENGTH}: {told}.")


def eagle_gain(at: ProfileSituation) -> GuidePoint:  # noqa: ARG001 - a ProfileRule
    """Say that one profile has one draft."""
    return points.EAGLE.aside(
        "One profile has one draft: capplan recommend compares heads with draft models."
    )


def several_levels(at: ProfileSituation) -> GuidePoint:
    """Say that no engine runs several levels."""
    return points.levels(at.evidence.target.params_total)


def slow(at: ProfileSituation) -> GuidePoint:
    """Say what kept really run rounds below the guide's limit."""
    cells = [(cell, _actual(cell)) for cell in at.evidence.profile.rounds if cell.rounds]
    low = [(cell, gain) for cell, gain in cells if gain < points.LOW_SPEEDUP]
    if not low:
        says = "No speculation was run." if not cells else "Every run is above."
        return points.SLOW.aside(says)
    cell, gain = min(low, key=lambda found: found[1])
    tokens = cell.emitted / cell.rounds
    ratio = tokens / gain
    most = (cell.drafted / cell.rounds + 1) / ratio
    cause = "the cost of a round" if most < points.LOW_SPEEDUP else "acceptance"
    return points.SLOW.applies(
        f"{len(low)} of {len(cells)} runs are below; the lowest, {gain:.2f}x at N = "
        f"{cell.num_speculative_tokens}, batch {cell.batch}: {tokens:.2f} tokens a round for "
        f"{ratio:.2f} steps; with every draft accepted {most:.2f}x. The limit is {cause}."
    )


def _actual(cell: RoundsCell) -> float:
    plain = cell.baseline_emitted / cell.baseline_seconds
    return cell.emitted / cell.seconds / plain if plain else 1.0


def memory(at: ProfileSituation) -> GuidePoint:
    """Say whether anything ran out of memory."""
    failed = [s for s in at.evidence.profile.skipped if "memory" in s.reason.lower()]
    if not failed:
        return points.MEMORY.aside("Nothing ran out of memory.")
    return points.MEMORY.applies(
        f"{len(failed)} cells ran out of memory, the first {failed[0].what}. The draft's tensor "
        "parallelism is no remedy: vLLM refuses or ignores it. Lower batch or context."
    )


def first_token(at: ProfileSituation) -> GuidePoint:  # noqa: ARG001 - a ProfileRule
    """Say that a profile holds no time to first token."""
    return points.FIRST_TOKEN.aside("A profile holds no time to first token.")


def quality(at: ProfileSituation) -> GuidePoint:
    """Say in how many requests speculation left the text as it was."""
    compared = [c for c in at.evidence.profile.rounds if c.identical_outputs is not None]
    if not compared:
        return points.QUALITY.aside("No text was compared.")
    same = sum(cell.identical_outputs or 0 for cell in compared)
    asked = sum(cell.requests for cell in compared)
    says = f"{same} of {asked} texts equal those of plain decoding at temperature 0"
    if same == asked:
        return points.QUALITY.aside(f"{says}.")
    return points.QUALITY.applies(
        f"{says}; the rest may be ties of low precision. Compare their log-probabilities; the "
        "flag that the guide names is gone."
    )


PROFILE_RULES: tuple[ProfileRule, ...] = (
    same_family,
    universal_length,
    cool_enough,
    too_hot,
    block_manager,
    break_even,
    code_first,
    maths_with_care,
    eagle_gain,
    several_levels,
    slow,
    memory,
    first_token,
    quality,
)
