"""One option of a plan in words, the same for terminal and page."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.reporting import formatting as fmt, labels
from capplan.reporting.memory_view import Pair, memory_rows
from capplan.schema.pairing import Method
from capplan.schema.plan import AcceptanceFigure, LoadPoint, PlanOption
from capplan.schema.price import Purchase
from capplan.schema.workload import Slo


@dataclass(frozen=True)
class Headline:
    """A big number: its middle, its interval, and what it means."""

    label: str
    value: str
    unit: str
    interval: str
    note: str = ""
    origin: str = ""
    """Where on the page it is told how it came about."""


@dataclass(frozen=True)
class LoadRow:
    """One number of concurrent requests, as a row."""

    concurrency: str
    best_length: str
    best_speedup: str
    speedup: str
    guide_speedup: str
    tpot: str
    baseline_tpot: str
    throughput: str
    usd_per_million: str
    below_one: bool
    planned: bool


@dataclass(frozen=True)
class OptionView:
    """Every figure of one option as text."""

    rank: int
    option_id: str
    title: str
    pair: str
    target: str
    draft: str
    method: str
    speculates: bool
    length: str
    hardware: str
    gpus: str
    gpus_rented: str
    provider: str
    offer: str
    plain_offer: bool
    """Whether it is on demand at a list price: nothing to mind about how it is bought."""
    gpu_hour: str
    unit: str
    """What is rented by the hour: ``GPU`` or ``CPU host``."""
    units: str
    """The same of several."""
    price_date: str
    price_source: str
    place: str
    replicas_rented: str
    """Replicas, and what is rented for them."""
    usd_per_month: str
    usd_per_month_short: str
    usd_per_million: str
    usd_per_million_short: str
    usd_per_million_total: str
    usd_per_thousand_requests: str
    idle: str
    utilisation: str
    utilisation_at_peak: str
    tpot: str
    tpot_limit: str
    ttft: str
    ttft_limit: str
    speedup: str
    guide_speedup: str
    throughput: str
    planned_throughput: str
    concurrency: str
    max_concurrency: str
    tokens_per_round: str
    acceptance_rate: str
    acceptance_definition: str
    acceptance_source: str
    cost_ratio: str
    round_ratio: str
    tier: str
    tier_note: str
    memory: tuple[Pair, ...]
    on_pareto_front: bool
    warnings: tuple[str, ...]
    launch: str
    load_rows: tuple[LoadRow, ...]


def build_option(option: PlanOption, slo: Slo, rank: int) -> OptionView:
    """Return the words for one option."""
    acceptance = _acceptance_fields(option.acceptance)
    return OptionView(
        rank=rank,
        option_id=option.id,
        title=labels.option_title(option),
        pair=labels.option_pair(option),
        target=option.target,
        draft=option.draft or "",
        method=labels.METHODS[option.method],
        speculates=option.method is not Method.NONE,
        length=length_text(option.num_speculative_tokens),
        hardware=labels.hardware(option),
        gpus=_gpus(option),
        provider=option.provider,
        gpus_rented=fmt.count(option.gpus_rented),
        offer=labels.offer(option),
        plain_offer=(
            option.purchase is Purchase.ON_DEMAND and option.price_tier in labels.LIST_TIERS
        ),
        gpu_hour=f"{fmt.usd(option.usd_per_gpu_hour)} {labels.price_unit(option)}",
        unit=option.unit,
        units=option.units,
        price_date=option.price_source.date or "undated",
        price_source=str(option.price_source),
        place=", ".join(part for part in (option.instance, option.region) if part),
        replicas_rented=f"{option.replicas:,} ({option.gpus_rented:,} rented)",
        usd_per_month=fmt.usd_interval(option.usd_per_month),
        usd_per_month_short=fmt.usd_unit(option.usd_per_month.mid),
        usd_per_million=fmt.usd_interval(option.usd_per_million_output_tokens),
        usd_per_million_short=fmt.usd_unit(option.usd_per_million_output_tokens.mid),
        usd_per_million_total=fmt.usd_interval(option.usd_per_million_total_tokens),
        usd_per_thousand_requests=fmt.usd_interval(option.usd_per_thousand_requests),
        idle=fmt.usd_unit(option.usd_per_month_idle),
        utilisation=fmt.fine_percent(option.utilisation, 2),
        utilisation_at_peak=fmt.percent(_at_peak(option)),
        tpot=fmt.milliseconds_interval(option.tpot_ms),
        tpot_limit=limit_text(slo.tpot_ms),
        ttft=fmt.milliseconds_interval(option.ttft_ms),
        ttft_limit=limit_text(slo.ttft_ms),
        speedup=fmt.factor_interval(option.speedup),
        guide_speedup=fmt.factor(option.guide_speedup),
        throughput=fmt.tokens_per_s_interval(option.output_tokens_per_s),
        planned_throughput=fmt.tokens_per_s(option.planned_output_tokens_per_s),
        concurrency=fmt.count(option.concurrency),
        max_concurrency=fmt.count(option.max_concurrency),
        cost_ratio=fmt.number_interval(option.cost_ratio, 2) if option.cost_ratio else "",
        round_ratio=fmt.number_interval(option.round_ratio) if option.round_ratio else "",
        tier=labels.TIERS[option.tier],
        tier_note=option.tier_note,
        memory=memory_rows(option),
        on_pareto_front=option.on_pareto_front,
        warnings=option.warnings,
        launch=option.launch,
        load_rows=tuple(_load_row(point, option) for point in option.load_curve),
        **acceptance,
    )


def _at_peak(option: PlanOption) -> float:
    at_peak = option.utilisation_at_peak
    return option.utilisation if at_peak is None else at_peak


def _gpus(option: PlanOption) -> str:
    if option.on_cpu:
        noun = option.unit if option.gpus_rented == 1 else option.units
        return f"{option.gpus_rented:,} {noun}, {option.gpu_name}"
    return f"{option.gpus_rented:,} x {option.gpu_name}, TP{option.tensor_parallel}"


def length_text(num_speculative_tokens: int) -> str:
    """Return the length, or ``off`` for none."""
    return str(num_speculative_tokens) if num_speculative_tokens else "off"


def limit_text(limit_ms: float | None) -> str:
    """Return a limit as text; empty where there is none."""
    return "" if limit_ms is None else fmt.milliseconds(limit_ms)


def headlines(option: PlanOption, slo: Slo) -> tuple[Headline, ...]:
    """Return the four big numbers of the recommended option."""
    limit = limit_text(slo.tpot_ms)
    return (
        _headline(
            "a month", "month", fmt.usd_interval(option.usd_per_month), "USD", _bill(option)
        ),
        _headline(
            "per million output tokens",
            "million",
            fmt.usd_interval(option.usd_per_million_output_tokens),
            "USD",
            f"at {fmt.fine_percent(option.utilisation, 2)} utilisation",
        ),
        _headline(
            "decode speedup",
            "speedup",
            fmt.factor_interval(option.speedup),
            "x",
            f"at {fmt.count(option.concurrency)} request{'s' * (option.concurrency != 1)} at once "
            "a replica",
        ),
        _headline(
            "per output token (TPOT)",
            "tpot",
            fmt.milliseconds_interval(option.tpot_ms),
            "",
            f"limit {limit}" if limit else "no limit given",
        ),
    )


def _headline(label: str, origin: str, interval_text: str, unit: str, note: str) -> Headline:
    """Split ``1.87 USD (1.71-2.06)`` so that the page can set its parts apart."""
    middle, _, ends = interval_text.partition(" (")
    value = middle.removesuffix(unit).rstrip() if unit else middle
    if not unit:
        value, _, unit = middle.rpartition(" ")
    return Headline(label, value, unit, ends.removesuffix(")"), note, origin)


def _bill(option: PlanOption) -> str:
    noun = option.unit if option.gpus_rented == 1 else option.units
    price = f"{fmt.usd(option.usd_per_gpu_hour)} {labels.price_unit(option)}"
    idle = f", {fmt.usd_unit(option.usd_per_month_idle)} of it idle"
    return (
        f"{fmt.count(option.gpus_rented)} {noun} at {price}"
        f"{idle if option.usd_per_month_idle else ''}"
    )


def _acceptance_fields(figure: AcceptanceFigure | None) -> dict[str, str]:
    if figure is None:
        return dict.fromkeys(
            (
                "tokens_per_round",
                "acceptance_rate",
                "acceptance_definition",
                "acceptance_source",
            ),
            "",
        )
    return {
        "tokens_per_round": fmt.number_interval(figure.tokens_per_round),
        "acceptance_rate": fmt.percent_interval(figure.acceptance_rate),
        "acceptance_definition": figure.definition,
        "acceptance_source": str(figure.source),
    }


def _load_row(point: LoadPoint, option: PlanOption) -> LoadRow:
    return LoadRow(
        concurrency=fmt.count(point.concurrency),
        best_length=length_text(point.best_num_speculative_tokens),
        best_speedup=fmt.factor(point.best_speedup),
        speedup=fmt.factor_interval(point.speedup),
        guide_speedup=fmt.factor(point.guide_speedup),
        tpot=fmt.milliseconds_interval(point.tpot_ms),
        baseline_tpot=fmt.milliseconds(point.baseline_tpot_ms),
        throughput=fmt.tokens_per_s(point.output_tokens_per_s.mid),
        usd_per_million=fmt.usd_interval(point.usd_per_million_output_tokens),
        below_one=point.speedup.mid < 1,
        planned=point.concurrency == option.concurrency,
    )
