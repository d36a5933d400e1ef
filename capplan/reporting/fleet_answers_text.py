"""Answers that keep a plan's option: growth, hours, spares, spot and commitments as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capplan.reporting import formatting as fmt
from capplan.schema.answers import (
    Autoscaling,
    BlendTotal,
    CommitmentBlend,
    Growth,
    PlanAnswers,
    Spares,
    SpotBlend,
)

_HOURS = range(24)
_PERCENT = 100.0


def fleet_blocks(found: PlanAnswers) -> Iterator[list[str]]:
    """Yield the lines of every answer that was asked for."""
    if found.growth is not None:
        yield list(_growth(found.growth, found.unit, found.parts))
    if found.autoscaling is not None:
        yield list(_autoscaling(found.autoscaling, found.unit))
    if found.spares is not None:
        yield list(_spares(found.spares, found.unit))
    if found.spot is not None:
        yield list(_spot(found.spot, found.unit))
    if found.commitment is not None:
        yield list(_commitment(found.commitment, found.unit))
    if found.spot_total is not None:
        yield list(_blends(found, found.spot_total))
    if found.commitment_total is not None:
        yield list(_blends(found, found.commitment_total))


def _blends(found: PlanAnswers, total: BlendTotal) -> Iterator[str]:
    """Yield the blend of every part, whose prices may differ, and what all cost."""
    of_spot = total is found.spot_total
    for part in found.parts:
        yield f"{part.services}:"
        if of_spot and part.spot is not None:
            yield from (f"  {line}" for line in _spot(part.spot, part.unit))
        elif part.commitment is not None:
            yield from (f"  {line}" for line in _commitment(part.commitment, part.unit))
    yield "All services:"
    yield _together(total.usd_per_month, total.planned_usd_per_month, total.saved_usd_per_month)


def _growth(found: Growth, unit: str, parts: Sequence[PlanAnswers] = ()) -> Iterator[str]:
    yield f"Growth of {found.growth_per_month * _PERCENT:g} % a month"
    for part in parts:
        if part.growth is not None:
            yield f"  {part.services}:"
            yield from (f"  {line}" for line in _outgrown(part.growth))
    if not parts:
        yield from _outgrown(found)
    if found.over_budget_in_month is not None:
        yield f"  month {found.over_budget_in_month}: following the load exceeds the budget"
    yield (
        f"  {'month':>5}{'load':>8}{'peak tokens/s':>15}{'as planned':>12}{'replicas':>10}"
        f"{'rented':>8}{'USD a month':>14}{'USD/M output':>14}"
    )
    for one in found.months:
        over = "" if one.within_budget else "  above the budget"
        yield (
            f"  {one.month:>5}{one.load_factor:>7.2f}x{one.output_tokens_per_s_at_peak:>15,.0f}"
            f"{fmt.percent(one.planned_fleet_utilisation_at_peak):>12}{one.replicas:>10}"
            f"{one.gpus_paid:>8}{fmt.usd(one.usd_per_month):>14}"
            f"{fmt.usd(one.usd_per_million_output_tokens):>14}{over}"
        )
    yield (
        f"  rented: {unit}s; as planned: utilisation at the peak of the planned replicas, "
        "left alone"
    )


def _outgrown(found: Growth) -> Iterator[str]:
    """Yield when the planned replicas are too few."""
    limit = fmt.percent(found.utilisation_limit)
    planned = found.planned_replicas
    fleet = f"the {planned} planned replicas" if planned > 1 else "the planned replica"
    if found.outgrown_in_month is None:
        yield f"  {fleet}: below {limit} utilisation at the peak: never outgrown"
    else:
        yield (
            f"  month {found.outgrown_in_month}: the peak outgrows {fleet} "
            f"({limit} of {found.planned_capacity_output_tokens_per_s:,.0f} output tokens/s)"
        )
        ends = found.outgrown_in_month_at_low_capacity, found.outgrown_in_month_at_high_capacity
        if ends[0] != ends[1]:
            first, last = ("now" if month == 0 else f"in month {month}" for month in ends)
            yield f"    as early as {first}, as late as {last}: the interval of what replicas make"
    if found.full_in_month is not None:
        yield f"  month {found.full_in_month}: {fleet} cannot serve the whole peak"


def _autoscaling(found: Autoscaling, unit: str) -> Iterator[str]:
    yield "Autoscaling by hour of the week against a fleet fixed at the peak"
    yield (
        f"  fixed       {_many(found.fixed_replicas, 'replica')}, "
        f"{found.fixed_gpu_hours_per_month:,.0f} {unit}-hours, "
        f"{fmt.usd(found.fixed_usd_per_month)} USD a month"
    )
    yield (
        f"  autoscaled  {found.least_replicas}-{found.most_replicas} replicas, "
        f"{found.mean_replicas:.2f} on average, {found.gpu_hours_per_month:,.0f} {unit}-hours, "
        f"{fmt.usd(found.usd_per_month)} USD a month:\n              saves "
        f"{fmt.usd(found.saved_usd_per_month)} USD ({fmt.percent(found.saved_share)})"
    )
    if found.peak_within_hour > 1:
        yield (
            f"  every hour keeps room for {found.peak_within_hour:.2f} times its mean: the stated "
            "peak over the busiest hour"
        )
    yield from _lag(found, unit)
    yield from _hours(found)


def _lag(found: Autoscaling, unit: str) -> Iterator[str]:
    minutes = found.scale_up_lag_minutes
    if not minutes:
        yield "  replicas are taken to start at once; --scale-up-lag-minutes says otherwise"
        return
    yield (
        f"  started {minutes:g} minutes ahead: {found.lag_gpu_hours_per_month:,.0f} of the "
        f"{unit}-hours a month"
    )
    if found.needed_margin is None:
        yield "  the load rises from nothing: no margin lets a scaler only react to it"
        return
    enough = "enough" if found.needed_margin <= found.planned_margin else "too little"
    yield (
        f"  a scaler that only reacts needs {fmt.percent(found.needed_margin)} free capacity (the "
        f"largest rise in {minutes:g} minutes);\n    the planned utilisation leaves "
        f"{fmt.percent(found.planned_margin)}: {enough}"
    )


def _hours(found: Autoscaling) -> Iterator[str]:
    """Yield the replicas hour by hour; one line where all days are alike."""
    width = len(str(found.most_replicas)) + 1
    marks = "".join(f"{hour:<{6 * width}}" for hour in _HOURS[::6])
    days: dict[str, list[str]] = {}
    for one in found.hours:
        days.setdefault(one.day, []).append(f"{one.replicas:>{width}}")
    lines = {day: "".join(cells) for day, cells in days.items()}
    yield f"  {'replicas':<10}{' ' * (width - 1)}{marks.rstrip()}"
    if len(set(lines.values())) == 1:
        yield f"  {'every day':<10}{next(iter(lines.values()))}"
        return
    yield from (f"  {day:<10}{cells}" for day, cells in lines.items())


def _spares(found: Spares, unit: str) -> Iterator[str]:
    yield "Spare replicas"
    yield (
        f"  {'spares':>6}{'replicas':>10}{'rented':>8}{'USD a month':>14}{'for spares':>12}"
        f"{'at peak':>9}{'one down':>12}"
    )
    for row in found.rows:
        down = row.utilisation_at_peak_one_replica_down
        yield (
            f"  {row.spare_replicas:>6}{row.replicas:>10}{row.gpus_paid:>8}"
            f"{fmt.usd(row.usd_per_month):>14}{fmt.usd(row.usd_of_spares_per_month):>12}"
            f"{fmt.percent(row.utilisation_at_peak):>9}"
            f"{'no service' if down is None else fmt.percent(down):>12}"
        )
    yield (
        f"  rented: {unit}s; at peak, one down: utilisation at the peak with all replicas and "
        f"with one lost;\n  {fmt.percent(found.utilisation_limit)} is planned, above 100 % the "
        "queue grows"
    )


def _spot(found: SpotBlend, unit: str) -> Iterator[str]:
    yield (
        f"Spot {unit}s for {fmt.percent(found.spot_share)} of the load, "
        f"{fmt.percent(found.interruption_overhead)} more of them for interruptions"
    )
    yield _part(
        unit,
        "on demand",
        _many(found.on_demand_replicas, "replica"),
        found.on_demand_usd_per_gpu_hour,
        found.on_demand_usd_per_month,
    )
    yield _part(
        unit,
        "spot",
        _many(found.spot_replicas, "replica"),
        found.spot_usd_per_gpu_hour,
        found.spot_usd_per_month,
    )
    yield _together(found.usd_per_month, found.planned_usd_per_month, found.saved_usd_per_month)
    worth = found.break_even_interruption_overhead
    yield (
        f"  a spot {unit} does as much for a dollar at {fmt.percent(worth)} overhead (whole nodes "
        "aside)"
        if worth > 0
        else f"  a spot {unit} costs no less than one on demand: it never pays off"
    )
    yield (
        f"  while all spot {unit}s are gone, {fmt.percent(found.peak_served_without_spot)} of the "
        "peak is served, at full load"
    )
    yield f"  spot price: {found.spot_price_source}"


def _commitment(found: CommitmentBlend, unit: str) -> Iterator[str]:
    rest = found.nodes - found.committed_nodes
    yield (
        f"Commitment to {fmt.percent(found.commit_share)} of {_many(found.nodes, 'node')}, "
        f"whole ones: {found.committed_nodes}"
    )
    yield _part(
        unit,
        "committed",
        _many(found.committed_nodes, "node"),
        found.commit_usd_per_gpu_hour,
        found.committed_usd_per_month,
    )
    yield _part(
        unit,
        "on demand",
        _many(rest, "node"),
        found.on_demand_usd_per_gpu_hour,
        found.on_demand_usd_per_month,
    )
    yield _together(found.usd_per_month, found.planned_usd_per_month, found.saved_usd_per_month)
    yield (
        f"  a commitment pays off for a node that is needed more than "
        f"{found.break_even_hours_per_month:,.0f} hours a month: for "
        f"{found.nodes_worth_committing} of {found.nodes}"
    )
    yield f"  committed price: {found.commit_price_source}"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _part(unit: str, name: str, what: str, usd_per_gpu_hour: float, usd_per_month: float) -> str:
    return (
        f"  {name:<11}{what:<13}at {fmt.usd(usd_per_gpu_hour)} USD/{unit}-h: "
        f"{fmt.usd(usd_per_month)} USD a month"
    )


def _together(usd: float, planned: float, saved: float) -> str:
    verb = "saves" if saved >= 0 else "costs"
    more = "" if saved >= 0 else " more"
    return (
        f"  together   {fmt.usd(usd)} USD a month, planned {fmt.usd(planned)}: {verb} "
        f"{fmt.usd(abs(saved))} USD{more} ({fmt.percent(abs(saved) / planned)})"
    )
