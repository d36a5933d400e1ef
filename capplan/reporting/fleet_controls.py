"""The page's controls where several services are on replicas of their own: they move all parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capplan.reporting import formatting as fmt
from capplan.reporting.what_if_controls import Control, WhatIfControls, build_controls, knob
from capplan.schema.fleet import FleetWay, ServicePart
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.quantity import Quantity

_PERCENT = 100.0


def controls_of(
    plan: Plan, option: PlanOption, baseline: PlanOption | None
) -> WhatIfControls | None:
    """Return the knobs of an option, or of the whole fleet; None where the file lacks them."""
    way = plan.fleet.ways[0] if plan.fleet is not None and plan.fleet.ways else None
    if way is None or len(way.parts) == 1:
        return build_controls(plan, option, baseline)
    options = [part.planned for part in way.parts]
    whole = [one for one in options if one is not None and one.bill and one.load_curve]
    if len(whole) < len(options):
        return None
    return WhatIfControls(
        controls=tuple(_knobs(plan, whole)),
        has_baseline=False,
        held_fixed=tuple(_held_fixed(way.parts)),
        fleet_rows=tuple(_rows(way, whole)),
    )


def _knobs(plan: Plan, options: Sequence[PlanOption]) -> Iterator[Control]:
    """Yield the knobs in per cent of what is planned, as parts differ in price, load and N."""
    yield knob("price", "Prices", "% of each planned one", _PERCENT)
    yield knob("load", "Load", "% of every service's", _PERCENT)
    if any(option.num_speculative_tokens for option in options):
        yield knob("acceptance", "Acceptance", "% of the accepted drafts planned", _PERCENT)
    limit = plan.request.workload.utilisation
    yield knob("utilisation", "Utilisation", "% at most", limit * _PERCENT, most=_PERCENT)


def _held_fixed(parts: Sequence[ServicePart]) -> Iterator[str]:
    yield (
        "Held fixed: which services share replicas, and of every part the draft, N, the GPUs, the "
        "offer, the lengths of prompts and outputs, the shape of the week, and what a step and a "
        "round cost"
    )
    yield (
        f"Every setting applies to all parts at once ({'; '.join(part.label for part in parts)}), "
        "the load to every service's own; dollars and replicas are sums"
    )
    yield "Replicas and nodes stay whole; the largest batch is found anew within the TPOT limit"
    if any(part.slo.ttft_ms is not None for part in parts):
        yield (
            "Where TTFT is limited, a replica takes at most the planned requests at once: the "
            "page does not know the time to first token beyond"
        )
    yield "Intervals keep the relative width that they have in the plan"


def _rows(way: FleetWay, options: Sequence[PlanOption]) -> Iterator[tuple[str, str, str]]:
    bill = way.usd_per_month
    millions = sum(
        one.usd_per_month.mid / one.usd_per_million_output_tokens.mid for one in options
    )
    million = Quantity(low=bill.low / millions, mid=bill.mid / millions, high=bill.high / millions)
    replicas = sum(one.replicas for one in options)
    rented = sum(one.gpus_rented for one in options)
    slowest = max((one.tpot_ms for one in options), key=lambda tpot: tpot.mid)
    yield "month", "A month", fmt.usd_interval(bill)
    yield "million", "A million output tokens", fmt.usd_interval(million)
    yield "replicas", "Replicas", f"{replicas:,} ({rented:,} rented)"
    yield "tpot", "Time per output token, slowest part", fmt.milliseconds_interval(slowest)
    yield "utilisation", "Utilisation at the peak, busiest part", fmt.percent(_busiest(options))


def _busiest(options: Sequence[PlanOption]) -> float:
    peaks = ((one.utilisation_at_peak, one.utilisation) for one in options)
    return max(mean if peak is None else peak for peak, mean in peaks)
