"""The answer in one sentence, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.economics.bill import MONTH_HOURS
from capplan.economics.decimals import dollars
from capplan.planning.feasibility import nearest_miss
from capplan.planning.money import money_assumptions
from capplan.planning.most_tokens import against_plain, asks_for_most_tokens, bought
from capplan.planning.planner import Outcome
from capplan.planning.settling import (
    hangs_on,
    how_to_settle,
    settled_by,
    speedup_text,
    undecided,
)
from capplan.schema.engine import EngineConstants
from capplan.schema.pairing import Method
from capplan.schema.plan import Assumption, PlanOption, PlanRequest, PlanVerdict
from capplan.schema.price import Purchase
from capplan.schema.provenance import Kind


def verdict(outcome: Outcome, request: PlanRequest) -> PlanVerdict:
    """Say what to do, or what it would take."""
    if not outcome.options:
        return PlanVerdict(
            feasible=False,
            sentence=(
                f"No feasible plan for {', '.join(request.targets)} within "
                f"{dollars(request.budget_usd_per_month)} USD a month."
            ),
            needed=_needed(outcome, request),
        )
    best = outcome.options[0]
    open_ = undecided(best)
    return PlanVerdict(
        feasible=True,
        sentence=_answer(outcome, request),
        decided=not open_,
        settled_by=settled_by(best) if open_ else "",
    )


def _needed(outcome: Outcome, request: PlanRequest) -> str:
    cheapest = outcome.cheapest_over_budget_usd
    if cheapest is not None:
        what = "plan that serves this load"
        if asks_for_most_tokens(request):
            what = "node on which it runs"
        return (
            f"The cheapest {what} costs {dollars(cheapest)} USD a month: "
            f"{dollars(cheapest - request.budget_usd_per_month)} more than the budget."
        )
    if outcome.rejections and (outcome.offers or outcome.candidates):
        nearest = nearest_miss(outcome.rejections)
        return f"Nearest to a plan: {nearest.example}. {nearest.remedy}"
    return "No offer matches the filters; loosen --gpu, --provider, --purchase or --tier."


def _short(model_id: str) -> str:
    """Return an id without its organisation or folder; the full one stands in the option."""
    return model_id.rstrip("/").rsplit("/", 1)[-1]


_SAME_USD = 0.005
"""Relative: below this a token costs the same."""
_LOOKUP_NAMES = {
    Method.NGRAM: "prompt lookup (n-gram)",
    Method.SUFFIX: "suffix decoding",
}
_BLOCKS_A_DRAFT = frozenset(
    {"vocabulary", "vocabulary_padded", "acceptance_unknown", "draft_unknown"}
)


def _answer(outcome: Outcome, request: PlanRequest) -> str:
    """Return the sentence, and why a draft that was asked for by name is not in it."""
    best = outcome.options[0]
    most = asks_for_most_tokens(request)
    sentence = bought(best, request) if most else ""
    sentence += _sentence(best, outcome.baseline, most=most)
    if best.method is Method.NONE:
        sentence += _might_gain(outcome.options)
    if not request.drafts or best.method is not Method.NONE:
        return sentence
    blocked = [r.example for r in outcome.rejections if r.reason in _BLOCKS_A_DRAFT]
    return f"{sentence} The draft asked for: {blocked[0]}." if blocked else sentence


def _might_gain(options: Sequence[PlanOption]) -> str:
    """Say of the best draft that was ranked behind plain decoding whether that is certain."""
    drafted = next((option for option in options if undecided(option)), None)
    if drafted is None:
        return ""
    return (
        f" That {_drafting(drafted)} would not pay is not decided: {speedup_text(drafted)} at "
        f"{_load(drafted)}; it hangs on {hangs_on(drafted)}: "
        f"{how_to_settle(drafted)}."
    )


def _sentence(best: PlanOption, baseline: PlanOption | None, *, most: bool) -> str:
    where = (
        f"{best.replicas:,} replica{'s' if best.replicas > 1 else ''} of "
        f"{best.tensor_parallel} x {best.gpu_name}{' (CPU host)' if best.on_cpu else ''} at "
        f"{best.provider}{_bought(best)}"
    )
    if best.method is Method.NONE:
        gain = "more of them for the money" if most else "tokens cheaper at this load"
        return (
            f"Serve {_short(best.target)} without speculation on {where}: no draft with known "
            f"acceptance makes {gain}."
        )
    saving = ""
    if baseline is not None:
        saving = (against_plain(best, baseline) if most else "") or _saving(best, baseline)
    if undecided(best):
        return (
            f"Not decided: {speedup_text(best)} for {_short(best.target)} with {_drafting(best)}, "
            f"on {where} at {_load(best)}{saving}; it hangs on {hangs_on(best)}: "
            f"{how_to_settle(best)}."
        )
    return (
        f"Speculate for {_short(best.target)} with {_drafting(best)}, on {where}: "
        f"{speedup_text(best)} at {_load(best)}{saving}."
    )


def _saving(best: PlanOption, baseline: PlanOption) -> str:
    million = best.usd_per_million_output_tokens.mid
    change = 1 - million / baseline.usd_per_million_output_tokens.mid
    if change >= _SAME_USD:
        return f", {change * 100:.0f} % cheaper a token than the best plan without"
    faster = best.tpot_ms.mid < baseline.tpot_ms.mid and not undecided(best)
    return f", at the same cost a token as without{', and faster' if faster else ''}"


def _drafting(option: PlanOption) -> str:
    draft = _LOOKUP_NAMES.get(option.method) or _short(option.draft or "")
    return f"{draft}, N = {option.num_speculative_tokens}"


def _load(option: PlanOption) -> str:
    return f"{option.concurrency} concurrent request{'s' if option.concurrency > 1 else ''}"


def _bought(option: PlanOption) -> str:
    """Return how the capacity is bought where that is not on demand."""
    if option.purchase is Purchase.RESERVED:
        return f" (reserved for {option.term_months} months)"
    return " (spot)" if option.purchase is Purchase.SPOT else ""


def assumptions(
    outcome: Outcome, request: PlanRequest, engine: EngineConstants
) -> tuple[Assumption, ...]:
    """List what the plan rests on, each with its kind and source."""
    workload = request.workload
    listed = [
        Assumption(
            name="Hours a month",
            value=f"{float(request.hours_per_month):,.10g}",
            kind=Kind.ASSUMED,
            source=(
                "billing convention, 8,760 / 12"
                if request.hours_per_month == MONTH_HOURS
                else "stated with the request (--hours-per-month)"
            ),
        ),
        Assumption(
            name="Planned utilisation",
            value=f"{workload.utilisation * 100:g} % of each replica's largest throughput",
            kind=Kind.ASSUMED,
            source="stated with the request, else capplan's own default (--utilisation)",
        ),
        Assumption(
            name="Traffic",
            value=_traffic(request),
            kind=Kind.ASSUMED,
            source="stated with the request, else capplan's own defaults; lengths are means",
        ),
    ]
    listed.extend(money_assumptions(outcome.options, request))
    if outcome.options:
        listed.extend(_about(outcome.options[0], engine))
    return tuple(listed)


def _traffic(request: PlanRequest) -> str:
    workload = request.workload
    if workload.requests_per_s is not None:
        rate = f"{workload.requests_per_s:g} requests/s"
    elif workload.output_tokens_per_month is not None:
        rate = f"{workload.output_tokens_per_month:,.0f} output tokens a month"
    else:
        rate = "no rate given: whole nodes up to the budget, kept busy to the planned utilisation"
    return (
        f"{rate}; {workload.prompt_tokens:,} prompt and {workload.output_tokens:,} output tokens, "
        f"temperature {workload.temperature:g}"
    )


def _about(best: PlanOption, engine: EngineConstants) -> list[Assumption]:
    listed = [
        Assumption(
            name="Step time",
            value=f"tier {best.tier.value}",
            kind=Kind.MEASURED if best.tier.value == "profiled" else Kind.DERIVED,
            source=best.tier_note,
        ),
        Assumption(
            name="Price",
            value=f"{best.usd_per_gpu_hour:.2f} USD a {best.unit}-hour, {best.purchase.value}",
            kind=best.price_source.kind,
            source=str(best.price_source),
        ),
        Assumption(
            name="Memory",
            value=f"{engine.memory_utilisation * 100:g} % of the {best.unit} to the engine",
            kind=Kind.CITED,
            source=engine.sources.get("memory", engine.id),
        ),
    ]
    if best.acceptance is not None:
        tokens = best.acceptance.tokens_per_round
        listed.append(
            Assumption(
                name="Acceptance",
                value=(
                    f"{tokens.mid:.2f} ({tokens.low:.2f}-{tokens.high:.2f}) tokens a round; "
                    f"{best.acceptance.definition}"
                ),
                kind=best.acceptance.source.kind,
                source=str(best.acceptance.source),
            )
        )
    return listed
