"""Search every pairing, length, GPU, size and price row; rank what is feasible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capplan.economics.decimals import exact
from capplan.estimate.curves import curve_from_alpha
from capplan.estimate.kvcache import kv_known
from capplan.planning.calibrated import evaluate_rented
from capplan.planning.candidates import Candidate, fits_node, price_candidates
from capplan.planning.choices import HardwareChoice
from capplan.planning.drafting import Drafting, draftings_for
from capplan.planning.feasibility import (
    RejectionLog,
    log_indivisible,
    log_infeasible,
    log_over_budget,
)
from capplan.planning.hardware import (
    Evaluated,
    can_profile,
    evaluate_machine,
)
from capplan.planning.inputs import (
    PROFILE_PRICE_KEY,
    PlanInputs,
    ProfiledMachine,
    machine_prices,
    usable_prices,
)
from capplan.planning.memory import handed_out_bytes
from capplan.planning.options import build_option
from capplan.planning.ranking import pareto_front, ranked
from capplan.planning.terms import Terms
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import PlanOption, PlanRequest, Rejection
from capplan.schema.price import PriceRow
from capplan.schema.provenance import Kind, Source

MAX_OPTIONS_PER_TARGET = 40
"""Options written out a target, beside its Pareto front; the rest differ only in price row."""


MAX_CURVES_PER_TARGET = 5
"""Options with a load curve a target, beside its Pareto front: plan files stay small."""


@dataclass(frozen=True)
class Outcome:
    """What the search found."""

    options: tuple[PlanOption, ...]
    baseline: PlanOption | None
    rejections: tuple[Rejection, ...]
    offers: int
    candidates: int
    cheapest_over_budget_usd: float | None


def search(inputs: PlanInputs, request: PlanRequest) -> Outcome:
    """Evaluate every candidate and keep the feasible ones within the budget, best first.

    Raises
    ------
    UnknownIdError
        If a target is neither in the catalogue nor in a profile.
    """
    log = RejectionLog()
    prices, terms = usable_prices(inputs, request), Terms.of(request)
    targets = [inputs.target(target) for target in request.targets]
    count, found = 0, []
    for index, target in enumerate(targets):
        evaluated = list(_evaluate_target(target, inputs, request, prices, log))
        for item, offers in evaluated:
            log_infeasible(log, target, item, request)
            count += item.grid.feasible.shape[1] * sum(
                fits_node(row, choice.tensor_parallel)
                for choice in item.choices
                for row in offers
                if row.gpu == choice.gpu_id
            )
            found.extend(price_candidates(index, item, offers, request.workload, terms))
    within = [c for c in found if _affordable(c, request.budget_usd_per_month)]
    over = [c for c in found if not _affordable(c, request.budget_usd_per_month)]
    log_over_budget(log, over, request.budget_usd_per_month)
    options = _options(within, targets, request)
    return Outcome(
        options=options,
        baseline=_baseline(within, targets, request),
        rejections=log.rejections(),
        offers=len(prices),
        candidates=count,
        cheapest_over_budget_usd=min((c.usd_month for c in over), default=None),
    )


def _affordable(candidate: Candidate, budget_usd: float) -> bool:
    """Whether the bill is within the budget; a budget equal to the bill, to the cent, is."""
    if math.isclose(candidate.usd_month, budget_usd, rel_tol=1e-9):
        return candidate.bill.total_usd <= exact(budget_usd)
    return candidate.usd_month <= budget_usd


def _options(
    within: Sequence[Candidate], targets: Sequence[LlmSpec], request: PlanRequest
) -> tuple[PlanOption, ...]:
    front = {id(candidate) for candidate in pareto_front(within)}
    kept: dict[int, int] = {}
    options = []
    for candidate in ranked(within):
        seen = kept.get(candidate.target_index, 0)
        on_front = id(candidate) in front
        if seen >= MAX_OPTIONS_PER_TARGET and not on_front:
            continue
        kept[candidate.target_index] = seen + 1
        option = build_option(
            candidate,
            targets[candidate.target_index],
            request.workload,
            with_curve=on_front or seen < MAX_CURVES_PER_TARGET,
        )
        options.append(option.model_copy(update={"on_pareto_front": on_front}))
    return tuple(options)


def _baseline(
    within: Sequence[Candidate], targets: Sequence[LlmSpec], request: PlanRequest
) -> PlanOption | None:
    """Return the best plan without speculation for the first target."""
    plain = ranked([c for c in within if not c.speculates and c.target_index == 0])
    if not plain:
        return None
    return build_option(plain[0], targets[0], request.workload, with_curve=True)


def _evaluate_target(
    target: LlmSpec,
    inputs: PlanInputs,
    request: PlanRequest,
    prices: Sequence[PriceRow],
    log: RejectionLog,
) -> list[tuple[Evaluated, Sequence[PriceRow]]]:
    machines = inputs.machines_for(target.id)
    draftings = draftings_for(
        target,
        request,
        [p for p in inputs.pairings if p.target == target.id],
        [f for f in inputs.acceptance if f.target == target.id],
        dict(inputs.llms),
        [machine.evidence for machine in machines],
    )
    profiled = {(m.gpu_id, m.device.count) for m in machines}
    choices = _choices(prices, inputs, request, log, target)
    out: list[tuple[Evaluated, Sequence[PriceRow]]] = []
    for drafting in draftings:
        if drafting.blocked is not None:
            note = _break_even_note(target, drafting, choices, inputs, request)
            log.add_blocked(drafting.blocked, note)
            continue
        on_machine = _distinct([m for m in machines if can_profile(drafting, m)])
        for machine in on_machine:
            offers = machine_prices(machine, prices, request)
            if not offers:
                _log_unpriced(log, machine.device.name)
                continue
            if not _kv_known(target, drafting, log):
                continue
            out.append((evaluate_machine(target, drafting, machine, inputs, request), offers))
        rented = [
            c
            for c in choices
            if (not on_machine or (c.gpu_id, c.tensor_parallel) not in profiled)
            and not _draft_indivisible(log, drafting, c)
        ]
        if rented and _kv_known(target, drafting, log):
            out.extend(
                (item, prices)
                for item in evaluate_rented(target, drafting, rented, inputs, request)
            )
    return out


def _draft_indivisible(log: RejectionLog, drafting: Drafting, choice: HardwareChoice) -> bool:
    """Whether the draft, which runs with the target's tensor parallelism, cannot be split."""
    llm = drafting.llm
    return llm is not None and log_indivisible(log, llm, choice.tensor_parallel, choice.gpu_name)


def _distinct(machines: Sequence[ProfiledMachine]) -> list[ProfiledMachine]:
    """Keep the best fit of several profiles of the same hardware: it is one candidate."""
    best: dict[tuple[str, int], ProfiledMachine] = {}
    for machine in machines:
        key = (machine.gpu_id, machine.device.count)
        error = machine.evidence.target_step.relative_se
        if key not in best or error < best[key].evidence.target_step.relative_se:
            best[key] = machine
    return list(best.values())


def _log_unpriced(log: RejectionLog, device_name: str) -> None:
    log.add(
        "price_unknown",
        f"{device_name} (profiled): no price an hour is known",
        f"State it: --gpu-price {PROFILE_PRICE_KEY}=USD_PER_HOUR.",
    )


def _kv_known(target: LlmSpec, drafting: Drafting, log: RejectionLog) -> bool:
    for llm in (target, drafting.llm):
        if llm is not None and not kv_known(llm):
            log.add(
                "kv_unknown",
                f"{llm.id}: its KV cache has no constant bytes a token that models_db knows",
                "Profile it on the engine; the pool is then read from there.",
            )
            return False
    return True


def _choices(
    prices: Sequence[PriceRow],
    inputs: PlanInputs,
    request: PlanRequest,
    log: RejectionLog,
    target: LlmSpec,
) -> list[HardwareChoice]:
    """List (GPU, TP) that at least one offer can hold; sizes that none can are recorded."""
    largest: dict[str, int] = {}
    for row in prices:
        largest[row.gpu] = max(largest.get(row.gpu, 0), row.gpu_count)
    choices = []
    for gpu_id, most in sorted(largest.items()):
        gpu = inputs.gpus[gpu_id]
        why = gpu.not_planned_because
        if gpu.vendor not in inputs.engine.vendors and not inputs.calibrated(gpu_id):
            vendors = ", ".join(inputs.engine.vendors)
            why = f"the constants of {inputs.engine.id} were measured on {vendors} GPUs only"
        if why:
            log.add(
                "engine_unmeasured",
                f"{target.id} on {gpu.name}: {why}",
                "Profile the pairing on that GPU and pass --profile.",
            )
            continue
        for tp in request.tensor_parallel:
            if tp > most:
                log.add(
                    "node_size",
                    f"{target.id} on {tp} x {gpu.name}: the largest node offered has {most}",
                    "Offers with larger nodes (other providers or tiers), or a smaller size.",
                )
                continue
            if log_indivisible(log, target, tp, gpu.name):
                continue
            memory = handed_out_bytes(gpu, inputs.engine)
            choices.append(HardwareChoice(gpu_id, gpu.name, memory, tp, gpu))
    return choices


_PROBE_LENGTH, _PROBE_BATCH = 3, 8.0


def _break_even_note(
    target: LlmSpec,
    drafting: Drafting,
    choices: Sequence[HardwareChoice],
    inputs: PlanInputs,
    request: PlanRequest,
) -> str:
    """Say what acceptance it would take to pay, where step times can be estimated without it."""
    if drafting.llm is None or drafting.blocked is None or not choices:
        return ""
    if drafting.blocked.reason != "acceptance_unknown":
        return ""
    if not (kv_known(target) and kv_known(drafting.llm)):
        return ""
    # any curve serves: the cost of a round does not depend on what it yields
    probe = replace(
        drafting,
        acceptance=curve_from_alpha(0.5, Source(kind=Kind.ASSUMED, reference="probe")),
        blocked=None,
    )
    n = _PROBE_LENGTH - 1
    if n >= request.max_num_speculative_tokens:
        return ""
    grids = [item.grid for item in evaluate_rented(target, probe, choices, inputs, request)]
    at = int(np.searchsorted(grids[0].batches, _PROBE_BATCH))
    ratios = np.concatenate(
        [grid.round_ratio[:, n, at][grid.fits_memory[:, n, at]] for grid in grids]
    )
    if not ratios.size:
        return ""
    return (
        f"; at N={_PROBE_LENGTH} and {_PROBE_BATCH:.0f} concurrent requests it must emit more "
        f"than {ratios.min():.2f}-{ratios.max():.2f} tokens a round (by GPU) to pay"
    )
