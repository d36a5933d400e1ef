"""How far a measurement can be trusted: every reason has a number, a threshold and a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from capplan.schema.verdict import Reason, Stability, Verdict

SPREAD_NOISY = 0.05
"""Robust standard deviation over median above which a cell is noisy.

pyperf warns at 10 % of the mean; the median deviation of a few values is smaller than their
standard deviation, and a cost ratio divides two such cells.
"""
SPREAD_INVALID = 0.5
"""The same, above which a cell says nothing (pyperf's own limit for a useless result)."""
OUTLIER_SIGMAS = 5.0
OUTLIER_SHARE_NOISY = 0.2
MIN_VALUES = 3
SENTINEL_DRIFT_NOISY = 0.02
"""The sentinel point may move by 2 % between start, middle and end."""
MAD_TO_SIGMA = 1.4826
"""Median absolute deviation of a normal distribution, to its standard deviation."""

STABLE = Verdict(stability=Stability.STABLE)
_RANK = {stability: rank for rank, stability in enumerate(Stability)}


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst stability and the reasons, those of the worst verdicts first.

    What was found several times (at the start and the end of a run, in every part of a resumed
    one) is told once, by the value furthest beyond its threshold.
    """
    worst_first = sorted(verdicts, key=lambda v: -_RANK[v.stability])
    worst = worst_first[0].stability if worst_first else STABLE.stability
    told: dict[tuple[str, float, str], Reason] = {}
    for reason in (reason for verdict in worst_first for reason in verdict.reasons):
        found = (reason.check, reason.threshold, reason.remedy)
        told[found] = max(told.get(found, reason), reason, key=_beyond)
    return Verdict(stability=worst, reasons=tuple(told.values()))


def _beyond(reason: Reason) -> float:
    return abs(reason.value - reason.threshold)


def doubt(
    check: str, value: float, threshold: float, remedy: str, stability: Stability = Stability.NOISY
) -> Verdict:
    """Return a verdict with one reason."""
    reason = Reason(check=check, value=round(value, 6), threshold=threshold, remedy=remedy)
    return Verdict(stability=stability, reasons=(reason,))


def robust_spread(values: Sequence[float]) -> float:
    """Return the robust standard deviation over the median (0 for a single value)."""
    centre = median(values)
    if centre <= 0:
        return 0.0
    return MAD_TO_SIGMA * median(abs(value - centre) for value in values) / centre


def outlier_share(values: Sequence[float]) -> float:
    """Return the share of values beyond ``OUTLIER_SIGMAS`` robust deviations and the spread limit.

    Outliers are counted, never dropped. Values that hardly differ from the median do not count,
    however small the deviation of the others.
    """
    centre = median(values)
    limit = max(OUTLIER_SIGMAS * robust_spread(values), SPREAD_NOISY) * centre
    return sum(abs(value - centre) > limit for value in values) / len(values)


def judge_seconds(seconds: Sequence[float]) -> Verdict:
    """Judge the raw values of one timing cell."""
    return combine(_seconds_doubts(seconds))


def _seconds_doubts(seconds: Sequence[float]) -> Iterable[Verdict]:
    if len(seconds) < MIN_VALUES:
        remedy = "Give the run more time (--budget-minutes)."
        yield doubt("too_few_values", len(seconds), MIN_VALUES, remedy)
    if median(seconds) <= 0:
        remedy = "Report this machine's clock: a pass cannot take no time."
        yield doubt("zero_time", 0.0, 0.0, remedy, Stability.INVALID)
        return
    spread = robust_spread(seconds)
    if spread > SPREAD_INVALID:
        remedy = "Measure on an idle machine: other work took turns with this cell."
        yield doubt("spread", spread, SPREAD_INVALID, remedy, Stability.INVALID)
    elif spread > SPREAD_NOISY:
        remedy = "Stop other programs, fix the clocks, or take more repetitions."
        yield doubt("spread", spread, SPREAD_NOISY, remedy)
    share = outlier_share(seconds)
    if share > OUTLIER_SHARE_NOISY:
        remedy = "Stop other programs: single passes took far longer than the rest."
        yield doubt("outliers", share, OUTLIER_SHARE_NOISY, remedy)


def judge_sentinel(medians_s: Sequence[float]) -> Verdict:
    """Judge repeated measurements of the sentinel point, in the order they were taken."""
    if len(medians_s) < 2 or medians_s[0] <= 0:
        return STABLE
    drift = max(abs(value / medians_s[0] - 1.0) for value in medians_s[1:])
    if drift <= SENTINEL_DRIFT_NOISY:
        return STABLE
    remedy = (
        "The machine changed speed during the run (heat, clocks, other work): "
        "measure again when it is idle, or lock the clocks."
    )
    return doubt("sentinel_drift", drift, SENTINEL_DRIFT_NOISY, remedy)
