"""An option of a plan as the serving simulation takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.api.plans import plan_inputs, ranked_option
from capplan.api.served_machine import Machine, MachineWishes
from capplan.estimate.serving_acceptance import accepted_from_curve
from capplan.estimate.serving_clocks import PrefillTimes, tabulated_clock
from capplan.planning.inputs import PlanInputs
from capplan.planning.length_grid import evaluate_option
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.plan import Plan, PlanOption, PlanRequest, Tier

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_CONTEXTS = 5
_TTFT_NOTE = (
    "Times to first token: 140 published rows, simulated with their own clients, were 28 % off on "
    "average (18 % in the median; docs/method/serving-simulation.md)."
)


def machine_of_plan(
    plan: Plan,
    rank: int | None,
    wishes: MachineWishes,
    profiles: Sequence[StoredProfile],
    calibrations: Sequence[StoredCalibration],
) -> Machine:
    """Return one replica of an option of a plan, evaluated again at several contexts.

    Raises
    ------
    RequestError
        If the facts and profiles at hand do not hold what the plan was made with.
    """
    option = ranked_option(plan, rank or 1)
    request, inputs = plan_inputs(plan.request, profiles, calibrations=calibrations)
    changed = {
        name: value
        for name, value in (("temperature", wishes.temperature), ("task", wishes.task))
        if value is not None
    }
    longest_n = max(wishes.lengths or (option.num_speculative_tokens,))
    request = request.model_copy(
        update={
            "workload": request.workload.model_copy(update=changed),
            "max_num_speculative_tokens": max(longest_n, 1),
        }
    )
    work = request.workload
    longest = wishes.longest_request or work.prompt_tokens + work.output_tokens
    max_num_seqs = wishes.max_num_seqs or option.max_concurrency
    rounds = _OptionRounds.of(option, inputs, request, longest)
    prefill, outside_s = _plan_prefill(option, inputs, request, rounds)
    clock = tabulated_clock(
        rounds.seconds,
        max_batch=max_num_seqs,
        lengths=sorted({0, *(wishes.lengths or (option.num_speculative_tokens,))}),
        contexts=rounds.contexts,
        prefill=prefill,
    )
    return Machine(
        origin=f"option {option.id}",
        target=option.target,
        draft=option.draft or "",
        method=option.method,
        clock=clock,
        accepted=accepted_from_curve(rounds.tokens_per_round),
        num_speculative_tokens=longest_n,
        replicas=option.replicas,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=int(rounds.max_num_batched_tokens),
        kv_tokens=int(option.memory.kv_tokens),
        prompt_tokens=work.prompt_tokens,
        output_tokens=work.output_tokens,
        first_token_overhead_s=outside_s,
        requests_per_s=_planned_requests_per_s(plan.request, option),
        notes=(f"Step times: {option.tier_note}.", _TTFT_NOTE),
    )


def _planned_requests_per_s(request: PlanRequest, option: PlanOption) -> float:
    stated = request.workload.requests_per_s
    planned = option.planned_output_tokens_per_s / request.workload.output_tokens
    return stated if stated is not None else planned


@dataclass(frozen=True)
class _OptionRounds:
    """Rounds of an option over batches, lengths and contexts; no prompts among them."""

    contexts: tuple[float, ...]
    batches: Floats
    plain_s: tuple[Floats, ...]
    """By context, then batch."""
    round_s: tuple[Floats, ...]
    """By context, then N (from 1) and batch; empty without drafts."""
    tokens_per_round: tuple[float, ...]
    max_num_batched_tokens: float

    @classmethod
    def of(
        cls, option: PlanOption, inputs: PlanInputs, request: PlanRequest, longest: int
    ) -> _OptionRounds:
        contexts = np.linspace(2.0, max(float(longest), 4.0), _CONTEXTS)
        plain_s, round_s = [], []
        grid = evaluate_option(option, inputs, request).grid
        for context in contexts:
            # One token of prompt to a long answer: the mean context is as wanted, and hardly any
            # time of others' prompts is shared out among the tokens.
            pure = {"prompt_tokens": 1, "output_tokens": max(2, round(2 * (context - 1)))}
            at = request.model_copy(update={"workload": request.workload.model_copy(update=pure)})
            grid = evaluate_option(option, inputs, at).grid
            plain_s.append(grid.baseline_tpot_s[0, 0])
            round_s.append(grid.tpot_s[0] * grid.tokens_per_round[:, None])
        drafts = bool(grid.lengths[0])
        tokens = (1.0, *grid.tokens_per_round.tolist()) if drafts else (1.0,)
        batched = float(np.ravel(grid.memory.max_num_batched_tokens)[0])
        return cls(
            tuple(contexts.tolist()),
            grid.batches,
            tuple(plain_s),
            tuple(round_s) if drafts else (),
            tokens,
            batched,
        )

    def seconds(self, batches: Integers, n: int, context: float) -> Floats:
        """Return rounds at one of the contexts."""
        place = self.contexts.index(context)
        row = self.plain_s[place] if n == 0 else self.round_s[place][n - 1]
        result: Floats = np.interp(batches, self.batches, row)
        return result


def _plan_prefill(
    option: PlanOption, inputs: PlanInputs, request: PlanRequest, rounds: _OptionRounds
) -> tuple[PrefillTimes, float]:
    """Return what prompts take, and what of a first token lies outside the engine's steps.

    Read off the evaluated option: what others' prompts add to a token at its largest batch, and
    how much longer a prompt takes by itself.
    """
    work = request.workload
    grid = evaluate_option(option, inputs, request).grid
    context = work.prompt_tokens + work.output_tokens / 2.0
    largest = len(grid.batches) - 1
    decode_s = np.interp(context, rounds.contexts, [row[largest] for row in rounds.plain_s])
    added_s = float(grid.baseline_tpot_s[0, 0, largest] - decode_s)
    beside_s = max(added_s, 0.0) * work.output_tokens / (grid.batches[largest] - 1.0)
    outside_s = 0.0 if option.tier is Tier.PROFILED else inputs.engine.first_token_s
    alone_s = float(grid.ttft_s[0, 0, 0]) - outside_s - beside_s
    return PrefillTimes(beside_s / work.prompt_tokens, max(alone_s, 0.0)), outside_s
