"""An option of a plan as the serving simulation takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.api.plans import plan_inputs
from capplan.api.served_lengths import kinds_of_services, typical_longest
from capplan.api.served_machine import Machine, MachineWishes
from capplan.deploy.from_option import longest_request
from capplan.errors import RequestError
from capplan.estimate.acceptance_mix import token_shares
from capplan.estimate.serving_acceptance import accepted_from_curve
from capplan.estimate.serving_clocks import PrefillTimes, tabulated_clock
from capplan.planning.inputs import PlanInputs
from capplan.planning.length_grid import evaluate_option
from capplan.planning.part_plans import the_part
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption, PlanRequest, Tier
from capplan.schema.workload import Workload, mean_temperature

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_CONTEXTS = 5
_LEAST_COMPUTED = 1e-9
"""Share of a prompt; a cache that is said to hold all of it is refused later."""
_TTFT_NOTE = (
    "Times to first token: 140 published rows, simulated with their own clients, were 28 % off on "
    "average (18 % in the median; docs/method/serving-simulation.md)."
)


def machine_of_plan(
    plan: Plan,
    rank: int | None,
    service: str | None,
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
    part = the_part(plan, service, rank or 1)
    option = part.option
    longest_n = max(wishes.lengths or (option.num_speculative_tokens,))
    if option.method is Method.NONE and longest_n:
        raise RequestError(
            f"Option {option.id} drafts nothing: N = {longest_n} is no way to run it.",
            "Choose an option that speculates (--option RANK), or N = 0.",
        )
    request, inputs = plan_inputs(part.plan.request, profiles, calibrations=calibrations)
    request = request.model_copy(
        update={
            "workload": _asked(request.workload, wishes),
            "max_num_speculative_tokens": max(longest_n, 1),
        }
    )
    work = request.workload
    longest = wishes.longest_request or typical_longest(work)
    max_num_seqs = wishes.max_num_seqs or option.max_concurrency
    rounds = _OptionRounds.of(option, inputs, request, longest)
    prefill, outside_s = _plan_prefill(option, inputs, request)
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
        requests_per_s=_planned_requests_per_s(part.plan.request, option),
        notes=(f"Step times: {option.tier_note}.", _TTFT_NOTE),
        prefix_hit_share=work.prefix_cache_hit_rate,
        kinds=kinds_of_services(plan.request.services, part),
        longest_request=longest_request(option, work, inputs.target(option.target).max_context),
    )


def _asked(work: Workload, wishes: MachineWishes) -> Workload:
    """Return the workload with what is asked of it; of a mix, every part is asked it."""
    stated = {
        name: value
        for name, value in (("temperature", wishes.temperature), ("task", wishes.task))
        if value is not None
    }
    changed: dict[str, object] = dict(stated)
    if work.mix and stated:
        mix = tuple(part.model_copy(update=stated) for part in work.mix)
        changed = {"mix": mix, "temperature": mean_temperature(mix)}
    if wishes.prefix_hit_share is not None:
        changed["prefix_cache_hit_rate"] = wishes.prefix_hit_share
    return work.model_copy(update=changed)


def _alike(work: Workload, context: float) -> Workload:
    """Return requests that are all alike, whose steps have this context on average.

    One token of prompt to a long answer: hardly any time of others' prompts is shared out among
    the tokens. Parts of a mix keep their shares of the tokens.
    """
    shares = token_shares(work).tolist() if work.mix else []
    parts = [
        part.model_copy(update={"share": share, "output_tokens": None})
        for part, share in zip(work.mix, shares, strict=True)
    ]
    return work.model_copy(
        update={
            "prompt_tokens": 1,
            "output_tokens": max(2, round(2 * (context - 1))),
            "prompt_lengths": None,
            "output_lengths": None,
            "length_correlation": 0.0,
            "mix": tuple(parts),
        }
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
        alike = [
            request.model_copy(update={"workload": _alike(request.workload, context)})
            for context in contexts
        ]
        grids = [evaluate_option(option, inputs, pure).grid for pure in alike]
        one = grids[0]
        drafts = bool(one.lengths[0])
        return cls(
            tuple(contexts.tolist()),
            one.batches,
            tuple(grid.baseline_tpot_s[0, 0] for grid in grids),
            tuple(grid.tpot_s[0] * grid.tokens_per_round[:, None] for grid in grids)
            if drafts
            else (),
            (1.0, *one.tokens_per_round.tolist()) if drafts else (1.0,),
            float(np.ravel(one.memory.max_num_batched_tokens)[0]),
        )

    def seconds(self, batches: Integers, n: int, context: float) -> Floats:
        """Return rounds at one of the contexts."""
        place = self.contexts.index(context)
        row = self.plain_s[place] if n == 0 else self.round_s[place][n - 1]
        result: Floats = np.interp(batches, self.batches, row)
        return result


def _plan_prefill(
    option: PlanOption, inputs: PlanInputs, request: PlanRequest
) -> tuple[PrefillTimes, float]:
    """Return what prompts take, and what of a first token lies outside the engine's steps.

    Read off the evaluated option: what others' prompts add to a token, and how much longer a
    prompt takes by itself. Where prompts vary both are means over them.
    """
    work = request.workload
    grid = evaluate_option(option, inputs, request).grid
    beside_s = float(grid.prompt_share_s[0, 0, 0]) * work.output_tokens
    outside_s = 0.0 if option.tier is Tier.PROFILED else inputs.engine.first_token_s
    alone_s = float(grid.ttft_s[0, 0, 0]) - outside_s - beside_s
    # what a cache holds is not computed, and what is left attends to all of it
    computed = work.prompt_tokens * max(1.0 - work.prefix_cache_hit_rate, _LEAST_COMPUTED)
    return PrefillTimes(beside_s / computed, max(alone_s, 0.0)), outside_s
