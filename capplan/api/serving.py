"""A load on a profiled or planned machine, simulated step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capplan.api.adaptive import check_of_profile, read_source
from capplan.api.served_lengths import correlation_of, described_lengths, traffic_of
from capplan.api.served_machine import Machine, MachineWishes, machine_of_profile
from capplan.api.served_option import machine_of_plan
from capplan.api.serving_wishes import ServingWishes
from capplan.errors import RequestError
from capplan.estimate.serving_capacity import capacity_requests_per_s
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_results import SimulatedLoad
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.plan import Plan
from capplan.schema.serving_load import LatenciesMs, LoadAtRate, ServingLoad
from capplan.units import MS_PER_S

Floats = NDArray[np.float64]

Progress = Callable[[int, int, str], None]
"""Called with requests done, all requests, and what is being simulated."""


def simulate_serving(
    source: StoredProfile | Plan | Path | str,
    wishes: ServingWishes | None = None,
    *,
    rank: int | None = None,
    service: str | None = None,
    profiles: Sequence[StoredProfile] = (),
    calibrations: Sequence[StoredCalibration] = (),
    on_progress: Progress | None = None,
) -> ServingLoad:
    """Simulate continuous batching under Poisson arrivals: latencies, throughput, queue.

    Parameters
    ----------
    source
        A profile, or a plan (a file of either).
    wishes
        The load.
    rank
        Which option of a plan; the recommended one by default.
    service
        Of a plan of several services: which one's replicas.
    profiles, calibrations
        What the plan was made with.
    on_progress
        Told how far it is.

    Returns
    -------
    ServingLoad
        One entry a rate. The same wishes give the same figures.

    Raises
    ------
    RequestError
        For a load that is none, a request that does not fit, a profile with ``rank`` or
        ``service``, or a plan with several sets of replicas without ``service``.
    ProfileError
        If drafts are asked for and the profile traced none.
    """
    wishes = wishes or ServingWishes()
    found = source if isinstance(source, StoredProfile | Plan) else read_source(source)
    asked = MachineWishes(
        wishes.temperature,
        wishes.task,
        wishes.lengths,
        wishes.max_num_seqs,
        _longest(wishes),
        wishes.prefix_hit_share,
    )
    if isinstance(found, StoredProfile):
        check_of_profile(rank, service)
        machine = machine_of_profile(found, asked)
    else:
        machine = machine_of_plan(found, rank, service, asked, profiles, calibrations)
    return _simulated(machine, wishes, on_progress)


def _longest(wishes: ServingWishes) -> int | None:
    if wishes.prompt_tokens is None or wishes.output_tokens is None:
        return None
    return int(np.max(wishes.prompt_tokens) + np.max(wishes.output_tokens))


def _simulated(
    machine: Machine, wishes: ServingWishes, on_progress: Progress | None
) -> ServingLoad:
    cached = wishes.prefix_hit_share
    cached = machine.prefix_hit_share if cached is None else cached
    ranges = _ranges(machine, wishes)
    longest_n = max(n for _, _, n in ranges)
    load, cut = traffic_of(machine, wishes, longest_n, cached)
    limits, notes = _limits(machine, wishes, load, ranges)
    most = capacity_requests_per_s(load, limits, machine.clock, machine.accepted, seed=wishes.seed)
    capacity = most * machine.replicas
    rates = wishes.rates_per_s or tuple(share * capacity for share in wishes.shares)
    served = []
    for number, rate in enumerate(rates):
        arriving = load.at_rate(rate / machine.replicas, wishes.seed)
        run = simulate_load(
            arriving,
            limits,
            machine.clock,
            machine.accepted,
            seed=wishes.seed,
            on_progress=_progress(on_progress, number, rates, load.count),
        )
        served.append(_at_rate(run, rate, capacity, machine.replicas))
    mean_output = float(load.output_tokens.mean())
    prompts, outputs = described_lengths(machine, wishes, load)
    return ServingLoad(
        origin=machine.origin,
        target=machine.target,
        draft=machine.draft,
        method=machine.method.value,
        lengths=ranges,
        tokens_per_round=machine.accepted.tokens_per_round(limits.longest),
        replicas=machine.replicas,
        max_num_seqs=limits.max_num_seqs,
        max_num_batched_tokens=limits.max_num_batched_tokens,
        kv_tokens=limits.kv_tokens,
        mean_prompt_tokens=float(load.prompt_tokens.mean()),
        mean_output_tokens=mean_output,
        prompt_lengths=prompts,
        output_lengths=outputs,
        length_correlation=correlation_of(load),
        prefix_hit_share=cached,
        capacity_requests_per_s=capacity,
        capacity_output_tokens_per_s=capacity * mean_output,
        requests=load.count,
        seed=wishes.seed,
        rates=tuple(served),
        notes=(*machine.notes, *cut, *notes),
    )


def _ranges(machine: Machine, wishes: ServingWishes) -> tuple[tuple[int, int, int], ...]:
    """Return N by batch.

    Raises
    ------
    RequestError
        If the ranges of a schedule do not follow one another from batch 1.
    """
    most = wishes.max_num_seqs or machine.max_num_seqs
    if not wishes.schedule:
        return ((1, most, machine.num_speculative_tokens),)
    expected = 1
    for first, last, _ in wishes.schedule:
        if first != expected or last < first:
            raise RequestError(
                f"The range {first}-{last} of the schedule should begin at {expected}.",
                "Give ranges that follow one another, such as 1-8:3,9-64:1.",
            )
        expected = last + 1
    return wishes.schedule


def _limits(
    machine: Machine,
    wishes: ServingWishes,
    load: Traffic,
    ranges: tuple[tuple[int, int, int], ...],
) -> tuple[EngineLimits, tuple[str, ...]]:
    by_batch = [ranges[0][2]]
    for first, last, n in ranges:
        by_batch += [n] * (last - first + 1)
    max_num_seqs = wishes.max_num_seqs or machine.max_num_seqs
    kv_tokens = wishes.kv_tokens or machine.kv_tokens
    notes: tuple[str, ...] = ()
    if kv_tokens is None:
        longest = int((load.prompt_tokens + load.output_tokens).max())
        # a whole block more a request: none is ever short of room
        kv_tokens = max_num_seqs * (longest + max(by_batch) + 1 + 16)
        notes = ("The KV pool is taken to hold every request (a profile does not say its size).",)
    return EngineLimits(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=wishes.max_num_batched_tokens or machine.max_num_batched_tokens,
        kv_tokens=kv_tokens,
        num_speculative_tokens=by_batch,
        first_token_overhead_s=machine.first_token_overhead_s,
    ), notes


def _progress(
    tell: Progress | None, number: int, rates: Sequence[float], each: int
) -> Callable[[int], None] | None:
    if tell is None:
        return None
    label = f"{rates[number]:.3g} requests/s"
    return lambda ended: tell(number * each + ended, len(rates) * each, label)


def _at_rate(run: SimulatedLoad, rate: float, capacity: float, replicas: int) -> LoadAtRate:
    tpot_s = run.tpot_s
    # where the queue grows, requests come in a rush, and what is served shows after it
    steady = run.steady if rate < capacity else run.whole
    return LoadAtRate(
        requests_per_s=rate,
        share_of_capacity=rate / capacity,
        is_stable=rate < capacity,
        ttft=_latencies(run.ttft_s),
        tpot=_latencies(tpot_s) if len(tpot_s) else None,
        e2e=_latencies(run.e2e_s),
        output_tokens_per_s=steady.output_tokens_per_s * replicas,
        utilisation=min(steady.utilisation, 1.0),
        mean_batch=steady.mean_batch,
        mean_queue=max(steady.mean_queue, 0.0),
        max_queue=run.engine.max_queue,
        preemptions=run.engine.preemptions,
        kv_peak_share=run.kv_peak_share,
    )


def _latencies(seconds: Floats) -> LatenciesMs:
    p50, p90, p99 = np.percentile(seconds * MS_PER_S, [50, 90, 99])
    return LatenciesMs(
        mean_ms=float(seconds.mean()) * MS_PER_S, p50_ms=p50, p90_ms=p90, p99_ms=p99
    )
