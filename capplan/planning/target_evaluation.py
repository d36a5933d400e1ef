"""Evaluate every way to draft for a target on every hardware that is on offer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from capplan.estimate.curves import curve_from_alpha
from capplan.estimate.kvcache import kv_known
from capplan.planning.calibrated import evaluate_rented
from capplan.planning.choices import HardwareChoice
from capplan.planning.drafting import Drafting, draftings_for
from capplan.planning.feasibility import RejectionLog, log_indivisible
from capplan.planning.hardware import Evaluated, can_profile, evaluate_machine
from capplan.planning.inputs import (
    PROFILE_PRICE_KEY,
    PlanInputs,
    ProfiledMachine,
    machine_prices,
)
from capplan.planning.memory import handed_out_bytes
from capplan.planning.offers import OfferTable
from capplan.planning.terms import Terms
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Pairing
from capplan.schema.plan import PlanRequest
from capplan.schema.price import PriceRow
from capplan.schema.provenance import Kind, Source


@dataclass(frozen=True)
class Knowledge:
    """What a search works from, sorted by target and by GPU once."""

    inputs: PlanInputs
    prices: Sequence[PriceRow]
    terms: Terms
    offers: OfferTable
    pairings: Mapping[str, Sequence[Pairing]]
    acceptance: Mapping[str, Sequence[AcceptanceFact]]
    largest_node: Mapping[str, int]
    """GPUs of the largest node on offer, by GPU."""

    @classmethod
    def of(cls, inputs: PlanInputs, prices: Sequence[PriceRow], terms: Terms) -> Knowledge:
        """Sort facts and offers."""
        largest: dict[str, int] = {}
        for row in prices:
            largest[row.gpu] = max(largest.get(row.gpu, 0), row.gpu_count)
        pairings: defaultdict[str, list[Pairing]] = defaultdict(list)
        for pairing in inputs.pairings:
            pairings[pairing.target].append(pairing)
        acceptance: defaultdict[str, list[AcceptanceFact]] = defaultdict(list)
        for fact in inputs.acceptance:
            acceptance[fact.target].append(fact)
        offers = OfferTable(prices, terms)
        return cls(inputs, prices, terms, offers, pairings, acceptance, largest)


def evaluate_target(
    target: LlmSpec, known: Knowledge, request: PlanRequest, log: RejectionLog
) -> list[tuple[Evaluated, OfferTable]]:
    """Evaluate every way to draft for a target on every hardware that is on offer."""
    if _too_long(target, request, log):
        return []
    inputs = known.inputs
    machines = inputs.machines_for(target.id)
    draftings = draftings_for(
        target,
        request,
        known.pairings.get(target.id, ()),
        known.acceptance.get(target.id, ()),
        inputs.llms,
        [machine.evidence for machine in machines],
    )
    profiled = {(m.gpu_id, m.device.count) for m in machines}
    choices = _choices(known, request, log, target)
    out: list[tuple[Evaluated, OfferTable]] = []
    for drafting in draftings:
        if drafting.blocked is not None:
            note = partial(_break_even_note, target, drafting, choices, inputs, request)
            log.add_blocked(drafting.blocked, note)
            continue
        on_machine = _distinct([m for m in machines if can_profile(drafting, m)])
        for machine in on_machine:
            offers = machine_prices(machine, known.prices, request)
            if not offers:
                _log_unpriced(log, machine.device.name)
                continue
            if not _kv_known(target, drafting, log):
                continue
            item = evaluate_machine(target, drafting, machine, inputs, request)
            out.append((item, OfferTable(offers, known.terms)))
        rented = [
            c
            for c in choices
            if (not on_machine or (c.gpu_id, c.tensor_parallel) not in profiled)
            and not _draft_indivisible(log, drafting, c)
        ]
        if rented and _kv_known(target, drafting, log):
            out.extend(
                (item, known.offers)
                for item in evaluate_rented(target, drafting, rented, inputs, request)
            )
    return out


def _too_long(target: LlmSpec, request: PlanRequest, log: RejectionLog) -> bool:
    """Whether the engine would refuse a mean request; recorded then."""
    load, limit = request.workload, target.max_context
    longest = load.prompt_tokens + load.output_tokens
    if limit is None or longest <= limit:
        return False
    log.add(
        "context",
        f"{target.id}: a request of {longest:,} tokens (prompt and answer, on average) is longer "
        f"than its context of {limit:,}",
        "An LLM with a longer context, or shorter requests. A checkpoint whose positions were "
        "stretched says so in its config.json: name its folder as --target.",
    )
    return True


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
    known: Knowledge, request: PlanRequest, log: RejectionLog, target: LlmSpec
) -> list[HardwareChoice]:
    """List (GPU, TP) that at least one offer can hold; sizes that none can are recorded."""
    inputs, choices = known.inputs, []
    for gpu_id, most in sorted(known.largest_node.items()):
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
        memory = handed_out_bytes(gpu, inputs.engine)
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
