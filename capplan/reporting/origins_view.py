"""Where every number of the page comes from: its formula, what goes in, and who says so.

A figure links to its origin here, an origin to those of its inputs; what has no inputs names its
source. So whatever is doubted is two clicks away from a measurement, a price list or a wish.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from capplan.reporting import formatting as fmt, labels
from capplan.reporting.money_view import MoneyView, hours_text
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption, Tier
from capplan.schema.provenance import Kind

_DERIVED = Kind.DERIVED


@dataclass(frozen=True)
class Origin:
    """Where one figure comes from."""

    name: str
    title: str
    value: str
    kind: str
    kind_label: str
    how: str
    """The formula with its values, or the source."""
    inputs: tuple[str, ...]
    """Names of other origins; none for what has a source."""
    page: str
    """The page of the documentation that explains it."""


def build_origins(plan: Plan, option: PlanOption, money: MoneyView | None) -> tuple[Origin, ...]:
    """Return the origin of every figure of one option, derived ones first."""
    found = (
        *_of_money(plan, option, money),
        *_of_time(option),
        *_of_speculation(plan, option),
        *_of_memory(option),
        *_of_the_search(plan),
        *_sources(plan, option),
    )
    known = {origin.name for origin in found}
    # plain decoding, say, has no acceptance to go on to
    return tuple(
        replace(origin, inputs=tuple(name for name in origin.inputs if name in known))
        for origin in found
    )


def _derived(
    name: str, title: str, value: str, how: str, inputs: tuple[str, ...], page: str
) -> Origin:
    kind = labels.KINDS[_DERIVED]
    return Origin(name, title, value, _DERIVED.value, kind, how, inputs, f"docs/method/{page}.md")


def _of_money(plan: Plan, option: PlanOption, money: MoneyView | None) -> Iterator[Origin]:
    bill = money.rate if money else f"{fmt.count(option.gpus_rented)} {option.units} rented"
    rate = fmt.tokens_per_s(option.planned_output_tokens_per_s)
    month = fmt.usd_interval(option.usd_per_month)
    million = fmt.usd_interval(option.usd_per_million_output_tokens)
    yield _derived(
        "month", "A month", month, f"whole nodes: {bill}", ("price", "replicas", "hours"),
        "economics",
    )  # fmt: skip
    yield _derived(
        "million", "A million output tokens", million,
        f"the month's bill over the output tokens of the month ({rate} in the hours served)",
        ("month", "load", "hours"), "economics",
    )  # fmt: skip
    yield _derived(
        "tokens", "Other prices of a token and a request",
        fmt.usd_interval(option.usd_per_million_total_tokens),
        "the same bill over prompt and output tokens together, or over the requests",
        ("month", "load"), "economics",
    )  # fmt: skip
    yield _derived(
        "utilisation", "Utilisation", fmt.fine_percent(option.utilisation, 2),
        "planned output tokens over the largest throughput of all replicas",
        ("load", "throughput", "wishes"), "economics",
    )  # fmt: skip
    yield _derived(
        "replicas", "Replicas", labels.hardware(option), _how_many(plan),
        ("load", "throughput", "wishes"), "economics",
    )  # fmt: skip


def _has_load(plan: Plan) -> bool:
    load = plan.request.workload
    return load.requests_per_s is not None or load.output_tokens_per_month is not None


def _how_many(plan: Plan) -> str:
    if not _has_load(plan):
        return "no load was given: as many whole nodes as the budget rents"
    return (
        "the load (at its peak) over what a replica makes at the planned utilisation, rounded up"
    )


def _of_time(option: PlanOption) -> Iterator[Origin]:
    speculates = option.method is not Method.NONE
    times = "step time x round ratio / tokens a round" if speculates else "step time"
    inputs = ("step-time", "acceptance", "load") if speculates else ("step-time", "load")
    yield _derived(
        "tpot", "Time per output token", fmt.milliseconds_interval(option.tpot_ms),
        f"{times}, and the prompts of others, at the requests at once", (*inputs, "concurrency"),
        "serving",
    )  # fmt: skip
    yield _derived(
        "ttft", "Time to first token", fmt.milliseconds_interval(option.ttft_ms),
        "the prompt's own passes and the wait behind others, at the requests at once",
        ("step-time", "load", "concurrency"), "serving",
    )  # fmt: skip
    yield _derived(
        "throughput", "Throughput", fmt.tokens_per_s_interval(option.output_tokens_per_s),
        f"requests at once over the time per output token, at {option.max_concurrency:,} at once, "
        "the most that memory and limits allow, of all replicas",
        (*inputs, "memory", "wishes"), "serving",
    )  # fmt: skip
    yield _derived(
        "concurrency", "Requests at once a replica", fmt.count(option.concurrency),
        "where the throughput of a replica meets its part of the load (Little's law)",
        ("load", "throughput", "replicas"), "serving",
    )  # fmt: skip


def _of_speculation(plan: Plan, option: PlanOption) -> Iterator[Origin]:
    if option.method is not Method.NONE:
        ratio = option.round_ratio
        rounds = f" (a round is {ratio.mid:.2f} plain steps)" if ratio is not None else ""
        yield _derived(
            "speedup", "Speedup", fmt.factor_interval(option.speedup),
            f"tokens a round over the round ratio{rounds}, against plain decoding on the same "
            f"{option.units} at the same load; best N: the length with the largest speedup there",
            ("acceptance", "step-time", "concurrency"), "speculation",
        )  # fmt: skip
        yield _derived(
            "guide", "The guide's formula", fmt.factor(option.guide_speedup),
            "acceptance rate x N / (1 + N x cost ratio); shown for comparison, never used",
            ("acceptance", "step-time"), "speculation",
        )  # fmt: skip
    if plan.schedules:
        yield _derived(
            "schedule", "Lengths by batch", "",
            "the length of least time per token at each batch and context, neighbours merged; "
            "the tax of an idle draft counted",
            ("acceptance", "step-time", "load"), "adaptive",
        )  # fmt: skip


def _of_memory(option: PlanOption) -> Iterator[Origin]:
    yield _derived(
        "memory", f"Memory of one {option.unit}",
        f"{fmt.number(option.memory.kv_tokens)} tokens of KV",
        f"what the engine may use, less weights of target and draft, less activations, CUDA "
        f"graphs and what lies outside torch; a token of KV takes "
        f"{option.memory.kv_bytes_per_token:,.0f} bytes",
        ("facts", "load"), "memory",
    )  # fmt: skip


def _of_the_search(plan: Plan) -> Iterator[Origin]:
    yield _derived(
        "options", "Every option", f"{len(plan.options):,} of {plan.candidates:,} candidates",
        "every pairing, N, hardware, size and offer, evaluated and priced as the first one is; "
        "on the front is what no other beats in both cost and time per output token",
        ("price", "step-time", "acceptance", "load", "wishes"), "search",
    )  # fmt: skip
    yield _derived(
        "sensitivity", "What the bill hangs on", "",
        "the search made anew with one assumption moved, all others kept",
        ("options",), "search",
    )  # fmt: skip
    if plan.api_comparisons:
        yield _derived(
            "api", "An API's price", "",
            "the API's list prices times the planned tokens of a month, beside the month's bill; "
            "each list price is named with its source in its row",
            ("month", "load"), "economics",
        )  # fmt: skip


def _sources(plan: Plan, option: PlanOption) -> Iterator[Origin]:
    request, price = plan.request, option.price_source
    hours = hours_text(option.bill) if option.bill else f"{float(request.hours_per_month):,.10g}"
    yield _source(
        "price", "Price",
        f"{fmt.usd(option.usd_per_gpu_hour)} {labels.price_unit(option)}, {labels.offer(option)}",
        price.kind, price.reference + (f", {price.date}" if price.date else ", undated"),
        "economics",
    )  # fmt: skip
    if option.acceptance is not None:
        figure = option.acceptance
        said, dated = figure.source, f", {figure.source.date}" if figure.source.date else ""
        yield _source(
            "acceptance", "Acceptance",
            f"{fmt.number_interval(figure.tokens_per_round)} tokens a round",
            said.kind, f"{said.reference}{dated}: {figure.definition}", "acceptance",
        )  # fmt: skip
    yield _source(
        "step-time", "Step time", labels.TIERS[option.tier],
        Kind.MEASURED if option.tier is Tier.PROFILED else Kind.DERIVED,
        f"{option.tier_note}{_profiles(plan)}", "steptime",
    )  # fmt: skip
    yield _source("load", "Load", _traffic(plan), Kind.ASSUMED, "stated with the request", "")
    yield _source(
        "wishes", "Budget, limits, planned utilisation", _wishes(plan), Kind.ASSUMED,
        "stated with the request, else capplan's defaults", "",
    )  # fmt: skip
    yield _source(
        "hours", "Hours a month", hours, Kind.ASSUMED,
        "8,760 hours of a year over 12, or as stated with the request", "economics",
    )  # fmt: skip
    yield _source(
        "facts", f"{option.unit} and LLM", f"{option.gpu_name}; {option.target}", Kind.CITED,
        "data sheet and the checkpoint's own configuration: capplan facts show names each row's "
        "source", "configs",
    )  # fmt: skip
    yield _source(
        "method", "Text and method", "lossless where the engine is right", Kind.CITED,
        "speculative sampling keeps the target's distribution; engines are checked, since some "
        "builds do not", "profiling",
    )  # fmt: skip


def _source(name: str, title: str, value: str, kind: Kind, how: str, page: str) -> Origin:
    told = f"docs/method/{page}.md" if page else ""
    return Origin(name, title, value, kind.value, labels.KINDS[kind], how, (), told)


def _profiles(plan: Plan) -> str:
    return f"; profiles: {', '.join(plan.profiles)}" if plan.profiles else ""


def _traffic(plan: Plan) -> str:
    load = plan.request.workload
    if load.requests_per_s is not None:
        rate = f"{load.requests_per_s:g} requests/s"
    elif load.output_tokens_per_month is not None:
        rate = f"{fmt.number(load.output_tokens_per_month)} output tokens a month"
    else:
        rate = "none given"
    return (
        f"{rate}; {load.prompt_tokens:,} prompt and {load.output_tokens:,} output tokens, "
        f"temperature {load.temperature:g}"
    )


def _wishes(plan: Plan) -> str:
    request = plan.request
    limits = [
        f"{name} {fmt.milliseconds(limit)}"
        for name, limit in (("TPOT", request.slo.tpot_ms), ("TTFT", request.slo.ttft_ms))
        if limit is not None
    ]
    kept = ", ".join(limits) or "no limit"
    return (
        f"{fmt.usd_unit(request.budget_usd_per_month)} a month; {kept}; "
        f"{fmt.percent(request.workload.utilisation)} of a replica's largest throughput"
    )
