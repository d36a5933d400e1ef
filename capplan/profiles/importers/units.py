"""The unit of latencies, found by how many requests were in flight; changed only if one fits.

Without a time end to end, first token and TPOT may be in two units: then it is only said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.profiles.importers.fields import UNIT_SECONDS, scaled
from capplan.profiles.importers.identities import identities, in_flight
from capplan.profiles.importers.reading import Reading
from capplan.schema.observation import Flag

_UNITS: Mapping[str, float] = {unit: UNIT_SECONDS[unit] for unit in ("s", "ms", "us", "ns")}
_FEWEST, _MOST = 0.2, 1.2
"""Share of its limit at which a closed loop can be: it starts a request as soon as one ends."""


def in_found_unit(reading: Reading) -> tuple[Reading, tuple[Flag, ...]]:
    """Return the reading with its latencies in the unit that they must have been written in.

    Only where first token, TPOT and end to end agree among themselves, the loop was closed, the
    unit taken puts far too few or too many requests in flight, and exactly one other does not.
    Where no time end to end is given, the latencies are left as they are and called doubtful.
    """
    little, limit = in_flight(reading), reading.observation.load.max_concurrency
    closed = reading.observation.load.arrival == "closed_loop"
    whole = reading.observation.e2e_s is not None
    if not little or limit is None or not closed or (whole and not _agree(reading)):
        return reading, ()
    if _FEWEST * limit <= little <= _MOST * limit:
        return reading, ()
    taken = UNIT_SECONDS.get(reading.stated.latency_unit.lower(), 1e-3)
    fitting = [
        unit
        for unit, seconds in _UNITS.items()
        if _FEWEST * limit <= little * seconds / taken <= _MOST * limit
    ]
    if len(fitting) != 1:
        return reading, ()
    if not whole:
        return reading, (_doubted(reading, fitting[0], little, limit),)
    return _rescaled(reading, _UNITS[fitting[0]] / taken), (
        _said(reading, fitting[0], little, limit),
    )


def _agree(reading: Reading) -> bool:
    """Whether all three latencies are given and fit each other: they share one unit."""
    found = [one for one in identities(reading) if one.check == "end_to_end"]
    return bool(found) and all(one.holds for one in found)


def _rescaled(reading: Reading, factor: float) -> Reading:
    o, s = reading.observation, reading.stated
    with_first = s.tpot_with_first_s
    return Reading(
        o.model_copy(
            update={
                name: scaled(getattr(o, name), factor)
                for name in ("ttft_s", "tpot_s", "e2e_s", "step_s")
            }
        ),
        replace(
            s,
            gap_s=scaled(s.gap_s, factor),
            tpot_with_first_s=with_first * factor if with_first is not None else None,
        ),
    )


def _said(reading: Reading, unit: str, little: float, limit: int) -> Flag:
    return Flag(
        check="unit_found",
        text=f"latencies are in {unit}: {_taken(reading, little, limit)}",
        remedy="Check one latency by hand if that is not what you expect.",
    )


def _doubted(reading: Reading, unit: str, little: float, limit: int) -> Flag:
    return Flag(
        check="unit_doubtful",
        text=f"latencies look like {unit}: {_taken(reading, little, limit)}; no time end to end "
        "is there to confirm it",
        remedy="Let the client save the time end to end too, or mend the unit in the file.",
        unusable_for=("capacity", "latency", "step_time"),
    )


def _taken(reading: Reading, little: float, limit: int) -> str:
    s = reading.stated
    named = "the field names say" if s.unit_is_named else "no field name says a unit, taken was"
    return (
        f"{named} {s.latency_unit}, which would put {little:.3g} requests in flight where the "
        f"client kept {limit}"
    )
