"""Rules that turn a plan's numbers into a sentence and a remedy.

A rule sees the recommended option and says at most one thing: the number, what it means, what
to do. Rules read nothing but the plan and the context handed in, so that a test needs no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import date

from capplan.estimate.cuda_graphs import (
    UNCAPTURED_OVER_EDGE,
    captured_tokens,
    largest_captured_batch,
)
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption, Tier
from capplan.schema.price import STALE_AFTER_DAYS, Purchase, age_days
from capplan.schema.provenance import Kind

_HIGH_UTILISATION = 0.85
_IDLE_SHARE = 0.1
_LOOKUPS = (Method.NONE, Method.NGRAM, Method.SUFFIX)


@dataclass(frozen=True)
class Context:
    """What a rule may look at."""

    plan: Plan
    best: PlanOption
    as_of: date | None = None
    moe_targets: Collection[str] = field(default=frozenset())

    @property
    def speculates(self) -> bool:
        """Whether the recommended option drafts at all."""
        return self.best.method is not Method.NONE


Rule = Callable[[Context], str | None]


def advise(
    plan: Plan, *, as_of: date | None = None, moe_targets: Collection[str] = frozenset()
) -> tuple[str, ...]:
    """Return what the reader should mind before acting on the plan, most important first.

    Parameters
    ----------
    plan
        The plan; without a feasible option there is nothing to advise on.
    as_of
        Today, for the age of prices; None skips that rule.
    moe_targets
        Ids of targets that route tokens to experts.
    """
    if not plan.verdict.feasible or not plan.options:
        return ()
    context = Context(plan, plan.options[0], as_of, moe_targets)
    said = (rule(context) for rule in RULES)
    return tuple(sentence for sentence in said if sentence)


def speedup_straddles_one(context: Context) -> str | None:
    """Warn where the interval of the speedup holds 1: speculation may lose."""
    speedup = context.best.speedup
    if not context.speculates or not speedup.low < 1 < speedup.high:
        return None
    profiled = context.best.tier is Tier.PROFILED
    narrow = "Profile longer, on an idle machine," if profiled else "Profile this pairing"
    return (
        f"The speedup's interval, {speedup.low:.2f}x to {speedup.high:.2f}x, holds 1: speculation "
        f"may cost more than it gains. {narrow} before you rely on it."
    )


def acceptance_not_measured(context: Context) -> str | None:
    """Warn of acceptance that is assumed, claimed or published, not measured."""
    figure = context.best.acceptance
    if figure is None or figure.source.kind is Kind.MEASURED:
        return None
    origin = "assumed" if figure.source.kind is Kind.ASSUMED else "from elsewhere"
    return (
        f"The {figure.tokens_per_round.mid:.2f} tokens a round are {origin} "
        f"({figure.source}), not measured on your prompts; tasks differ widely. "
        f"{_how_to_measure(context.best)}"
    )


def _how_to_measure(best: PlanOption) -> str:
    """Return how acceptance of this method is measured: by the trace, or by the engine."""
    if best.method is Method.DRAFT_MODEL:
        return f"Run capplan profile {best.target} --draft {best.draft} --prompts FILE."
    if best.method is Method.NGRAM:
        return f"Run capplan profile {best.target} --method ngram --prompts FILE."
    return (
        "Run the launch text on some of your traffic and read the engine's counters: "
        "vllm:spec_decode_num_accepted_tokens_total over vllm:spec_decode_num_drafts_total, "
        "plus 1."
    )


def step_time_modelled(context: Context) -> str | None:
    """Warn of a step time that rests on data sheets alone."""
    best = context.best
    if best.tier is not Tier.DATASHEET:
        return None
    return (
        f"TPOT of {best.tpot_ms.mid:.3g} ms is modelled from data sheets ({best.tier_note}). "
        f"A few minutes of capplan profile on one {best.gpu_name} narrow it."
    )


def greedy_drafts_when_sampling(context: Context) -> str | None:
    """Warn of greedy drafts, the engine's default, at temperature > 0."""
    temperature = context.plan.request.workload.temperature
    if temperature == 0 or context.best.method in _LOOKUPS:
        return None
    return (
        f"At temperature {temperature:g} vLLM's greedy drafts, its default, may be accepted far "
        "less often than sampled ones (10 % against 49 % in vLLM pull request 41044). Compare "
        'with "draft_sample_method": "probabilistic", and profile at your temperature.'
    )


def moe_verification(context: Context) -> str | None:
    """Warn of verification that touches more experts than decoding."""
    best = context.best
    if not context.speculates or best.target not in context.moe_targets:
        return None
    return (
        f"Verifying {best.num_speculative_tokens + 1} tokens reads more experts of "
        f"{best.target} than decoding one: its cost rises with N even at batch 1. "
        "Measure N = 1 and 2 before a longer length."
    )


def drafts_without_graphs(context: Context) -> str | None:
    """Warn of a draft model that runs without CUDA graphs; a CPU has none to lose."""
    if context.best.on_cpu:
        return None
    if context.best.method is not Method.DRAFT_MODEL or context.plan.request.engine != "vllm":
        return None
    return (
        f"vLLM 0.33 runs the {context.best.num_speculative_tokens} draft passes of a round "
        "without CUDA graphs on its default model runner, so that each is bound by launches. "
        "Compare VLLM_USE_V2_MODEL_RUNNER=0, or an EAGLE-3 head for this target."
    )


def beyond_captured_graphs(context: Context) -> str | None:
    """Warn of a planned batch beyond what CUDA graphs cover."""
    best = context.best
    n = best.num_speculative_tokens
    tokens, captured = best.concurrency * (n + 1), captured_tokens(best.max_concurrency, n)
    if tokens <= captured:
        return None
    slower = UNCAPTURED_OVER_EDGE
    return (
        f"{best.concurrency:,} requests verify {tokens:,} tokens a step, beyond the {captured} "
        f"that vLLM captures by default ({largest_captured_batch(captured, n)} requests at this "
        f"length): a step then took {slower.mid:g} times ({slower.low:g} to {slower.high:g}) one "
        "at that edge where it was measured. Keep --max-cudagraph-capture-size of the launch "
        "text, or add a replica."
    )


def stale_price(context: Context) -> str | None:
    """Warn of prices that were read long ago or nobody knows when, the best option's first."""
    best, today = context.best, context.as_of
    if today is None:
        return None
    said = []
    days = age_days(best.price_source, today)
    price = f"The price, {best.usd_per_gpu_hour:.2f} USD a {best.unit}-hour at {best.provider},"
    if days is not None and days > STALE_AFTER_DAYS:
        said.append(f"{price} was read {days} days ago.")
    elif days is None and best.price_source.kind is not Kind.ASSUMED:
        said.append(f"{price} is undated.")
    elif days is not None and days < -1:  # a day of grace: clocks of other time zones
        said.append(f"{price} bears a day that is still to come.")
    ages = [age_days(option.price_source, today) for option in context.plan.options[1:]]
    old = sum(age is not None and age > STALE_AFTER_DAYS for age in ages)
    if old:
        said.append(
            f"Of the other options, {old} of {len(ages)} rest{'s' * (old == 1)} on prices older "
            f"than {STALE_AFTER_DAYS} days."
        )
    if not said:
        return None
    return f"{' '.join(said)} Ask for today's and pass them with --gpu-price or --price-file."


def spot_capacity(context: Context) -> str | None:
    """Warn of spot capacity."""
    best = context.best
    if best.purchase is not Purchase.SPOT:
        return None
    unit = best.unit if best.gpus_rented == 1 else best.units
    gpus = f"{best.gpus_rented} spot {unit}"
    return (
        f"{gpus} at {best.usd_per_gpu_hour:.2f} USD an hour may be taken "
        "back at any time. Keep an on-demand replica, or plan with on-demand prices."
    )


def unlike_price_tier(context: Context) -> str | None:
    """Warn of offers that are no list price."""
    best = context.best
    if best.price_tier not in ("community", "marketplace"):
        return None
    return (
        f"{best.usd_per_gpu_hour:.2f} USD a {best.unit}-hour is a {best.price_tier} offer: hosts "
        "differ and there is no service level. Compare the best list-price option before you "
        "commit."
    )


def little_headroom(context: Context) -> str | None:
    """Warn of a mean utilisation that leaves no room for peaks."""
    best = context.best
    if best.utilisation <= _HIGH_UTILISATION:
        return None
    return (
        f"Mean utilisation is {best.utilisation * 100:.0f} %: a peak above it queues. "
        "Add a replica, or plan with a lower --utilisation."
    )


def idle_gpus(context: Context) -> str | None:
    """Warn of a bill for GPUs that no replica uses."""
    best = context.best
    share = best.usd_per_month_idle / best.usd_per_month.mid if best.usd_per_month.mid else 0.0
    if share <= _IDLE_SHARE:
        return None
    return (
        f"{best.usd_per_month_idle:,.0f} USD a month ({share * 100:.0f} %) pay for {best.units} "
        "that no replica uses, because whole nodes are rented. Put other work there, or take a "
        "smaller node."
    )


RULES: tuple[Rule, ...] = (
    speedup_straddles_one,
    acceptance_not_measured,
    step_time_modelled,
    greedy_drafts_when_sampling,
    moe_verification,
    drafts_without_graphs,
    beyond_captured_graphs,
    stale_price,
    spot_capacity,
    unlike_price_tier,
    little_headroom,
    idle_gpus,
)
"""Most important first."""
