"""The length schedule of one option, from the request and the evidence it was planned with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

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
from capplan.planning.inputs import PlanInputs
from capplan.planning.length_grid import option_grid
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption, PlanRequest
from capplan.schema.schedule import LengthSchedule

Floats = NDArray[np.float64]

_SEED = 0
_CONTEXT_FACTORS = (0.25, 4.0)
"""Contexts that a plan lists beside its own: much shorter and much longer requests."""
_LEAST_CONTEXT = 64
_MOST_TARGETS = 3
"""Of many targets the best are scheduled: each takes as long as a plan of its own."""


def schedule_of_option(
    option: PlanOption, request: PlanRequest, inputs: PlanInputs, wishes: ScheduleWishes
) -> LengthSchedule:
    """Return the lengths of an option that drafts; the plan's own load by default.

    Raises
    ------
    RequestError
        If the load does not fit, or the inputs do not hold what the option rests on.
    """
    contexts = wishes.contexts or (_mean_context(request),)
    parts: list[tuple[Scheduled, str]] = []
    for context in contexts:
        changed = _at_context(request, wishes, context)
        grid = option_grid(option, inputs, changed)
        largest = len(grid.times.batches)
        if parts:  # further contexts hold fewer requests: the same load, as far as it fits
            load = clipped(parts[0][0].load, largest)
            words = parts[0][1]
        else:
            load, words = _planned_load(wishes, option, largest)
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


def plan_schedules(
    options: Sequence[PlanOption], request: PlanRequest, inputs: PlanInputs
) -> tuple[LengthSchedule, ...]:
    """Return the schedule of each target's best option that drafts, best targets first."""
    best: dict[str, PlanOption] = {}
    for option in options:
        if option.method is not Method.NONE:
            best.setdefault(option.target, option)
    found = []
    for option in list(best.values())[:_MOST_TARGETS]:
        limit = inputs.target(option.target).max_context
        wishes = ScheduleWishes(contexts=_listed_contexts(request, limit))
        try:
            found.append(schedule_of_option(option, request, inputs, wishes))
        except RequestError:
            continue  # nothing is known of it beyond the option's own load
    return tuple(found)


def _listed_contexts(request: PlanRequest, limit: int | None) -> tuple[int, ...]:
    mean = _mean_context(request)
    most = limit if limit is not None else max(_CONTEXT_FACTORS) * mean
    around = (int(min(max(factor * mean, _LEAST_CONTEXT), most)) for factor in _CONTEXT_FACTORS)
    return tuple(dict.fromkeys((mean, *around)))


def _mean_context(request: PlanRequest) -> int:
    return request.workload.prompt_tokens + request.workload.output_tokens // 2


def _at_context(request: PlanRequest, wishes: ScheduleWishes, context: int) -> PlanRequest:
    """Return the request with the wished traffic and the prompt that fills such a context."""
    prompt_tokens = max(context - request.workload.output_tokens // 2, 1)
    changes: dict[str, float | str | None] = {
        "temperature": wishes.temperature,
        "task": wishes.task,
        "prompt_tokens": prompt_tokens,
    }
    stated = {name: value for name, value in changes.items() if value is not None}
    workload = request.workload.model_copy(update=stated)
    longest = wishes.max_num_speculative_tokens or request.max_num_speculative_tokens
    return request.model_copy(update={"workload": workload, "max_num_speculative_tokens": longest})


def _planned_load(wishes: ScheduleWishes, option: PlanOption, largest: int) -> tuple[Floats, str]:
    if wishes.load is None and wishes.mean_batch is None:
        planned = replace(wishes, mean_batch=min(float(option.concurrency), float(largest)))
        load, words = asked_load(planned, largest, "the replica's limit")
        each = "its replica" if option.replicas == 1 else f"each of {option.replicas} replicas"
        return load, f"{words}: the plan's own at {each}"
    return asked_load(wishes, largest, "the replica's limit")
