"""Why one amount became another: shares that add up to the difference, to the cent.

An amount that is a product of factors moves by the sum of what each factor did, weighed by the
logarithmic mean of the two amounts (logarithmic mean Divisia index, Ang 2005): nothing is left
over, no order among the factors is assumed, and exchanging the two amounts turns every sign.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


@dataclass(frozen=True)
class Factor:
    """One factor of an amount, before and after; both above 0."""

    before: float
    after: float


def logarithmic_mean(one: float, other: float) -> float:
    """Return ``(a - b) / (ln a - ln b)``: between the geometric and the arithmetic mean."""
    if math.isclose(one, other, rel_tol=1e-12):
        return (one + other) / 2
    return (one - other) / (math.log(one) - math.log(other))


def decompose(
    before: Decimal, after: Decimal, factors: Mapping[str, Factor], quantum: Decimal = CENT
) -> dict[str, Decimal]:
    """Return what each factor added, in whole ``quantum``; the sum is the rounded difference.

    Parameters
    ----------
    before, after
        Amounts above 0; each is the product of its factors, up to a constant that both share.
    factors
        By name. What they leave unexplained (an amount that is not quite their product) is
        shared out among them by the size of their parts.
    quantum
        The smallest unit, a cent by default.

    Returns
    -------
    dict
        In the order of ``factors``. The parts of the largest remainders are rounded away from
        their floor so that the sum is exact.
    """
    total = after.quantize(quantum, ROUND_HALF_UP) - before.quantize(quantum, ROUND_HALF_UP)
    if not factors:
        return {}
    weight = logarithmic_mean(float(after), float(before))
    raw = {
        name: weight * math.log(factor.after / factor.before) for name, factor in factors.items()
    }
    missing = float(total) - sum(raw.values())
    size = sum(map(abs, raw.values()))
    if size > 0:
        raw = {name: part + missing * abs(part) / size for name, part in raw.items()}
    elif missing:
        first = next(iter(raw))
        raw[first] += missing
    return _exact(raw, total, quantum)


def _exact(raw: Mapping[str, float], total: Decimal, quantum: Decimal) -> dict[str, Decimal]:
    """Round parts to whole quanta whose sum is the total (largest remainders)."""
    units = {name: Decimal(repr(part)) / quantum for name, part in raw.items()}
    floors = {name: unit.to_integral_value(ROUND_FLOOR) for name, unit in units.items()}
    missing = int(total / quantum - sum(floors.values()))
    # the parts add up to the total, so that less than one quantum a part is missing
    for name in sorted(units, key=lambda name: floors[name] - units[name])[:missing]:
        floors[name] += 1
    return {name: count * quantum for name, count in floors.items()}
