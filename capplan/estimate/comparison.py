"""Two measurements of one figure: their difference, with an interval that holds for all rows.

Many rows are compared at once, and one in twenty of them would be called changed by chance. So a
5 % chance is given to the whole comparison and shared out: every group of rows gets the same part
of it, every row of a group the same part of that (Bonferroni). docs/comparing-prompts.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.student import student_quantile, two_sided_p
from capplan.schema.difference import Change, Interval, Quality

Floats = NDArray[np.float64]

FAMILY_ERROR = 0.05
"""Chance that any row of a whole comparison is called changed where nothing changed."""
_NOTHING = 1e-9
"""Relative differences below this are rounding of the arithmetic, not of the figures."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of sums over requests, and what each request adds to its error (linearised)."""

    value: float
    parts: Floats

    @classmethod
    def of(cls, numerator: Floats, denominator: Floats) -> Ratio:
        """Return ``sum(numerator) / sum(denominator)``; NaN without a denominator."""
        total = float(denominator.sum())
        if total <= 0:
            return cls(math.nan, np.zeros(len(numerator)))
        value = float(numerator.sum()) / total
        return cls(value, (numerator - value * denominator) / total)


@dataclass(frozen=True)
class Contrast:
    """One figure before and after, with the error of the difference.

    Attributes
    ----------
    difference, standard_error
        In the figure's own unit, or of the logarithm where ``is_log``.
    degrees
        Degrees of freedom behind the error; 0 where there is none to speak of.
    """

    quality: Quality
    label: str
    before: float
    after: float
    difference: float
    standard_error: float
    degrees: float
    samples: tuple[int, int]
    is_log: bool = False
    paired: bool = False
    num_speculative_tokens: int | None = None

    def change(self, two_sided_error: float) -> Change:
        """Return the row with an interval that misses with this chance."""
        difference, relative = self._intervals(two_sided_error)
        return Change(
            quality=self.quality,
            label=self.label,
            num_speculative_tokens=self.num_speculative_tokens,
            before=self.before,
            after=self.after,
            difference=difference,
            relative=relative,
            p_value=self._p_value() if difference is not None else None,
            paired=self.paired,
            samples=self.samples,
        )

    def _intervals(self, two_sided_error: float) -> tuple[Interval | None, Interval | None]:
        if self.degrees <= 0 or not math.isfinite(self.standard_error) or self.before <= 0:
            return None, None
        reach = student_quantile(two_sided_error, self.degrees) * self.standard_error
        mid = self._rounded()
        ends = (mid - reach, mid, mid + reach)
        if self.is_log:
            relative = [math.expm1(end) for end in ends]
            return _interval([self.before * end for end in relative]), _interval(relative)
        return _interval(ends), _interval([end / self.before for end in ends])

    def _rounded(self) -> float:
        scale = 1.0 if self.is_log else abs(self.before)
        return 0.0 if abs(self.difference) <= _NOTHING * scale else self.difference

    def _p_value(self) -> float:
        mid = self._rounded()
        if mid == 0:
            return 1.0
        if self.standard_error == 0:
            return 0.0
        return two_sided_p(mid / self.standard_error, self.degrees)


def _interval(ends: Sequence[float]) -> Interval:
    return Interval(low=ends[0], mid=ends[1], high=ends[2])


def ratio_error(parts: Floats) -> tuple[float, float]:
    """Return the standard error of a ratio from its requests' parts, and degrees of freedom."""
    count = len(parts)
    if count < 2:
        return math.inf, 0.0
    return math.sqrt(count / (count - 1) * float((parts**2).sum())), count - 1.0


def difference_error(before: Ratio, after: Ratio, *, paired: bool) -> tuple[float, float]:
    """Return the standard error of a difference of two ratios, and degrees of freedom.

    Where the same requests stand on both sides, they are compared with themselves: how hard a
    prompt is drops out. Otherwise the two errors add (degrees by Welch and Satterthwaite).
    """
    if paired:
        return ratio_error(after.parts - before.parts)
    return combined([ratio_error(before.parts), ratio_error(after.parts)])


def combined(errors: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the error of a sum of independent figures, and its degrees of freedom."""
    squares = [(error**2, degrees) for error, degrees in errors]
    if any(degrees <= 0 or not math.isfinite(square) for square, degrees in squares):
        return math.inf, 0.0
    total = sum(square for square, _ in squares)
    if total == 0:
        return 0.0, min(degrees for _, degrees in squares)
    spread = sum(square**2 / degrees for square, degrees in squares)
    return math.sqrt(total), total**2 / spread if spread > 0 else math.inf


def changes(groups: Sequence[Sequence[Contrast]]) -> tuple[Change, ...]:
    """Return all rows with simultaneous intervals: each group has its part of the 5 %."""
    used = [[one for one in group if math.isfinite(one.after)] for group in groups]
    used = [group for group in used if group]
    return tuple(
        one.change(FAMILY_ERROR / len(used) / len(group)) for group in used for one in group
    )
