"""What a comparison looks at, and when what became worse fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capplan.schema.difference import (
    Change,
    Gate,
    Interval,
    PlanDifference,
    ProfileDifference,
    Quality,
)
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability

By = Literal["context", "hour"]
GateRule = Literal["mid", "certain"]


@dataclass(frozen=True)
class DiffWishes:
    """What to compare and how strictly.

    Attributes
    ----------
    lengths
        N to compare acceptance at; 1, 3 and 5 by default, the plan's N too where one is given.
    by
        Also show each profile by context or by hour.
    fail_over
        Worsening that fails, as a fraction; None: nothing fails.
    rule
        ``mid``: the middle of the worsening is above it and its interval leaves out none at all;
        ``certain``: the whole interval is above it.
    """

    lengths: tuple[int, ...] = ()
    by: tuple[By, ...] = ()
    fail_over: float | None = None
    rule: GateRule = "mid"


_RULES: dict[GateRule, str] = {
    "mid": "fails where the middle is above the limit and the interval leaves out no change",
    "certain": "fails where the whole interval is above the limit",
}


def profile_gate(found: ProfileDifference, after: Profile, wishes: DiffWishes) -> Gate | None:
    """Judge the speedup that fell most; without one the mean tokens a round."""
    if wishes.fail_over is None:
        return None
    if after.verdict.stability is Stability.INVALID:
        return Gate(
            figure=f"profile {after.id} judged itself invalid",
            allowed=wishes.fail_over,
            worsening=None,
            failed=True,
            rule="an invalid profile fails",
        )
    for quality in (Quality.SPEEDUP, Quality.TOKENS_PER_ROUND):
        rows = [row for row in found.changes if row.quality is quality and row.relative]
        if rows:
            gates = [_gate(row, wishes) for row in rows]
            return max(gates, key=lambda gate: (gate.failed, _mid(gate)))
    return Gate(
        figure="neither speedup nor acceptance could be compared",
        allowed=wishes.fail_over,
        worsening=None,
        failed=True,
        rule="what cannot be compared fails",
    )


def _mid(gate: Gate) -> float:
    return gate.worsening.mid if gate.worsening is not None else 0.0


def _gate(row: Change, wishes: DiffWishes) -> Gate:
    assert row.relative is not None
    assert wishes.fail_over is not None
    worse = row.relative.reversed()
    if wishes.rule == "certain":
        failed = worse.low > wishes.fail_over
    else:
        failed = worse.mid > wishes.fail_over and worse.low > 0
    at = f" at N={row.num_speculative_tokens}" if row.num_speculative_tokens else ""
    return Gate(
        figure=f"{row.quality.value.replace('_', ' ')}{at}, {row.label}",
        allowed=wishes.fail_over,
        worsening=worse,
        failed=failed,
        rule=_RULES[wishes.rule],
    )


def plan_gate(found: PlanDifference, allowed: float) -> Gate:
    """Judge the month's bill: it is exact, so its middle is all there is."""
    if found.usd_before is None or found.usd_after is None:
        worse = found.usd_before is not None
        return Gate(
            figure="a plan has no option",
            allowed=allowed,
            worsening=None,
            failed=worse,
            rule="fails where there was an option and there is none now",
        )
    rise = float(found.usd_after / found.usd_before) - 1.0
    return Gate(
        figure="USD a month",
        allowed=allowed,
        worsening=Interval(low=rise, mid=rise, high=rise),
        failed=rise > allowed,
        rule="fails where the bill is above the limit; a bill is exact",
    )
