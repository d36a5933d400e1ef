"""What a token takes at every batch and length of one option of a plan, computed anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.errors import RequestError
from capplan.estimate.adaptive import LengthTimes
from capplan.estimate.uncertainty import Z_95
from capplan.planning.calibrated import evaluate_rented
from capplan.planning.choices import HardwareChoice
from capplan.planning.drafting import Drafting, draftings_for
from capplan.planning.grid import Grid
from capplan.planning.hardware import Evaluated, can_profile, evaluate_machine
from capplan.planning.inputs import PlanInputs
from capplan.planning.memory import handed_out_bytes
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption, PlanRequest, Tier

Floats = NDArray[np.float64]

_AGAIN = "Give what the plan was made with: --profile FILE, --calibration FILE."


@dataclass(frozen=True)
class OptionGrid:
    """Times of an option's pairing on its hardware.

    Attributes
    ----------
    times
        On every batch from 1 to the option's limit, or what memory holds; N = 0 is plain
        serving of the same GPUs.
    tokens_relative_se, round_relative_se
        By length, the latter at the option's planned concurrency.
    captured_tokens
        Tokens of a step that the plan has captured; longer steps are left out. None on a CPU,
        which has no such graphs.
    """

    times: LengthTimes
    tokens_relative_se: Floats
    round_relative_se: Floats
    captured_tokens: int | None


def option_grid(option: PlanOption, inputs: PlanInputs, request: PlanRequest) -> OptionGrid:
    """Evaluate an option's pairing again, at every length and batch.

    Raises
    ------
    RequestError
        If the facts and profiles at hand do not hold the pairing or the GPU.
    """
    grid = evaluate_option(option, inputs, request).grid
    batches = np.arange(1, max(_largest(grid, option.max_concurrency), 1) + 1)
    lengths = np.concatenate([[0], grid.lengths])
    captured = None if option.on_cpu else int(inputs.engine.capturable_tokens)
    reach = np.inf if captured is None else captured
    seconds = [np.interp(batches, grid.batches, grid.baseline_tpot_s[0, 0])]
    for place, n in enumerate(grid.lengths):
        token_s = np.interp(batches, grid.batches, grid.tpot_s[0, place])
        fits = (batches <= _held(grid, place)) & (batches * (n + 1) <= reach)
        seconds.append(np.where(fits, token_s, np.inf))
    at = int(np.searchsorted(grid.batches, min(option.concurrency, grid.batches[-1])))
    return OptionGrid(
        times=LengthTimes.of(batches, lengths, np.stack(seconds, axis=1)),
        tokens_relative_se=np.concatenate([[0.0], grid.tokens_per_round_se]),
        round_relative_se=np.concatenate([[0.0], _round_se(grid, at)]),
        captured_tokens=captured,
    )


def _round_se(grid: Grid, at: int) -> Floats:
    """Return the error of the round ratio by length: the wider side of its interval."""
    reach = np.maximum(grid.round_log_down[0, :, at], grid.round_log_up[0, :, at])
    result: Floats = reach / Z_95
    return result


def _largest(grid: Grid, limit: int) -> int:
    """Return the largest batch whose requests the KV pool holds when one token is drafted."""
    return min(limit, int(_held(grid, 0)))


def _held(grid: Grid, place: int) -> float:
    """Return the requests that the KV pool holds at one length."""
    return float(grid.room_at(np.array([0]), np.array([place]))[0][0])


def evaluate_option(option: PlanOption, inputs: PlanInputs, request: PlanRequest) -> Evaluated:
    """Evaluate an option's pairing on its own hardware, for the load of a request.

    Raises
    ------
    RequestError
        If the facts and profiles at hand do not hold the pairing or the GPU.
    """
    target, drafting = inputs.target(option.target), _drafting(option, inputs, request)
    if option.tier is Tier.PROFILED:
        for machine in inputs.machines_for(option.target):
            if machine.gpu_id == option.gpu and can_profile(drafting, machine):
                return evaluate_machine(target, drafting, machine, inputs, request)
        raise RequestError(
            f"{option.id} rests on a profile of {option.gpu_name}, which was not given.", _AGAIN
        )
    gpu = inputs.gpus.get(option.gpu)
    if gpu is None:
        raise RequestError(f"The plan's GPU {option.gpu!r} is in no catalogue.", _AGAIN)
    memory = handed_out_bytes(gpu, inputs.engine)
    choice = HardwareChoice(gpu.id, gpu.name, memory, option.tensor_parallel, gpu)
    return evaluate_rented(target, drafting, [choice], inputs, request)[0]


def _drafting(option: PlanOption, inputs: PlanInputs, request: PlanRequest) -> Drafting:
    target = inputs.target(option.target)
    found = draftings_for(
        target,
        request,
        # the option's own: the curve of every other draft of the target would be fitted, too
        [
            pairing
            for pairing in inputs.pairings
            if pairing.target == target.id and pairing.draft == option.draft
        ],
        [fact for fact in inputs.acceptance if fact.target == target.id],
        dict(inputs.llms),
        [machine.evidence for machine in inputs.machines_for(target.id)],
    )
    for drafting in found:
        same = drafting.method is option.method and drafting.draft_id == option.draft
        known = drafting.acceptance is not None or drafting.method is Method.NONE
        if same and known and drafting.blocked is None:
            return drafting
    raise RequestError(
        f"Nothing at hand says how often {option.target} accepts {option.draft} "
        f"({option.method.value}).",
        _AGAIN,
    )
