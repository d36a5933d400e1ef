"""The guide's checklist and troubleshooting table, applied to a plan.

Each rule sees the recommended option and what the catalogue says of its LLMs, and answers with
the number that decides here instead of the guide's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from capplan.advice.guide import points
from capplan.schema.audit import GuidePoint
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.plan import LoadPoint, Plan, PlanOption

_HEADS = (Method.EAGLE, Method.EAGLE3, Method.PEAGLE)
_NEAR_LIMIT = 0.8
_PLAIN = "The plan does not speculate."


@dataclass(frozen=True)
class PlanSituation:
    """What a rule of the guide may look at."""

    plan: Plan
    best: PlanOption
    llms: Mapping[str, LlmSpec] = field(default_factory=dict)
    acceptance: Sequence[AcceptanceFact] = ()
    """Published acceptance of the pairing that is recommended."""

    @property
    def speculates(self) -> bool:
        """Whether the recommended option drafts at all."""
        return self.best.method is not Method.NONE

    @property
    def temperature(self) -> float:
        """Temperature of the planned traffic."""
        return self.plan.request.workload.temperature

    def at_load(self) -> LoadPoint | None:
        """Return the point of the load curve next to the planned load."""
        curve, load = self.best.load_curve, self.best.concurrency
        return min(curve, key=lambda point: abs(point.concurrency - load)) if curve else None


PlanRule = Callable[[PlanSituation], GuidePoint]


def guide_checklist(
    plan: Plan,
    llms: Mapping[str, LlmSpec] | None = None,
    acceptance: Sequence[AcceptanceFact] = (),
) -> tuple[GuidePoint, ...]:
    """Return every point of the guide applied to the recommended option.

    Parameters
    ----------
    plan
        The plan; an infeasible one gets no points.
    llms
        Known LLMs by id, for sizes and tokenizers.
    acceptance
        Published acceptance of any pairing; only that of the recommended one is used.
    """
    if not plan.verdict.feasible or not plan.options:
        return ()
    best = plan.options[0]
    of_pair = [f for f in acceptance if (f.target, f.draft) == (best.target, best.draft)]
    situation = PlanSituation(plan, best, llms or {}, of_pair)
    return tuple(rule(situation) for rule in PLAN_RULES)


def same_family(at: PlanSituation) -> GuidePoint:
    """Say whether the draft's tokenizer is the target's, which is what family stands for."""
    rule = points.SAME_FAMILY
    if not at.speculates:
        return rule.aside(_PLAIN)
    if at.best.method is not Method.DRAFT_MODEL:
        return rule.aside(f"{at.best.method.value} drafts without a second LLM.")
    target, draft = at.llms.get(at.best.target), at.llms.get(at.best.draft or "")
    tokens = _tokens_text(at.best)
    if target is None or draft is None:
        return rule.aside(f"The family of {at.best.draft} is not on record; {tokens}")
    same = target.family == draft.family
    sizes = f"vocabularies of {target.vocab_size:,} and {draft.vocab_size:,} tokens"
    return rule.kept_if(
        same, f"{draft.family} drafts for {target.family}, {sizes}. What counts: {tokens}"
    )


def _tokens_text(best: PlanOption) -> str:
    if best.acceptance is None or best.round_ratio is None:
        return "acceptance is not known."
    tokens, ratio = best.acceptance.tokens_per_round.mid, best.round_ratio.mid
    return f"{tokens:.2f} tokens a round against a round of {ratio:.2f} steps."


def universal_length(at: PlanSituation) -> GuidePoint:
    """Say which length is best at the planned load, and how it moves with load."""
    point, rule = at.at_load(), points.UNIVERSAL_N
    if point is None:
        says = "No length pays here: plain decoding is recommended."
        return rule.kept_if(False, says) if not at.speculates else rule.aside("No load curve.")
    best = point.best_num_speculative_tokens
    by_load = [p.best_num_speculative_tokens for p in at.best.load_curve]
    here = f"N = {best} ({point.best_speedup:.2f}x)" if best else "not to speculate"
    spread = f"{max(by_load)} to {min(by_load)}" if len(set(by_load)) > 1 else f"always {best}"
    says = (
        f"At {point.concurrency:,} requests at once the best for this pairing is {here}; over "
        f"the load curve ({at.best.load_curve[0].concurrency:,} to "
        f"{at.best.load_curve[-1].concurrency:,} requests) it runs {spread}."
    )
    return rule.kept_if(best == points.LENGTH, says)


def cool_enough(at: PlanSituation) -> GuidePoint:
    """Say what speculation gains at this temperature, below the guide's limit."""
    rule = points.COOL
    if at.temperature > points.ENABLE_TO:
        return rule.aside(f"Planned for temperature {at.temperature:g}.")
    return rule.kept_if(at.speculates, _gain_text(at))


def too_hot(at: PlanSituation) -> GuidePoint:
    """Say what speculation gains above the guide's limit."""
    rule = points.HOT
    if at.temperature <= points.OFF_ABOVE:
        return rule.aside(f"Planned for temperature {at.temperature:g}.")
    return rule.kept_if(not at.speculates, _gain_text(at))


def _gain_text(at: PlanSituation) -> str:
    if not at.speculates:
        return (
            f"At temperature {at.temperature:g} no draft within the limits beats plain decoding."
        )
    speedup = at.best.speedup
    return (
        f"At temperature {at.temperature:g}: {_tokens_text(at.best).rstrip('.')}, "
        f"{speedup.mid:.2f}x ({speedup.low:.2f}-{speedup.high:.2f})."
    )


def block_manager(at: PlanSituation) -> GuidePoint:
    """Say that the flag is gone."""
    return points.BLOCK_MANAGER.kept_if("use-v2-block-manager" in at.best.launch, points.NO_FLAG)


def break_even(at: PlanSituation) -> GuidePoint:
    """Put the acceptance at which a round pays at this load in place of the guide's 60 %."""
    best, rule = at.best, points.ACCEPTANCE
    if best.acceptance is None or best.round_ratio is None or not best.num_speculative_tokens:
        return rule.aside(_PLAIN)
    ratio, rate = best.round_ratio.mid, best.acceptance.acceptance_rate.mid
    needed = max(ratio - 1, 0) / best.num_speculative_tokens
    says = (
        f"{rate * 100:.0f} % of the drafts at N = {best.num_speculative_tokens}. At "
        f"{best.concurrency:,} requests at once a round costs {ratio:.2f} plain steps: it breaks "
        f"even at {ratio:.2f} tokens a round, {needed * 100:.0f} % acceptance."
    )
    return rule.kept_if(rate >= points.LEAST_ACCEPTANCE, says)


def code_first(at: PlanSituation) -> GuidePoint:
    """Say what is published of the pairing by task, for code and translation."""
    task, rule = at.plan.request.workload.task, points.CODE_FIRST
    says = _by_task(at)
    if points.is_about(task, points.CODE_OR_TRANSLATION):
        return rule.kept_if(at.speculates, says)
    return rule.aside(says)


def maths_with_care(at: PlanSituation) -> GuidePoint:
    """Say what is published of the pairing by task, for maths."""
    task, rule = at.plan.request.workload.task, points.MATHS_CAREFULLY
    if points.is_about(task, points.MATHS):
        return rule.kept_if(not at.speculates, _by_task(at))
    named = f"The planned task is {task}." if task else "No task is planned for."
    return rule.aside(named)


def _by_task(at: PlanSituation) -> str:
    """Return published acceptance of the pairing by task, at the length nearest to the plan's."""
    wanted = at.best.num_speculative_tokens
    lengths = sorted(
        {fact.num_speculative_tokens for fact in at.acceptance}, key=lambda n: (abs(n - wanted), n)
    )
    if not lengths:
        return points.EVIDENCE_ON_TASKS
    facts = [fact for fact in at.acceptance if fact.num_speculative_tokens == lengths[0]]
    ranked = sorted(facts, key=lambda fact: -fact.tokens_per_round)
    told = ", ".join(f"{fact.task} {fact.tokens_per_round:.2f}" for fact in ranked[:7])
    return f"Published for this pairing at N = {lengths[0]}, tokens a round: {told}."


def eagle_gain(at: PlanSituation) -> GuidePoint:
    """Compare heads with draft models among the options of this very plan."""
    rule = points.EAGLE
    if not at.speculates:
        return rule.aside(_PLAIN)
    head = _fastest(at, _HEADS)
    model = _fastest(at, (Method.DRAFT_MODEL,))
    uses_head = at.best.method in _HEADS
    if head is None:
        return rule.aside("No EAGLE head for this target is within the limits.")
    if model is None:
        says = f"The best head gives {head.speedup.mid:.2f}x; no draft model within the limits."
        return rule.kept_if(uses_head, says)
    gain = head.speedup.mid / model.speedup.mid - 1
    says = (
        f"In this plan the best head gives {head.speedup.mid:.2f}x (N = "
        f"{head.num_speculative_tokens}), the best draft model {model.speedup.mid:.2f}x: "
        f"{gain * 100:+.0f} %."
    )
    return rule.kept_if(uses_head, says)


def _fastest(at: PlanSituation, methods: Sequence[Method]) -> PlanOption | None:
    options = [o for o in at.plan.options if o.target == at.best.target and o.method in methods]
    return max(options, key=lambda option: option.speedup.mid, default=None)


def several_levels(at: PlanSituation) -> GuidePoint:
    """Say that no engine runs several levels."""
    target = at.llms.get(at.best.target)
    return points.levels(None if target is None else target.params_total)


def slow(at: PlanSituation) -> GuidePoint:
    """Say whether acceptance or the cost of a round keeps a low speedup low."""
    best, rule = at.best, points.SLOW
    if best.acceptance is None or best.round_ratio is None or not at.speculates:
        return rule.aside(_PLAIN)
    if best.speedup.mid >= points.LOW_SPEEDUP:
        return rule.aside(f"Planned at {best.speedup.mid:.2f}x.")
    ratio = best.round_ratio.mid
    most = (best.num_speculative_tokens + 1) / ratio
    needed = points.LOW_SPEEDUP * ratio
    cause = (
        f"even with every draft accepted this load allows {most:.2f}x: the cost of a round is "
        "the limit, so lower the load a replica or N"
        if most < points.LOW_SPEEDUP
        else f"{points.LOW_SPEEDUP:g}x needs {needed:.2f} tokens a round, "
        f"{best.acceptance.tokens_per_round.mid:.2f} are accepted: look for a better draft"
    )
    return rule.applies(f"{best.speedup.mid:.2f}x; {cause}.")


def memory(at: PlanSituation) -> GuidePoint:
    """Say what takes the memory where candidates did not fit."""
    rejected = next((r for r in at.plan.rejections if r.reason == "memory"), None)
    if rejected is None:
        return points.MEMORY.aside("Every candidate fits.")
    figure = at.best.memory
    share = figure.draft_weight_bytes / figure.usable_bytes if figure.usable_bytes else 0.0
    return points.MEMORY.applies(
        f"{rejected.count:,} of the candidates did not fit. A lower draft tensor parallelism "
        "would put more on one GPU, and vLLM refuses or ignores it. In the recommended plan the "
        f"draft's weights take {share * 100:.1f} % of a GPU; what helps: {rejected.remedy}"
    )


def first_token(at: PlanSituation) -> GuidePoint:
    """Say what a slow first token is made of."""
    limit, ttft = at.plan.request.slo.ttft_ms, at.best.ttft_ms.mid
    rejected = any(r.reason == "ttft" for r in at.plan.rejections)
    if limit is None or not (rejected or ttft > _NEAR_LIMIT * limit):
        return points.FIRST_TOKEN.aside(f"{ttft:,.0f} ms planned.")
    return points.FIRST_TOKEN.applies(
        f"{ttft:,.0f} ms planned, limit {limit:,.0f} ms. The draft is loaded before the first "
        "request; the first token waits for prefill and queue. Add a replica, more tensor "
        "parallelism, or shorten prompts."
    )


def quality(at: PlanSituation) -> GuidePoint:
    """Say how to tell whether speculation changed the text: a plan holds none."""
    if not at.speculates:
        return points.QUALITY.aside(_PLAIN)
    return points.QUALITY.aside(
        "Exact verification keeps the text; engines have broken it in silence, also with that "
        "flag on (vllm-project/vllm issue 8071). Compare texts with and without speculation at "
        "temperature 0 before launch."
    )


PLAN_RULES: tuple[PlanRule, ...] = (
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
"""Ten points of the checklist, then four rows of the troubleshooting table, in its order."""
