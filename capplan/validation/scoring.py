"""How far predictions are from measurements: error, bias, right sign, interval coverage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

NOMINAL_COVERAGE = 0.90
"""Share of the measurements that the intervals of :class:`Scored` are meant to contain."""


@dataclass(frozen=True)
class Scored:
    """One measurement beside its prediction, with the nominal 90 % interval of the prediction.

    Attributes
    ----------
    source
        Key of the published source; the sets of a result are named after it.
    measured, predicted, low, high
        In the same unit, positive.
    is_speedup
        Whether 1 means "no faster": only then the sign of (value - 1) is scored.
    label
        What the row is, for people who look at residuals.
    """

    source: str
    measured: float
    predicted: float
    low: float
    high: float
    is_speedup: bool
    label: str = ""

    @property
    def relative_error(self) -> float:
        """Return predicted over measured less one."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True)
class Score:
    """Errors as fractions of the measured values; None where nothing could be scored.

    Attributes
    ----------
    n
        Rows scored.
    mape, bias
        Mean absolute and mean signed error.
    sign_accuracy
        Share of the rows whose (speedup - 1) has the right sign; rows measured at exactly 1
        have none. None unless the mode predicts speedups.
    coverage
        Share of the measurements inside their interval, nominally 90 %.
    """

    n: int
    mape: float
    bias: float
    sign_accuracy: float | None
    coverage: float

    def to_json(self) -> dict[str, float | int | None]:
        """Return the plain values of the JSON output."""
        return {
            "n": self.n,
            "mape": self.mape,
            "bias": self.bias,
            "sign_accuracy": self.sign_accuracy,
            "coverage": self.coverage,
        }


@dataclass(frozen=True)
class ModeResult:
    """What one mode reached, pooled and a source."""

    pooled: Score
    sets: Mapping[str, Score]
    rows: tuple[Scored, ...]


def score(rows: Sequence[Scored]) -> Score:
    """Score rows; there must be at least one."""
    error = np.array([row.relative_error for row in rows])
    inside = [row.low <= row.measured <= row.high for row in rows]
    signed = [row for row in rows if row.is_speedup and row.measured != 1.0]
    right = [(row.predicted > 1.0) == (row.measured > 1.0) for row in signed]
    return Score(
        n=len(rows),
        mape=float(np.abs(error).mean()),
        bias=float(error.mean()),
        sign_accuracy=sum(right) / len(right) if right else None,
        coverage=sum(inside) / len(inside),
    )


def result_of(rows: Sequence[Scored]) -> ModeResult | None:
    """Return the result of a mode, None where it found no data."""
    if not rows:
        return None
    by_source: defaultdict[str, list[Scored]] = defaultdict(list)
    for row in rows:
        by_source[row.source].append(row)
    sets = {source: score(group) for source, group in sorted(by_source.items())}
    return ModeResult(score(rows), sets, tuple(rows))
