"""The guide's checklist and troubleshooting table as rules, for plans and profiles alike.

A rule puts the number that decides here in place of the guide's, and says whether the guide's
advice is kept all the same. ``RULES`` is the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capplan.advice.guide import points
from capplan.advice.guide.from_plan import plan_situation
from capplan.advice.guide.situation import Judged, Situation, Symptom
from capplan.schema.audit import GuidePoint, GuideTopic, PointState
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact
from capplan.schema.plan import Plan

if TYPE_CHECKING:
    from capplan.estimate.evidence import ProfileEvidence

_STATES: Mapping[bool | None, PointState] = {
    True: PointState.KEPT,
    False: PointState.NOT_KEPT,
    None: PointState.DOES_NOT_APPLY,
}


@dataclass(frozen=True)
class GuideRule:
    """One rule of the guide, and how it is judged."""

    id: str
    text: str
    judge: Callable[[Situation], Judged | Symptom]

    def applied(self, at: Situation) -> GuidePoint:
        """Return what becomes of the rule in a situation."""
        found = self.judge(at)
        if isinstance(found, Judged):
            topic, state = GuideTopic.CHECKLIST, _STATES[found.kept]
        else:
            topic = GuideTopic.TROUBLESHOOTING
            state = PointState.APPLIES if found.is_there else PointState.DOES_NOT_APPLY
        return GuidePoint(id=self.id, topic=topic, rule=self.text, state=state, says=found.says)


def same_family(at: Situation) -> Judged:
    """Keep where both LLMs are of one family; the sentence says what counts instead."""
    return Judged(at.families[0] == at.families[1] if at.families else None, at.pairing)


def universal_length(at: Situation) -> Judged:
    """Keep where the guide's length is the fastest at every load looked at."""
    kept = at.best_lengths == {points.LENGTH} if at.best_lengths else None
    return Judged(kept, at.lengths_say)


def cool_enough(at: Situation) -> Judged:
    """Keep where speculation pays up to the guide's temperature."""
    return _at_temperatures(at, lambda temperature: temperature <= points.ENABLE_TO, pays=True)


def too_hot(at: Situation) -> Judged:
    """Keep where it does not pay above the guide's other temperature."""
    return _at_temperatures(at, lambda temperature: temperature > points.OFF_ABOVE, pays=False)


def _at_temperatures(at: Situation, wanted: Callable[[float], bool], *, pays: bool) -> Judged:
    gains = [gain for gain in at.gains if wanted(gain.temperature)]
    if not gains:
        known = ", ".join(f"{gain.temperature:g}" for gain in at.gains)
        return Judged(None, f"Here the temperature is {known}." if known else at.lengths_say)
    kept = all(gain.pays is pays for gain in gains)
    return Judged(kept, " ".join(gain.says for gain in gains))


def block_manager(at: Situation) -> Judged:
    """Keep where the flag is given, which no engine takes any more."""
    return Judged(at.flag_on, at.flag_says)


def least_acceptance(at: Situation) -> Judged:
    """Keep above the guide's rate; the sentence has the rate at which a round pays."""
    rate = at.acceptance_rate
    kept = None if rate is None else rate >= points.LEAST_ACCEPTANCE
    return Judged(kept, at.acceptance_says)


def several_levels(at: Situation) -> Judged:
    """Never keep for a large target: no engine runs several levels."""
    params = at.target_params
    if params is None or params <= points.LARGE_PARAMS:
        size = "is of unknown size" if params is None else f"has {params / 1e9:.3g}B parameters"
        return Judged(None, f"The target {size}; no engine runs several levels in any case.")
    says = (
        f"The target has {params / 1e9:,.0f}B parameters, yet vLLM runs one draft an engine: its "
        "own MTP layers or an EAGLE-3 head are what large targets are published with."
    )
    return Judged(False, says)


RULES: tuple[GuideRule, ...] = (
    GuideRule("same-family", "draft of the same family", same_family),
    GuideRule("n5", f"N = {points.LENGTH} is the universal optimum", universal_length),
    GuideRule("temperature-on", f"speculate up to temperature {points.ENABLE_TO:g}", cool_enough),
    GuideRule("temperature-off", f"switch off above temperature {points.OFF_ABOVE:g}", too_hot),
    GuideRule("v2-block-manager", "use-v2-block-manager on", block_manager),
    GuideRule(
        "acceptance",
        f"replace the draft below {points.LEAST_ACCEPTANCE * 100:.0f} % acceptance",
        least_acceptance,
    ),
    GuideRule("code-translation", "translation and code first", lambda at: at.code),
    GuideRule("maths", "maths with care: little to gain", lambda at: at.maths),
    GuideRule("eagle", "EAGLE gains another 20 %", lambda at: at.eagle),
    GuideRule("levels", "several levels above 100B parameters", several_levels),
    GuideRule(
        "slow",
        f"speedup below {points.LOW_SPEEDUP:g}x: draft of another family",
        lambda at: at.slow,
    ),
    GuideRule(
        "memory", "out of memory: lower the draft's tensor parallelism", lambda at: at.memory
    ),
    GuideRule("first-token", "slow first token: preload the draft", lambda at: at.first_token),
    GuideRule("quality", "worse output: use the V2 block manager", lambda at: at.quality),
)
"""Ten points of the checklist, then four rows of the troubleshooting table, in its order."""


def guide_checklist(
    plan: Plan,
    llms: Mapping[str, LlmSpec] | None = None,
    acceptance: Sequence[AcceptanceFact] = (),
) -> tuple[GuidePoint, ...]:
    """Return every rule applied to the recommended option.

    Parameters
    ----------
    plan
        The plan; an infeasible one gets no points.
    llms
        Known LLMs by id, for families, vocabularies and sizes.
    acceptance
        Published acceptance of any pairing; only that of the recommended one is used.
    """
    if not plan.verdict.feasible or not plan.options:
        return ()
    situation = plan_situation(plan, llms or {}, acceptance)
    return tuple(rule.applied(situation) for rule in RULES)


def profile_checklist(evidence: ProfileEvidence) -> tuple[GuidePoint, ...]:
    """Return every rule applied to a profile."""
    from capplan.advice.guide.from_profile import profile_situation

    situation = profile_situation(evidence)
    return tuple(rule.applied(situation) for rule in RULES)
