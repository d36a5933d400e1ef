"""What to look at on the first replica before the whole load goes to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.reporting.crossing_view import Crossing
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption
from capplan.schema.price import Purchase
from capplan.schema.quantity import Quantity
from capplan.schema.workload import Slo


@dataclass(frozen=True)
class Check:
    """One figure to hold against the plan's."""

    what: str
    planned: str
    stop_if: str
    how: str
    """A command, or what to look at."""
    origin: str
    is_command: bool = True


_WATCH = "capplan watch URL --plan plan.json"


def build_checks(option: PlanOption, slo: Slo, crossing: Crossing | None) -> tuple[Check, ...]:
    """Return what to check, the figure that decides first."""
    speculates = option.method is not Method.NONE
    return (
        *(_speculation(option, crossing) if speculates else ()),
        *_latency(option, slo),
        *_room(option),
        *_offer(option),
    )


def _speculation(option: PlanOption, crossing: Crossing | None) -> Iterator[Check]:
    if option.acceptance is not None and option.round_ratio is not None:
        even = option.round_ratio.mid
        yield Check(
            "Tokens a round",
            fmt.number_interval(option.acceptance.tokens_per_round),
            f"below {fmt.number(even)}: a round takes that many plain steps, so speculation loses",
            _WATCH,
            "acceptance",
        )
    yield Check(
        "The text is the target's own",
        "unchanged by speculation",
        "it differs: every other figure is worthless then",
        _measure(option),
        "method",
    )
    if crossing is not None and crossing.mid is not None and crossing.mid > crossing.first:
        yield Check(
            "Requests at once a replica",
            f"{fmt.count(option.concurrency)} planned",
            f"above {fmt.number(crossing.mid, 2)} for long: speculation loses there",
            _WATCH,
            "concurrency",
        )


def _measure(option: PlanOption) -> str:
    """Return the command that times a replica and checks its text."""
    return f"capplan profile {shlex.quote(option.target)} --server URL -o replica.json"


def _latency(option: PlanOption, slo: Slo) -> Iterator[Check]:
    for name, origin, value, limit_ms in (
        ("Time per output token", "tpot", option.tpot_ms, slo.tpot_ms),
        ("Time to first token", "ttft", option.ttft_ms, slo.ttft_ms),
    ):
        yield Check(
            name,
            fmt.milliseconds_interval(value),
            _beyond(value, limit_ms),
            _measure(option),
            origin,
        )


def _beyond(value: Quantity, limit_ms: float | None) -> str:
    if limit_ms is None:
        return f"above {fmt.milliseconds(value.high)}, the high end: the plan's times do not hold"
    near = "; the interval reaches beyond it" if value.high > limit_ms else ""
    return f"above the limit of {fmt.milliseconds(limit_ms)}{near}"


def _room(option: PlanOption) -> Iterator[Check]:
    tokens = option.memory.kv_tokens
    yield Check(
        "KV pool of a replica",
        f"{fmt.number(tokens)} tokens",
        f"the engine reports fewer: it holds fewer than {fmt.count(option.max_concurrency)} "
        "requests at once then",
        "the engine's log at its start",
        "memory",
        is_command=False,
    )


def _offer(option: PlanOption) -> Iterator[Check]:
    dated = option.price_source.date
    yield Check(
        "Price",
        f"{fmt.usd(option.usd_per_gpu_hour)} USD a {option.unit}-hour",
        "the provider asks for more today",
        f"the provider's own page{f'; it was read on {dated}' if dated else ''}",
        "price",
        is_command=False,
    )
    if option.purchase is Purchase.SPOT:
        yield Check(
            "Interruptions",
            "none planned for",
            "spot capacity is taken away more often than the service can bear",
            "the provider's own figures; capplan what-if plan.json --spot-share",
            "price",
            is_command=False,
        )
