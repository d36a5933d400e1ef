"""Assumptions of a plan moved one at a time, or all combinations of some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from capplan.errors import RequestError
from capplan.planning.pricing import Load
from capplan.planning.scenario_grid import ScenarioGrid
from capplan.schema.plan import PlanRequest
from capplan.schema.workload import Workload

MOVED = ("acceptance", "price", "load", "prompt", "output", "overhead")
"""What a tornado moves."""
FACTORS = (*MOVED[:5], "lengths", "overhead")
"""What a grid may vary; ``lengths`` are prompt and output together."""
MOST_SCENARIOS = 10_000
_OF_THE_REQUEST = ("prompt", "output")
_LEAST_TOKENS = {"prompt": 1, "output": 2}


def why_not_moved(request: PlanRequest, name: str) -> str | None:
    """Return why a plan does not have what a factor would scale; None where it does."""
    workload = request.workload
    if name == "load" and Load.of(request).tokens_per_s is None:
        return "the plan has no load; it buys the most tokens for its budget"
    spread = {
        "prompt": workload.prompt_lengths is not None,
        "output": workload.output_lengths is not None or _mix_has_lengths(workload),
    }
    if spread.get(name) or (name == "lengths" and any(spread.values())):
        return "the lengths are a distribution, which no factor stretches"
    return None


def _mix_has_lengths(workload: Workload) -> bool:
    return any(part.output_tokens is not None for part in workload.mix)


def with_lengths(request: PlanRequest, prompt: float, output: float) -> PlanRequest:
    """Return a request whose mean lengths are so many times as long; requests a second stay."""
    if (prompt, output) == (1.0, 1.0):
        return request
    workload = request.workload
    lengths = {
        f"{name}_tokens": max(round(now * factor), _LEAST_TOKENS[name])
        for name, now, factor in (
            ("prompt", workload.prompt_tokens, prompt),
            ("output", workload.output_tokens, output),
        )
    }
    return request.model_copy(update={"workload": workload.model_copy(update=lengths)})


def combinations(
    request: PlanRequest, factors: Mapping[str, Sequence[float]]
) -> Iterator[tuple[float, float, PlanRequest, ScenarioGrid]]:
    """Yield factors on prompt and output, the request with them, and the grid of all others.

    Raises
    ------
    RequestError
        If a factor is not known, is none, or scales what the plan does not have; if the
        combinations are too many.
    """
    _check(request, factors)
    others = {
        name: tuple(values) for name, values in factors.items() if name not in _OF_THE_REQUEST
    }
    lengths = (factors.get(name, (1.0,)) for name in _OF_THE_REQUEST)
    for prompt, output in product(*lengths):
        yield prompt, output, with_lengths(request, prompt, output), ScenarioGrid(**others)


def _check(request: PlanRequest, factors: Mapping[str, Sequence[float]]) -> None:
    count = 1
    for name, values in factors.items():
        if name not in FACTORS:
            raise RequestError(
                f"{name!r} is no factor of a plan.", f"Known are {', '.join(FACTORS)}."
            )
        _check_values(name, values)
        why = why_not_moved(request, name)
        if why is not None and any(value != 1 for value in values):
            raise RequestError(f"{name} cannot be varied: {why}.", "Leave it out.")
        count *= len(values)
    if count > MOST_SCENARIOS:
        raise RequestError(
            f"These factors make {count:,} scenarios, expected at most {MOST_SCENARIOS:,}.",
            "Vary fewer factors, or in larger steps.",
        )


def _check_values(name: str, values: Sequence[float]) -> None:
    if not values:
        raise RequestError(f"{name} has no factor.", f"Write them as {name}=0.5,1,2.")
    for value in values:
        if name in _OF_THE_REQUEST and not 0 < value < float("inf"):
            raise RequestError(f"A factor of {value:g} on {name} is none, expected more than 0.")
