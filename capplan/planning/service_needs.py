"""What a service would need that nothing serves: the least change of its limits, in words."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.economics.decimals import dollars
from capplan.planning.inputs import PlanInputs
from capplan.planning.ways_out import ways_out
from capplan.schema.answers import WayOut
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Slo

_LIMITS = (("tpot", "tpot_ms", "TPOT"), ("ttft", "ttft_ms", "TTFT"))


def least_need(inputs: PlanInputs, request: PlanRequest) -> tuple[str, str] | None:
    """Return why nothing serves a request at any budget, and the least limit that would help.

    Returns
    -------
    tuple of str, or None
        The reason without a full stop, and a sentence; None where no other limit helps.
    """
    kinds = [*(what for what, _, _ in _LIMITS), "limits"]
    # at any budget no smaller load helps either: limits are kept by a replica, not by a fleet
    ways = [way for way in ways_out(inputs, request) or () if way.what in kinds]
    if not ways:
        return None
    return f"nothing keeps {_limits(request.slo)} at any budget", _least(ways)


def _limits(slo: Slo) -> str:
    stated = [
        f"{label} within {limit:g} ms"
        for _, name, label in _LIMITS
        if (limit := getattr(slo, name)) is not None
    ]
    return " and ".join(stated) or "the limits"


def _least(ways: Sequence[WayOut]) -> str:
    return f"Least that helps: {'; or '.join(map(_words, ways))}."


def _words(way: WayOut) -> str:
    labels = {what: label for what, _, label in _LIMITS}
    then = f"then {dollars(way.usd_per_month)} USD a month ({way.choice})"
    if way.needed is None:
        return f"no limit on TPOT and TTFT, {then}, TPOT {way.tpot_ms:.3g} ms"
    return f"a {labels[way.what]} limit of {way.needed:,g} ms instead of {way.asked:,g}, {then}"
