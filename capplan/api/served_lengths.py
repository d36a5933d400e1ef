"""Which lengths a simulated load has: stated ones, else those that its source knows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.api.served_machine import Machine
from capplan.api.serving_wishes import ServingWishes
from capplan.errors import RequestError
from capplan.estimate.kv_room import resident_tokens
from capplan.estimate.request_lengths import (
    DrawnRequests,
    RequestKind,
    draw_requests,
    request_kinds,
)
from capplan.estimate.serving_traffic import Traffic, traffic
from capplan.estimate.traffic import mean_requests_per_s
from capplan.planning.part_plans import PartPlan
from capplan.schema.services import NamedWorkload
from capplan.schema.serving_load import SimulatedLengths
from capplan.schema.workload import Workload

Integers = NDArray[np.int64]

_BLOCK_TOKENS = 16
"""Of the KV pool, as the simulated engine hands it out."""
_STATED = "as stated"
_MOST_CUT = 0.1
"""Share of the requests; as many bad rows make a trace another one, too."""


def kinds_of_services(
    services: Sequence[NamedWorkload], part: PartPlan
) -> tuple[RequestKind, ...]:
    """Return what the requests of a part are drawn from.

    Of services that share its replicas each, with its share of the requests.
    """
    hours = float(part.plan.request.hours_per_month)
    loads = [
        (mean_requests_per_s(one.workload, hours) or 0.0, one.workload)
        for one in services
        if one.name in part.services
    ]
    if not loads or len(loads) < len(part.services):
        loads = [(1.0, part.plan.request.workload)]
    return request_kinds(loads)


def typical_longest(workload: Workload) -> int:
    """Return a context that hardly any step exceeds, to which step times are tabulated.

    A whole request of mean length; where lengths vary, what one of a hundred requests that a step
    meets holds, if that is more.
    """
    whole = float(workload.prompt_tokens + workload.output_tokens)
    return round(max(whole, float(resident_tokens(workload).of_batch(1))))


def traffic_of(
    machine: Machine, wishes: ServingWishes, longest_n: int, prefix_hit_share: float
) -> tuple[Traffic, tuple[str, ...]]:
    """Return the requests to simulate, and what to know of them.

    Stated lengths are taken as they are; others are drawn, and cut to what the engine admits.

    Raises
    ------
    RequestError
        If more than a few of those drawn are longer than that.
    """
    drawn = _drawn(machine, wishes, longest_n)
    prompts: ArrayLike | None = wishes.prompt_tokens
    outputs: ArrayLike | None = wishes.output_tokens
    if prompts is None:
        prompts = machine.prompt_tokens if drawn is None else drawn.prompt_tokens
    if outputs is None:
        outputs = machine.output_tokens if drawn is None else drawn.output_tokens
    load = traffic(
        wishes.requests, prompts, outputs, prefix_hit_share=prefix_hit_share, seed=wishes.seed
    )
    if drawn is None or not drawn.cut:
        return load, ()
    longer = "request is" if drawn.cut == 1 else "requests are"
    most = _admitted(machine, wishes, longest_n)
    said = (
        f"{drawn.cut:,} of {wishes.requests:,} drawn {longer} longer than the {most:,} tokens "
        "that the engine admits"
    )
    if drawn.cut > _MOST_CUT * wishes.requests:
        raise RequestError(
            f"{said}: that would be another load.",
            "Give the engine a larger KV pool, or state shorter requests (--prompt-tokens, "
            "--output-tokens).",
        )
    return load, (f"{said}, and cut to that.",)


def _drawn(machine: Machine, wishes: ServingWishes, longest_n: int) -> DrawnRequests | None:
    stated = wishes.prompt_tokens is not None and wishes.output_tokens is not None
    if stated or not machine.kinds:
        return None
    admitted = _admitted(machine, wishes, longest_n)
    return draw_requests(machine.kinds, wishes.requests, wishes.seed, admitted)


def _admitted(machine: Machine, wishes: ServingWishes, longest_n: int) -> int | None:
    """Return the longest request that the engine is launched for and its pool holds."""
    pool = wishes.kv_tokens or machine.kv_tokens
    limits = [] if machine.longest_request is None else [machine.longest_request]
    if pool is not None:
        limits.append(pool // _BLOCK_TOKENS * _BLOCK_TOKENS - longest_n - 1)
    return max(min(limits), 2) if limits else None


def described_lengths(
    machine: Machine, wishes: ServingWishes, load: Traffic
) -> tuple[SimulatedLengths, SimulatedLengths]:
    """Return prompts and answers of a load in figures, with where they are from."""
    prompts = [kind.prompts.kind for kind in machine.kinds]
    outputs = [kind.outputs.kind for kind in machine.kinds]
    return (
        _described(load.prompt_tokens, wishes.prompt_tokens, prompts),
        _described(load.output_tokens, wishes.output_tokens, outputs),
    )


def _described(
    tokens: Integers, stated: int | Sequence[int] | None, kinds: Sequence[str]
) -> SimulatedLengths:
    p50, p90, p99 = np.percentile(tokens, [50, 90, 99])
    return SimulatedLengths(
        origin=_origin(stated, kinds),
        mean_tokens=float(tokens.mean()),
        p50_tokens=float(p50),
        p90_tokens=float(p90),
        p99_tokens=float(p99),
        longest_tokens=int(tokens.max()),
    )


def _origin(stated: int | Sequence[int] | None, kinds: Sequence[str]) -> str:
    if stated is not None:
        return _STATED
    if len(kinds) > 1:
        return f"{len(kinds)} kinds of requests ({', '.join(dict.fromkeys(kinds))})"
    return kinds[0] if kinds and kinds[0] != "fixed" else "the mean"


def correlation_of(load: Traffic) -> float:
    """Return Pearson's correlation of the lengths of a load; 0 where one never changes."""
    prompts, outputs = load.prompt_tokens, load.output_tokens
    if len(prompts) < 2 or not prompts.std() or not outputs.std():
        return 0.0
    return float(np.clip(np.corrcoef(prompts, outputs)[0, 1], -1.0, 1.0))
