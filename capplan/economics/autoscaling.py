"""Replicas that follow the hours of the week, against a fleet that is fixed at the peak."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from capplan.economics.cost import replicas_for
from capplan.economics.decimals import without_noise
from capplan.economics.outlook import Fleet
from capplan.errors import RequestError
from capplan.schema.answers import AutoscaleHour, Autoscaling
from capplan.schema.arrival import DAYS_PER_WEEK, HOURS_PER_DAY

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HOURS_PER_WEEK = DAYS_PER_WEEK * HOURS_PER_DAY
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MINUTES_PER_HOUR = 60
_NOTHING = 1e-9
"""Share of the busiest hour below which an hour counts as one without load."""


def autoscale(
    fleet: Fleet,
    tokens_per_s_by_hour: Floats,
    peak_within_hour: float = 1.0,
    scale_up_lag_minutes: float = 0.0,
) -> Autoscaling:
    """Return replicas, GPU-hours and dollars of a fleet that follows the week.

    Parameters
    ----------
    fleet
        As planned for the peak. Of an offer that is paid for by the hour.
    tokens_per_s_by_hour
        Mean output tokens a second of the week's 168 hours, Monday 0:00 first.
    peak_within_hour
        Factor on every hour: the fleet's peak over the busiest hour's mean.
    scale_up_lag_minutes
        From the start of a replica until it serves. Replicas are started that much before the
        hour that needs them, and are paid for meanwhile.

    Raises
    ------
    RequestError
        If the offer is paid for whether used or not, or the lag is longer than a day.
    """
    if fleet.tariff.always_on:
        raise RequestError(
            "The option is a reservation: every hour is paid for, so fewer replicas at night save "
            "nothing.",
            "Choose an option that is paid for by the hour (--option RANK), or see what a "
            "commitment is worth with --commit-share.",
        )
    if not 0 <= scale_up_lag_minutes <= HOURS_PER_DAY * _MINUTES_PER_HOUR:
        raise RequestError(
            f"A replica is said to start in {scale_up_lag_minutes:g} minutes, expected 0 to "
            f"{HOURS_PER_DAY * _MINUTES_PER_HOUR}."
        )
    load = np.asarray(tokens_per_s_by_hour, dtype=float) * peak_within_hour
    needed = replicas_by_hour(fleet, load)
    early, late, late_share = _ahead(needed, scale_up_lag_minutes)
    hours_of_each = float(fleet.tariff.paid_hours) / len(needed)
    gpus = (1.0 - late_share) * _gpus(fleet, early) + late_share * _gpus(fleet, late)
    gpu_hours = float(gpus.sum()) * hours_of_each
    without_lag = float(_gpus(fleet, needed).sum()) * hours_of_each
    fixed_gpu_hours = fleet.gpus_paid(fleet.replicas) * float(fleet.tariff.paid_hours)
    hourly_usd = float(fleet.tariff.usd_per_gpu_hour)
    saved = (fixed_gpu_hours - gpu_hours) * hourly_usd
    return Autoscaling(
        peak_within_hour=peak_within_hour,
        scale_up_lag_minutes=scale_up_lag_minutes,
        fixed_replicas=fleet.replicas,
        fixed_gpu_hours_per_month=fixed_gpu_hours,
        fixed_usd_per_month=without_noise(fixed_gpu_hours * hourly_usd),
        gpu_hours_per_month=gpu_hours,
        usd_per_month=without_noise(gpu_hours * hourly_usd),
        saved_usd_per_month=without_noise(saved),
        saved_share=saved / (fixed_gpu_hours * hourly_usd),
        lag_gpu_hours_per_month=gpu_hours - without_lag,
        mean_replicas=float(((1.0 - late_share) * early + late_share * late).mean()),
        least_replicas=int(early.min()),
        most_replicas=int(needed.max()),
        needed_margin=needed_margin(load, scale_up_lag_minutes),
        planned_margin=1.0 / fleet.utilisation_limit - 1.0,
        hours=tuple(
            AutoscaleHour(
                hour_of_week=hour,
                day=DAYS[hour // HOURS_PER_DAY],
                hour_of_day=hour % HOURS_PER_DAY,
                output_tokens_per_s=float(load[hour]),
                replicas=int(early[hour]),
                replicas_at_end_of_hour=int(late[hour]),
            )
            for hour in range(len(needed))
        ),
    )


def replicas_by_hour(fleet: Fleet, tokens_per_s: Floats) -> Integers:
    """Return the replicas that each hour needs at the planned utilisation, at least one."""
    needed = replicas_for(tokens_per_s, fleet.replica_tokens_per_s, fleet.utilisation_limit)
    return needed.astype(np.int64)


def _gpus(fleet: Fleet, replicas: Integers) -> Floats:
    counts, places = np.unique(replicas, return_inverse=True)
    paid = np.array([fleet.gpus_paid(int(one)) for one in counts], dtype=float)
    result: Floats = paid[places.reshape(replicas.shape)]
    return result


def _ahead(needed: Integers, lag_minutes: float) -> tuple[Integers, Integers, float]:
    """Return replicas in the first and the last part of every hour, and the share of the last.

    Whoever must be ready in ``lag`` minutes runs now: the most that any hour needs that begins
    within them. The week is a ring.
    """
    whole, rest = divmod(lag_minutes, _MINUTES_PER_HOUR)
    early = _most_within(needed, int(whole))
    if not rest:
        return early, early, 0.0
    return early, _most_within(needed, int(whole) + 1), rest / _MINUTES_PER_HOUR


def _most_within(needed: Integers, hours: int) -> Integers:
    rolled = [np.roll(needed, -ahead) for ahead in range(hours + 1)]
    most: Integers = np.max(rolled, axis=0)
    return most


def needed_margin(tokens_per_s: Floats, lag_minutes: float) -> float | None:
    """Return the largest relative rise of the load within the lag; None where there is none."""
    if not lag_minutes or tokens_per_s.min() <= _NOTHING * tokens_per_s.max():
        return None
    middles = np.arange(len(tokens_per_s)) + 0.5
    minutes = np.arange(len(tokens_per_s) * _MINUTES_PER_HOUR) / _MINUTES_PER_HOUR

    def at(hours: Floats) -> Floats:
        result: Floats = np.interp(hours, middles, tokens_per_s, period=len(tokens_per_s))
        return result

    rise = at(minutes + lag_minutes / _MINUTES_PER_HOUR) / at(minutes) - 1.0
    return max(float(rise.max()), 0.0)
