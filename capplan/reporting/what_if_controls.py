"""The controls of the page that ask what else the plan would cost, at the plan's own values.

The arithmetic is the page's script; this module only says which knobs a plan has, in which unit,
and what they stand at. What a plan does not have has no knob.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.reporting.labels import price_unit
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption
from capplan.units import TOKENS_PER_MILLION


@dataclass(frozen=True)
class Control:
    """One knob."""

    name: str
    """``price``, ``load``, ``acceptance`` or ``utilisation``, as the script knows it."""
    label: str
    unit: str
    planned: float
    """Exact; the factor of the script is a value over this one."""
    shown: str
    """The same as a number that an input takes."""
    low: float
    high: float
    step: str


@dataclass(frozen=True)
class WhatIfControls:
    """The knobs of one option, and what they hold fixed."""

    controls: tuple[Control, ...]
    has_baseline: bool
    held_fixed: tuple[str, ...]
    fleet_rows: tuple[tuple[str, str, str], ...] = ()
    """Of services on replicas of their own: figures of the whole fleet, each with its name for the
    script, its label and its planned value."""


def build_controls(
    plan: Plan, option: PlanOption, baseline: PlanOption | None
) -> WhatIfControls | None:
    """Return the knobs; None where the plan file lacks the bill or the curve they work on."""
    if option.bill is None or not option.load_curve:
        return None
    usable = baseline is not None and baseline.bill is not None and bool(baseline.load_curve)
    return WhatIfControls(
        controls=tuple(_controls(plan, option)),
        has_baseline=usable and option.method is not Method.NONE,
        held_fixed=tuple(_held_fixed(plan, option)),
    )


def _controls(plan: Plan, option: PlanOption) -> Iterator[Control]:
    load = plan.request.workload
    yield knob("price", "Price", price_unit(option), option.usd_per_gpu_hour)
    if load.requests_per_s is not None:
        yield knob("load", "Load", "requests/s", load.requests_per_s)
    elif load.output_tokens_per_month is not None:
        millions = load.output_tokens_per_month / TOKENS_PER_MILLION
        yield knob("load", "Load", "million output tokens a month", millions)
    if option.acceptance is not None and option.num_speculative_tokens:
        percent = option.acceptance.acceptance_rate.mid * 100
        yield knob("acceptance", "Acceptance", "% of N drafted tokens", percent, most=100.0)
    yield knob("utilisation", "Utilisation", "% at most", load.utilisation * 100, most=100.0)


def knob(name: str, label: str, unit: str, planned: float, most: float | None = None) -> Control:
    """Return a knob from a quarter of what is planned to twice that, or to the most there is."""
    high = planned * 2 if most is None else most
    places = fmt.decimals(planned)
    return Control(
        name=name,
        label=label,
        unit=unit,
        planned=planned,
        shown=f"{planned:.{places}f}",
        low=_rounded(planned / 4 if most is None else min(planned / 4, 1.0), places),
        high=_rounded(high, places),
        step="any",
    )


def _rounded(value: float, places: int) -> float:
    return max(round(value, places), 10.0**-places)


def _held_fixed(plan: Plan, option: PlanOption) -> Iterator[str]:
    drafts = "the draft, N, " if option.method is not Method.NONE else ""
    yield (
        f"Held fixed: {drafts}the {option.units}, the offer, the lengths of prompts and outputs, "
        "the shape of the week, and what a step and a round cost"
    )
    load = plan.request.workload
    if load.requests_per_s is None and load.output_tokens_per_month is None:
        yield "No load was given: as many whole nodes are rented as the budget pays for"
    yield "Replicas and nodes stay whole; the largest batch is found anew within the TPOT limit"
    if plan.request.slo.ttft_ms is not None:
        yield (
            f"A replica takes at most the planned {option.max_concurrency:,} requests at once: "
            "the page does not know the time to first token beyond"
        )
    yield "Intervals keep the relative width that they have in the plan"
