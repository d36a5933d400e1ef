"""When requests come: the peak, and the shape of a day and of a week."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from capplan.schema.base import Value

HOURS_PER_DAY, DAYS_PER_WEEK = 24, 7


class Arrival(Value):
    """How requests spread over time; the mean rate stands in the workload itself.

    Weights are relative: only their proportions count.
    """

    peak_requests_per_s: float | None = Field(default=None, gt=0)
    """Rate of the busiest minutes, as measured or expected. The fleet is sized for it."""
    hour_of_day: tuple[float, ...] | None = None
    """24 weights, the first from 0:00 to 1:00."""
    day_of_week: tuple[float, ...] | None = None
    """7 weights, Monday first."""

    @model_validator(mode="after")
    def _weights(self) -> Self:
        for name, weights, expected in (
            ("hour_of_day", self.hour_of_day, HOURS_PER_DAY),
            ("day_of_week", self.day_of_week, DAYS_PER_WEEK),
        ):
            if weights is None:
                continue
            if len(weights) != expected:
                msg = f"{name} has {len(weights)} weights; expected {expected}"
                raise ValueError(msg)
            if min(weights) < 0 or sum(weights) <= 0:
                msg = f"{name}: weights must be 0 or more, and not all 0"
                raise ValueError(msg)
        if self == Arrival.model_construct():
            msg = "arrival is empty; give peak_requests_per_s, hour_of_day or day_of_week"
            raise ValueError(msg)
        return self
