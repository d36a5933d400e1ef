"""A number with its interval."""

from __future__ import annotations

import math
from typing import Self

from pydantic import model_validator

from capplan.schema.base import Value


class Quantity(Value):
    """A figure: central value and 95 % interval. The unit stands in the field's name."""

    low: float
    mid: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.mid <= self.high:
            msg = f"expected low <= mid <= high, got {self.low}, {self.mid}, {self.high}"
            raise ValueError(msg)
        return self

    @classmethod
    def exact(cls, value: float) -> Quantity:
        """Return a figure without spread: a list price, a count."""
        return cls(low=value, mid=value, high=value)

    @classmethod
    def from_relative_se(cls, mid: float, relative_se: float) -> Quantity:
        """Return the 95 % interval of a positive figure with this relative standard error.

        The interval is symmetric in the logarithm, so it never crosses zero:
        ``mid * exp(+-1.96 * relative_se)``.
        """
        spread = math.exp(1.96 * relative_se)
        return cls(low=mid / spread, mid=mid, high=mid * spread)

    @classmethod
    def log_normal(cls, median: float, log_sd: float) -> Quantity:
        """Return mean and 95 % interval of a positive figure whose logarithm is normal."""
        spread = math.exp(1.96 * log_sd)
        mean = median * math.exp(log_sd**2 / 2.0)
        return cls(low=median / spread, mid=mean, high=max(mean, median * spread))

    def scaled(self, factor: float) -> Quantity:
        """Return the figure times a positive exact number (a unit, a count)."""
        return Quantity(low=self.low * factor, mid=self.mid * factor, high=self.high * factor)
