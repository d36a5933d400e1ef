"""The length schedule of one option of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from capplan.api.plans import plan_inputs, ranked_option
from capplan.api.schedule_loads import ScheduleWishes, asked_load, clipped
from capplan.api.schedule_values import Context, Scheduled, schedule_value
from capplan.errors import RequestError
from capplan.estimate.adaptive import plan_lengths
from capplan.estimate.length_spread import (
    LENGTH_SCATTER,
    LengthDraws,
    RoundSpread,
    gain_interval,
    tokens_of_curve,
)
from capplan.planning.length_grid import option_grid
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.schedule import LengthSchedule

Floats = NDArray[np.float64]

_SEED = 0


def schedule_of_plan(
    plan: Plan,
    wishes: ScheduleWishes,
    rank: int | None,
    profiles: Sequence[StoredProfile],
    calibrations: Sequence[StoredCalibration],
) -> LengthSchedule:
    """Compute the schedule of an option; the plan's own load by default.

    Raises
    ------
    RequestError
        If the option drafts nothing, or what the plan rests on was not given.
    """
    option = _speculating(plan, rank)
    asked = plan.request
    changes = {
        name: value
        for name, value in (("temperature", wishes.temperature), ("task", wishes.task))
        if value is not None
    }
    workload = asked.workload.model_copy(update=changes)
    half = workload.output_tokens // 2
    contexts = wishes.contexts or (workload.prompt_tokens + half,)
    parts: list[tuple[Scheduled, str]] = []
    for context in contexts:
        at = workload.model_copy(update={"prompt_tokens": max(context - half, 1)})
        longest = wishes.max_num_speculative_tokens or asked.max_num_speculative_tokens
        changed = asked.model_copy(update={"workload": at, "max_num_speculative_tokens": longest})
        request, inputs = plan_inputs(changed, profiles, calibrations=calibrations)
        grid = option_grid(option, inputs, request)
        largest = len(grid.times.batches)
        if parts:  # further contexts hold fewer requests: the same load, as far as it fits
            load = clipped(parts[0][0].load, largest)
            words = parts[0][1]
        else:
            load, words = _plan_load(wishes, option, largest)
        chosen = plan_lengths(grid.times, load, wishes.merge_loss)
        tokens = tokens_of_curve(grid.tokens_relative_se, _SEED)
        spread = RoundSpread(grid.round_relative_se, LENGTH_SCATTER)
        draws = LengthDraws.of(tokens, spread, grid.times.lengths, _SEED + 1)
        gain = gain_interval(grid.times, chosen, load, draws)
        captured = wishes.captured or grid.captured_tokens
        parts.append((Scheduled(grid.times, chosen, load, gain, context, captured), words))
    return schedule_value(
        parts[0][0],
        [Context(context, part.plan) for context, (part, _) in zip(contexts, parts, strict=True)],
        load_words=parts[0][1],
        origin=f"option {option.id}",
        pairing=(option.target, option.draft or "", option.method),
        data_parallel=option.replicas,
    )


def _plan_load(wishes: ScheduleWishes, option: PlanOption, largest: int) -> tuple[Floats, str]:
    if wishes.load is None and wishes.mean_batch is None:
        planned = replace(wishes, mean_batch=min(float(option.concurrency), float(largest)))
        load, words = asked_load(planned, largest, "the replica's limit")
        return load, f"{words}: the plan's own at each of {option.replicas} replicas"
    return asked_load(wishes, largest, "the replica's limit")


def _speculating(plan: Plan, rank: int | None) -> PlanOption:
    if rank is not None:
        option = ranked_option(plan, rank)
        if option.method is not Method.NONE:
            return option
        raise RequestError(
            f"Option {rank} drafts nothing: it has no lengths.", "Name one that speculates."
        )
    for option in plan.options:
        if option.method is not Method.NONE:
            return option
    raise RequestError(
        "No option of the plan speculates: there are no lengths to choose.",
        "Plan with a pairing whose acceptance is known (capplan facts pairings, or --profile).",
    )
