"""Answers about the parts of a fleet, added up: dollars are sums, limits those met first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from capplan.schema.answers import (
    AutoscaleHour,
    Autoscaling,
    BlendTotal,
    CommitmentBlend,
    Growth,
    GrowthMonth,
    SpareRow,
    Spares,
    SpotBlend,
)

_SAME_USD = 1e-9


def within(usd: float, budget_usd: float) -> bool:
    """Whether a bill is within a budget, up to rounding."""
    return usd <= budget_usd * (1.0 + _SAME_USD)


def usd_per_million(bills: Iterable[tuple[float, float]]) -> float:
    """Return all dollars over all tokens, of bills with their dollars a million tokens."""
    listed = list(bills)
    return sum(usd for usd, _ in listed) / sum(usd / million for usd, million in listed)


def growth_of_all(parts: Sequence[Growth], budget_usd: float) -> Growth:
    """Return the growth of all loads together; the fleet is outgrown when its first part is."""
    months = tuple(
        _month(one, budget_usd) for one in zip(*(part.months for part in parts), strict=True)
    )
    return Growth(
        growth_per_month=parts[0].growth_per_month,
        utilisation_limit=min(part.utilisation_limit for part in parts),
        planned_replicas=sum(part.planned_replicas for part in parts),
        planned_capacity_output_tokens_per_s=sum(
            part.planned_capacity_output_tokens_per_s for part in parts
        ),
        outgrown_in_month=_first(part.outgrown_in_month for part in parts),
        outgrown_in_month_at_low_capacity=_first(
            part.outgrown_in_month_at_low_capacity for part in parts
        ),
        outgrown_in_month_at_high_capacity=_first(
            part.outgrown_in_month_at_high_capacity for part in parts
        ),
        full_in_month=_first(part.full_in_month for part in parts),
        over_budget_in_month=_first(one.month for one in months if not one.within_budget),
        months=months,
    )


def _month(parts: Sequence[GrowthMonth], budget_usd: float) -> GrowthMonth:
    usd = sum(part.usd_per_month for part in parts)
    return GrowthMonth(
        month=parts[0].month,
        load_factor=parts[0].load_factor,
        output_tokens_per_s_at_peak=sum(part.output_tokens_per_s_at_peak for part in parts),
        planned_fleet_utilisation_at_peak=max(
            part.planned_fleet_utilisation_at_peak for part in parts
        ),
        replicas=sum(part.replicas for part in parts),
        gpus_paid=sum(part.gpus_paid for part in parts),
        usd_per_month=usd,
        usd_per_million_output_tokens=usd_per_million(
            (part.usd_per_month, part.usd_per_million_output_tokens) for part in parts
        ),
        within_budget=within(usd, budget_usd),
    )


def _first(months: Iterable[int | None]) -> int | None:
    return min((month for month in months if month is not None), default=None)


def autoscaling_of_all(parts: Sequence[Autoscaling]) -> Autoscaling:
    """Return the hours of all parts together; each part follows its own."""
    hours = tuple(_hour(one) for one in zip(*(part.hours for part in parts), strict=True))
    replicas = [hour.replicas for hour in hours]
    fixed, usd = (
        sum(getattr(part, name) for part in parts)
        for name in ("fixed_usd_per_month", "usd_per_month")
    )
    margins = [part.needed_margin for part in parts]
    known = [margin for margin in margins if margin is not None]
    return Autoscaling(
        peak_within_hour=max(part.peak_within_hour for part in parts),
        scale_up_lag_minutes=parts[0].scale_up_lag_minutes,
        fixed_replicas=sum(part.fixed_replicas for part in parts),
        fixed_gpu_hours_per_month=sum(part.fixed_gpu_hours_per_month for part in parts),
        fixed_usd_per_month=fixed,
        gpu_hours_per_month=sum(part.gpu_hours_per_month for part in parts),
        usd_per_month=usd,
        saved_usd_per_month=fixed - usd,
        saved_share=(fixed - usd) / fixed,
        lag_gpu_hours_per_month=sum(part.lag_gpu_hours_per_month for part in parts),
        mean_replicas=sum(part.mean_replicas for part in parts),
        least_replicas=min(replicas),
        most_replicas=max(replicas),
        needed_margin=max(known) if len(known) == len(margins) else None,
        planned_margin=min(part.planned_margin for part in parts),
        hours=hours,
    )


def _hour(parts: Sequence[AutoscaleHour]) -> AutoscaleHour:
    first = parts[0]
    return AutoscaleHour(
        hour_of_week=first.hour_of_week,
        day=first.day,
        hour_of_day=first.hour_of_day,
        output_tokens_per_s=sum(part.output_tokens_per_s for part in parts),
        replicas=sum(part.replicas for part in parts),
        replicas_at_end_of_hour=sum(part.replicas_at_end_of_hour for part in parts),
    )


def spares_of_all(parts: Sequence[Spares]) -> Spares:
    """Return fleets with as many spare replicas in every part: no part can lend another one."""
    return Spares(
        utilisation_limit=min(part.utilisation_limit for part in parts),
        rows=tuple(_spare(one) for one in zip(*(part.rows for part in parts), strict=True)),
    )


def _spare(parts: Sequence[SpareRow]) -> SpareRow:
    downs = [part.utilisation_at_peak_one_replica_down for part in parts]
    known = [down for down in downs if down is not None]
    return SpareRow(
        spare_replicas=sum(part.spare_replicas for part in parts),
        replicas=sum(part.replicas for part in parts),
        gpus_paid=sum(part.gpus_paid for part in parts),
        usd_per_month=sum(part.usd_per_month for part in parts),
        usd_of_spares_per_month=sum(part.usd_of_spares_per_month for part in parts),
        utilisation_at_peak=max(part.utilisation_at_peak for part in parts),
        utilisation_at_peak_one_replica_down=max(known) if len(known) == len(downs) else None,
    )


def blend_of_all(parts: Sequence[SpotBlend] | Sequence[CommitmentBlend]) -> BlendTotal:
    """Return what all parts cost with a share of each at another price."""
    return BlendTotal(
        usd_per_month=sum(part.usd_per_month for part in parts),
        planned_usd_per_month=sum(part.planned_usd_per_month for part in parts),
        saved_usd_per_month=sum(part.saved_usd_per_month for part in parts),
    )
