"""What a plan saves against the best one without speculation, with its interval."""

from __future__ import annotations

import math

from capplan.reporting import formatting as fmt
from capplan.schema.plan import PlanOption
from capplan.schema.quantity import Quantity

_SAME = 0.005
"""Shares below it are nothing, as in the page's controls."""


def saving(option: Quantity, baseline: Quantity) -> Quantity:
    """Return the share of the cost saved, with its interval.

    The two spreads are taken as independent and combined in the logarithm. Errors that both
    share (step time, price) would cancel, so the interval is on the wide side.
    """
    ratio = option.mid / baseline.mid
    up = math.hypot(_log_spread(option.high, option.mid), _log_spread(baseline.mid, baseline.low))
    down = math.hypot(
        _log_spread(option.mid, option.low), _log_spread(baseline.high, baseline.mid)
    )
    return Quantity(low=1 - ratio * math.exp(up), mid=1 - ratio, high=1 - ratio / math.exp(down))


def _log_spread(above: float, below: float) -> float:
    return math.log(above / below) if above > below > 0 else 0.0


def saving_text(best: PlanOption, baseline: PlanOption | None) -> str:
    """Return ``saves 23 % (15-30 %)``, ``costs the same``; empty without one to compare with."""
    if baseline is None or best.id == baseline.id:
        return ""
    share = saving(best.usd_per_million_output_tokens, baseline.usd_per_million_output_tokens)
    if abs(share.mid) < _SAME:
        return f"costs the same{_around_nothing(share)}"
    if share.mid >= 0:
        return f"saves {fmt.percent_interval(share)}"
    more = Quantity(low=-share.high, mid=-share.mid, high=-share.low)
    return f"costs {fmt.percent_interval(more)} more"


def _around_nothing(share: Quantity) -> str:
    """Return the ends of a saving of nothing: `` (50 % less to 100 % more)``; empty for none."""
    if max(share.high, -share.low) < _SAME:
        return ""
    return f" ({fmt.percent(share.high)} less to {fmt.percent(-share.low)} more)"
