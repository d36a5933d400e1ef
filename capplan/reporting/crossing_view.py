"""Where speculation stops paying: the load at which a speedup falls to 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.schema.plan import LoadPoint, PlanOption


@dataclass(frozen=True)
class Crossing:
    """Requests at once a replica from which one length loses; None: not at any load that fits.

    ``early`` and ``late`` are those of the low and the high end of the speedup's interval.
    """

    length: int
    first: int
    """Least load of the curve, and so the least that a crossing can be told to be."""
    last: int
    """Largest load that memory holds."""
    early: float | None
    mid: float | None
    late: float | None

    @property
    def sentence(self) -> str:
        """Say from where on speculation loses."""
        at = f"N = {self.length}"
        if self.mid is None:
            said = f"At {at} speculation pays at every load that memory holds (to {self.last:,})"
            if self.early is None:
                return f"{said}, over the whole interval."
            return f"{said}; the low end of the interval is below 1x from {_load(self.early)} on."
        if self.mid <= self.first:
            return f"At {at} speculation loses at every load that memory holds."
        early = _load(self.early) if self.early is not None else f"{self.first:,}"
        late = _load(self.late) if self.late is not None else f"beyond {self.last:,}"
        return (
            f"At {at} speculation loses from {_load(self.mid)} requests at once on; "
            f"with the interval, from {early} to {late}."
        )


def build_crossing(option: PlanOption) -> Crossing | None:
    """Return where an option's own length crosses 1x; None where it does not draft."""
    curve = sorted(option.load_curve, key=lambda point: point.concurrency)
    if not curve or not option.num_speculative_tokens:
        return None
    return Crossing(
        length=option.num_speculative_tokens,
        first=curve[0].concurrency,
        last=curve[-1].concurrency,
        early=_falls_below_one(curve, lambda point: point.speedup.low),
        mid=_falls_below_one(curve, lambda point: point.speedup.mid),
        late=_falls_below_one(curve, lambda point: point.speedup.high),
    )


def _falls_below_one(
    curve: Sequence[LoadPoint], speedup: Callable[[LoadPoint], float]
) -> float | None:
    """Return the load from which the speedup stays below 1, straight between the points."""
    paying = [at for at, point in enumerate(curve) if speedup(point) >= 1]
    if not paying:
        return float(curve[0].concurrency)
    last = paying[-1]
    if last == len(curve) - 1:
        return None
    here, beyond = curve[last], curve[last + 1]
    share = (speedup(here) - 1.0) / (speedup(here) - speedup(beyond))
    return here.concurrency + share * (beyond.concurrency - here.concurrency)


def _load(value: float) -> str:
    return fmt.number(value, 2)
