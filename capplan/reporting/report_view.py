"""What the page shows beyond the terminal: verdict, comparison, checks, origins, controls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.reporting.checks_view import Check, build_checks
from capplan.reporting.confidence_view import Confidence, build_confidence
from capplan.reporting.crossing_view import Crossing, build_crossing
from capplan.reporting.fleet_controls import controls_of
from capplan.reporting.memory_view import MemoryBar, build_memory_bar
from capplan.reporting.money_view import build_money
from capplan.reporting.origins_view import Origin, build_origins
from capplan.reporting.saving import saving
from capplan.reporting.view import baseline_of, finalists
from capplan.reporting.what_if_controls import WhatIfControls
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.quantity import Quantity
from capplan.units import TOKENS_PER_MILLION


@dataclass(frozen=True)
class ComparedRow:
    """One figure without speculation and with the plan."""

    label: str
    origin: str
    without: str
    planned: str
    difference: str
    better: bool | None
    """None where they are the same, or where more is neither better nor worse."""


@dataclass(frozen=True)
class ReportPart:
    """What the page says of one finalist beside its figures."""

    rank: int
    verdict: str
    style: str
    budget: str
    confidence: Confidence
    compared: tuple[ComparedRow, ...]
    """Empty where the plan is the one without speculation, or there is none to compare with."""
    crossing: Crossing | None
    checks: tuple[Check, ...]
    memory_bar: MemoryBar | None
    origins: tuple[Origin, ...]
    what_if: WhatIfControls | None

    @property
    def origin_titles(self) -> dict[str, str]:
        """Titles of the origins by their names."""
        return {origin.name: origin.title for origin in self.origins}


def build_parts(plan: Plan) -> dict[int, ReportPart]:
    """Return the parts of every finalist by its rank."""
    return {rank: _part(plan, rank, option) for rank, option in finalists(plan)}


def _part(plan: Plan, rank: int, option: PlanOption) -> ReportPart:
    baseline, crossing = baseline_of(plan, option), build_crossing(option)
    verdict, style = _verdict(plan, option)
    return ReportPart(
        rank=rank,
        verdict=verdict,
        style=style,
        budget=_budget(plan, option),
        confidence=build_confidence(plan, option),
        compared=tuple(_compared(option, baseline)) if baseline is not None else (),
        crossing=crossing,
        checks=build_checks(option, plan.request.slo, crossing),
        memory_bar=build_memory_bar(option),
        origins=build_origins(plan, option, build_money(option)),
        what_if=controls_of(plan, option, baseline),
    )


def _verdict(plan: Plan, option: PlanOption) -> tuple[str, str]:
    if option.method is Method.NONE:
        return "Do not speculate", ""
    loses = option.speedup.low < 1 < option.speedup.high
    if loses or not plan.verdict.decided:
        return "Not decided", "assumed"
    return f"Speculate, N = {option.num_speculative_tokens}", "measured"


def _budget(plan: Plan, option: PlanOption) -> str:
    budget = plan.request.budget_usd_per_month
    used = fmt.percent(option.usd_per_month.mid / budget)
    if plan.fleet is not None:
        return f"{used} of the {fmt.usd_unit(budget)} that the other services leave"
    return f"{used} of the budget of {fmt.usd_unit(budget)}"


def _compared(option: PlanOption, baseline: PlanOption) -> Iterator[ComparedRow]:
    if option.method is Method.NONE:
        return
    before, after = baseline.usd_per_month, option.usd_per_month
    yield ComparedRow(
        "A month", "month", fmt.usd_interval(before), fmt.usd_interval(after),
        _dollars(after.mid - before.mid, before.mid), _less(before.mid, after.mid),
    )  # fmt: skip
    before, after = baseline.usd_per_million_output_tokens, option.usd_per_million_output_tokens
    yield ComparedRow(
        "A million output tokens", "million", fmt.usd_interval(before), fmt.usd_interval(after),
        _dollars(after.mid - before.mid, before.mid, _spread_of_change(before, after)),
        _less(before.mid, after.mid),
    )  # fmt: skip
    if baseline.output_tokens_per_month and option.output_tokens_per_month:
        yield from _tokens(baseline.output_tokens_per_month, option.output_tokens_per_month)
    yield ComparedRow(
        f"{option.units} rented", "replicas",
        _rented(baseline, option), _rented(option, baseline), _rented_change(baseline, option),
        None,
    )  # fmt: skip
    ms_before, ms_after = baseline.tpot_ms, option.tpot_ms
    yield ComparedRow(
        "Time per output token", "tpot",
        fmt.milliseconds_interval(ms_before), fmt.milliseconds_interval(ms_after),
        _relative(ms_before.mid, ms_after.mid), _less(ms_before.mid, ms_after.mid),
    )  # fmt: skip


def _tokens(before: Quantity, after: Quantity) -> Iterator[ComparedRow]:
    """Compare what the budget buys; a stated load is the same for both and says nothing."""
    if before.mid == after.mid:
        return
    yield ComparedRow(
        "Output tokens a month", "throughput",
        _millions(before), _millions(after),
        _relative(before.mid, after.mid), after.mid > before.mid,
    )  # fmt: skip


def _millions(tokens: Quantity) -> str:
    return f"{fmt.number_interval(tokens.scaled(1 / TOKENS_PER_MILLION))} M"


def _rented(option: PlanOption, other: PlanOption) -> str:
    """Count what is rented; name it where the two rent different hardware."""
    named = "" if option.gpu == other.gpu else f" ({option.gpu_name})"
    return f"{option.gpus_rented:,}{named}"


def _rented_change(baseline: PlanOption, option: PlanOption) -> str:
    if option.gpu != baseline.gpu:
        return "other hardware"
    change = option.gpus_rented - baseline.gpus_rented
    return f"{change:+,}" if change else "the same"


def _less(before: float, after: float) -> bool | None:
    return None if fmt.usd(before) == fmt.usd(after) else after < before


def _dollars(change: float, before: float, spread: str = "") -> str:
    if fmt.usd(abs(change)) == fmt.usd(0.0):
        return "the same"
    sign = "+" if change > 0 else "-"
    relative = f" ({_relative(before, before + change)}{spread})" if before > 0 else ""
    return f"{sign}{fmt.usd_unit(abs(change))}{relative}"


def _spread_of_change(before: Quantity, after: Quantity) -> str:
    """Return the ends of a price's relative change, the lower price first: `` (-77 to -49 %)``."""
    if before.mid <= 0:
        return ""
    share = saving(after, before)
    low, high = (f"{-end * 100:+.0f}" for end in (share.high, share.low))
    return f" ({low} to {high} %)" if low != high else ""


def _relative(before: float, after: float) -> str:
    change = after / before - 1
    return f"{'+' if change > 0 else '-'}{fmt.percent(abs(change))}" if change else "the same"
