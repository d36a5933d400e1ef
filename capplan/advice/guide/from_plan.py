"""A plan as the guide's rules see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capplan.advice.guide import points
from capplan.advice.guide.situation import Gain, Judged, Situation, Symptom
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Method
from capplan.schema.plan import Plan, PlanOption

_HEADS = (Method.EAGLE, Method.EAGLE3, Method.PEAGLE)
_LOOKUPS = (Method.NGRAM, Method.SUFFIX)
_NEAR_LIMIT = 0.8
_PLAIN = "The plan does not speculate."


def plan_situation(
    plan: Plan, llms: Mapping[str, LlmSpec], acceptance: Sequence[AcceptanceFact]
) -> Situation:
    """Return what the rules look at of the recommended option."""
    best = plan.options[0]
    target, draft = llms.get(best.target), llms.get(best.draft or "")
    families = None
    if best.method is Method.DRAFT_MODEL and target is not None and draft is not None:
        families = (target.family, draft.family)
    by_task = _by_task(best, acceptance)
    rate, acceptance_says = _acceptance(best)
    lengths, lengths_say = _lengths(plan)
    return Situation(
        pairing=_pairing(best, target, draft),
        families=families,
        best_lengths=lengths,
        lengths_say=lengths_say,
        gains=_gains(plan),
        flag_on="use-v2-block-manager" in best.launch,
        flag_says=points.NO_FLAG,
        acceptance_rate=rate,
        acceptance_says=acceptance_says,
        code=_code(plan, by_task),
        maths=_maths(plan, by_task),
        eagle=_eagle(plan),
        target_params=None if target is None else target.params_total,
        slow=_slow(best),
        memory=_memory(plan),
        first_token=_first_token(plan),
        quality=Symptom(False, _quality(best)),
    )


def speculates(best: PlanOption) -> bool:
    """Return whether an option drafts at all."""
    return best.method is not Method.NONE


def _tokens_text(best: PlanOption) -> str:
    if best.acceptance is None or best.round_ratio is None:
        return "acceptance is not known"
    tokens, ratio = best.acceptance.tokens_per_round.mid, best.round_ratio.mid
    return f"{tokens:.2f} tokens a round against a round of {ratio:.2f} steps"


def _pairing(best: PlanOption, target: LlmSpec | None, draft: LlmSpec | None) -> str:
    if not speculates(best):
        return _PLAIN
    if best.method is not Method.DRAFT_MODEL:
        return f"{best.method.value} drafts without a second LLM."
    if target is None or draft is None:
        return f"The family of {best.draft} is not on record; {_tokens_text(best)}."
    return (
        f"{draft.family} drafts for {target.family}, vocabularies of {target.vocab_size:,} and "
        f"{draft.vocab_size:,} tokens. What counts: {_tokens_text(best)}."
    )


def _lengths(plan: Plan) -> tuple[frozenset[int], str]:
    """Return the fastest length next to the planned load, and how it moves with load."""
    best = plan.options[0]
    if not speculates(best):
        return (frozenset({0}) if _best_drafted(plan) else frozenset()), _plain_text(plan)
    curve = best.load_curve
    if not curve:
        return frozenset(), "The plan has no load curve."
    point = min(curve, key=lambda other: abs(other.concurrency - best.concurrency))
    length = point.best_num_speculative_tokens
    every = [other.best_num_speculative_tokens for other in curve]
    here = f"N = {length} ({point.best_speedup:.2f}x)" if length else "no draft"
    spread = f"{max(every)} to {min(every)}" if len(set(every)) > 1 else f"always {length}"
    return frozenset({length}), (
        f"At {_at_once(point.concurrency)} the fastest for this pairing is {here}; from "
        f"{curve[0].concurrency:,} to {curve[-1].concurrency:,} requests it is {spread}."
    )


def _at_once(requests: int) -> str:
    return "one request" if requests == 1 else f"{requests:,} requests at once"


def _best_drafted(plan: Plan) -> PlanOption | None:
    """Return the first option with a draft for the recommended target."""
    target = plan.options[0].target
    return next((o for o in plan.options if o.target == target and speculates(o)), None)


def _plain_text(plan: Plan) -> str:
    """Say what the best option with a draft would give where none is recommended."""
    other = _best_drafted(plan)
    if other is None:
        return "No option with a draft is within the limits."
    return (
        f"Plain decoding ranks first; the best option with a draft gives {other.speedup.mid:.2f}x "
        f"(N = {other.num_speculative_tokens}, {_at_once(other.concurrency)})."
    )


def _gains(plan: Plan) -> tuple[Gain, ...]:
    best, temperature = plan.options[0], plan.request.workload.temperature
    if not speculates(best):
        says = f"At temperature {temperature:g}: {_plain_text(plan)}"
        return (Gain(temperature, False, says),) if _best_drafted(plan) else ()
    speedup = best.speedup
    says = (
        f"At temperature {temperature:g}: {_tokens_text(best)}, {speedup.mid:.2f}x "
        f"({speedup.low:.2f}-{speedup.high:.2f})."
    )
    return (Gain(temperature, True, says),)


def _acceptance(best: PlanOption) -> tuple[float | None, str]:
    """Put the acceptance at which a round pays at this load in place of the guide's."""
    if best.acceptance is None or best.round_ratio is None or not best.num_speculative_tokens:
        return None, _PLAIN
    length, ratio = best.num_speculative_tokens, best.round_ratio.mid
    rate = best.acceptance.acceptance_rate.mid
    accepted = "of the drafts are accepted"
    if best.method in _LOOKUPS:
        accepted = "of N is accepted a round, those without a match counted,"
    return rate, (
        f"{rate * 100:.0f} % {accepted} at N = {length}. At "
        f"{_at_once(best.concurrency)} a round costs {ratio:.2f} plain steps: it breaks even at "
        f"{max(ratio - 1, 0) / length * 100:.0f} %."
    )


def _code(plan: Plan, by_task: str) -> Judged:
    if points.is_about(plan.request.workload.task, points.CODE_OR_TRANSLATION):
        return Judged(speculates(plan.options[0]), by_task)
    return Judged(None, by_task)


def _maths(plan: Plan, by_task: str) -> Judged:
    task = plan.request.workload.task
    if points.is_about(task, points.MATHS):
        return Judged(not speculates(plan.options[0]), by_task)
    return Judged(None, f"The planned task is {task}." if task else "No task is planned for.")


def _by_task(best: PlanOption, acceptance: Sequence[AcceptanceFact]) -> str:
    """Return published acceptance of the pairing by task, at the length nearest to the plan's."""
    of_pair = [f for f in acceptance if (f.target, f.draft) == (best.target, best.draft)]
    if not of_pair:
        return points.EVIDENCE_ON_TASKS
    wanted = best.num_speculative_tokens
    length = min(
        (fact.num_speculative_tokens for fact in of_pair), key=lambda n: (abs(n - wanted), n)
    )
    facts = [fact for fact in of_pair if fact.num_speculative_tokens == length]
    ranked = sorted(facts, key=lambda fact: -fact.tokens_per_round)
    told = ", ".join(f"{fact.task} {fact.tokens_per_round:.2f}" for fact in ranked[:7])
    return f"Published for this pairing at N = {length}, tokens a round: {told}."


def _eagle(plan: Plan) -> Judged:
    """Compare heads with draft models among the options on this very GPU."""
    best = plan.options[0]
    if not speculates(best):
        return Judged(None, _PLAIN)
    head, draft = _fastest(plan, _HEADS), _fastest(plan, (Method.DRAFT_MODEL,))
    if head is None:
        return Judged(None, "No EAGLE head for this target is within the limits on this GPU.")
    says = f"On this GPU the best head gives {head.speedup.mid:.2f}x"
    if draft is None:
        return Judged(best.method in _HEADS, f"{says}; no draft model is within the limits.")
    gain = head.speedup.mid / draft.speedup.mid - 1
    says += f", the best draft model {draft.speedup.mid:.2f}x: {gain * 100:+.0f} %."
    return Judged(best.method in _HEADS, says)


def _fastest(plan: Plan, methods: Sequence[Method]) -> PlanOption | None:
    best = plan.options[0]
    alike = (best.target, best.gpu, best.tensor_parallel)
    options = [
        option
        for option in plan.options
        if option.method in methods
        and (option.target, option.gpu, option.tensor_parallel) == alike
    ]
    return max(options, key=lambda option: option.speedup.mid, default=None)


def _slow(best: PlanOption) -> Symptom:
    if best.acceptance is None or best.round_ratio is None or not speculates(best):
        return Symptom(False, _PLAIN)
    speedup = f"{best.speedup.mid:.2f}x planned"
    if best.speedup.mid >= points.LOW_SPEEDUP:
        return Symptom(False, f"{speedup}.")
    tokens, ratio = best.acceptance.tokens_per_round.mid, best.round_ratio.mid
    cause = points.limiting(tokens, ratio, best.num_speculative_tokens)
    return Symptom(True, f"{speedup}; {cause}.")


def _memory(plan: Plan) -> Symptom:
    rejected = next((r for r in plan.rejections if r.reason == "memory"), None)
    if rejected is None:
        return Symptom(False, "Every candidate fits.")
    says = f"{rejected.count:,} candidates did not fit. {points.NO_LEVER}"
    figure = plan.options[0].memory
    if figure.draft_weight_bytes and figure.usable_bytes:
        share = figure.draft_weight_bytes / figure.usable_bytes
        says += f" Here the draft's weights take {share * 100:.1f} % of a GPU."
    return Symptom(True, f"{says} What helps: {rejected.remedy}")


def _first_token(plan: Plan) -> Symptom:
    limit, ttft = plan.request.slo.ttft_ms, plan.options[0].ttft_ms.mid
    rejected = any(r.reason == "ttft" for r in plan.rejections)
    if limit is None or not (rejected or ttft > _NEAR_LIMIT * limit):
        return Symptom(False, f"{ttft:,.0f} ms planned.")
    return Symptom(
        True,
        f"{ttft:,.0f} ms planned, limit {limit:,.0f} ms. The draft is loaded before the first "
        "request: what waits is prefill and queue. Add a replica, more tensor parallelism, or "
        "shorten prompts.",
    )


def _quality(best: PlanOption) -> str:
    if not speculates(best):
        return _PLAIN
    return (
        "Exact verification keeps the text; engines have broken it in silence, also with that "
        "flag on (vllm-project/vllm issue 8071). Compare texts with and without speculation at "
        "temperature 0 before launch."
    )
