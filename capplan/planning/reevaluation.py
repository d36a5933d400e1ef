"""One of a plan's options again, at other evidence: same pairing, N, hardware, price and load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from capplan.estimate.curves import AcceptanceCurve
from capplan.planning.calibrated import evaluate_rented
from capplan.planning.candidates import Candidate
from capplan.planning.choices import HardwareChoice
from capplan.planning.drafting import Drafting, draftings_for
from capplan.planning.hardware import Evaluated, can_profile, evaluate_machine
from capplan.planning.inputs import PlanInputs, ProfiledMachine
from capplan.planning.memory import handed_out_bytes
from capplan.planning.offers import OfferTable
from capplan.planning.options import Finalist, build_options
from capplan.planning.peaks import priced_by_mean, sized_for_peak
from capplan.planning.pricing import Load, price_candidates, required_tokens_per_s
from capplan.planning.terms import Terms
from capplan.schema.plan import PlanOption, PlanRequest
from capplan.schema.price import PriceRow


@dataclass(frozen=True)
class Reevaluated:
    """An option at other evidence.

    Attributes
    ----------
    option
        With its bill; None where it no longer fits the memory or keeps the limits.
    unrounded_usd_per_month
        As if a part of a replica and of a node could be rented; NaN without an option.
    why_not
        Why there is no option.
    """

    option: PlanOption | None
    unrounded_usd_per_month: float
    why_not: str = ""


def reevaluate(
    inputs: PlanInputs,
    request: PlanRequest,
    option: PlanOption,
    curve: AcceptanceCurve | None = None,
) -> Reevaluated:
    """Evaluate an option anew at its own N, hardware and price.

    Parameters
    ----------
    inputs
        Facts and profiles; a profile of the option's hardware gives its step times.
    request
        The plan's own; its load and limits hold.
    option
        One of the plan's options.
    curve
        Acceptance to use; what the inputs know of the pairing by default.
    """
    asked, request = request, sized_for_peak(request)
    target = inputs.target(option.target)
    drafting = _drafting(inputs, request, option)
    if drafting is None or (drafting.blocked is not None and curve is None):
        why = drafting.blocked.text if drafting is not None and drafting.blocked else "not known"
        return Reevaluated(None, np.nan, f"{option.draft or 'plain decoding'}: {why}")
    if curve is not None:
        drafting = replace(drafting, acceptance=curve, blocked=None)
    item = _evaluated(inputs, request, option, drafting)
    if item is None:
        return Reevaluated(None, np.nan, f"{option.gpu_name} is not known to this evidence")
    item = _at_length(item, option.num_speculative_tokens)
    row = price_row(option)
    table = OfferTable([row], Terms.of(request))
    candidates = price_candidates(0, item, table, Load.of(request))
    if candidates is None:
        return Reevaluated(None, np.nan, "it no longer fits the memory or keeps the limits")
    candidate = candidates.candidate(0)
    found = build_options([Finalist(candidate, target)], request.workload)[0]
    return Reevaluated(priced_by_mean(found, asked), _unrounded(candidate, request))


def price_row(option: PlanOption) -> PriceRow:
    """Return the offer that an option was priced with."""
    bill = option.bill
    nodes_of = bill.gpus_per_node if bill is not None else option.tensor_parallel
    usd = (
        bill.usd_per_node_hour
        if bill is not None
        else Decimal(repr(option.usd_per_gpu_hour)) * nodes_of
    )
    return PriceRow(
        provider=option.provider,
        instance=option.instance,
        gpu=option.gpu,
        gpu_count=nodes_of,
        region=option.region,
        purchase=option.purchase,
        tier=option.price_tier,
        usd_per_hour=usd,
        term_months=option.term_months,
        source=option.price_source,
    )


def _drafting(inputs: PlanInputs, request: PlanRequest, option: PlanOption) -> Drafting | None:
    target = inputs.target(option.target)
    # an acceptance that was assumed for the plan must not hide that nothing was measured
    found = draftings_for(
        target,
        request,
        [one for one in inputs.pairings if one.target == target.id],
        [one for one in inputs.acceptance if one.target == target.id],
        dict(inputs.llms),
        [machine.evidence for machine in inputs.machines_for(target.id)],
    )
    wanted = (option.method, option.draft)
    return next((one for one in found if (one.method, one.draft_id) == wanted), None)


def _evaluated(
    inputs: PlanInputs, request: PlanRequest, option: PlanOption, drafting: Drafting
) -> Evaluated | None:
    target = inputs.target(option.target)
    machine = _machine(inputs.machines_for(option.target), option, drafting)
    if machine is not None:
        return evaluate_machine(target, drafting, machine, inputs, request)
    gpu = inputs.gpus.get(option.gpu)
    if gpu is None:
        return None
    memory = handed_out_bytes(gpu, inputs.engine)
    choice = HardwareChoice(gpu.id, gpu.name, memory, option.tensor_parallel, gpu)
    return evaluate_rented(target, drafting, [choice], inputs, request)[0]


def _machine(
    machines: Sequence[ProfiledMachine], option: PlanOption, drafting: Drafting
) -> ProfiledMachine | None:
    return next(
        (
            one
            for one in machines
            if one.gpu_id == option.gpu
            and one.device.count == option.tensor_parallel
            and can_profile(drafting, one)
        ),
        None,
    )


def _at_length(item: Evaluated, num_speculative_tokens: int) -> Evaluated:
    """Leave one N: the search would otherwise take the best."""
    others = item.grid.lengths != num_speculative_tokens
    fits = item.grid.fits_memory.copy()
    fits[:, others, :] = False
    return replace(item, grid=replace(item.grid, fits_memory=fits))


def _unrounded(candidate: Candidate, request: PlanRequest) -> float:
    """Return the month's dollars of exactly the GPUs that the load asks for."""
    tariff = candidate.tariff
    required = required_tokens_per_s(request.workload, tariff.serving_hours)
    if required is None:
        return float(candidate.bill.total_usd)
    grid = candidate.evaluated.grid
    rate = float(
        grid.throughput[candidate.hardware_index, candidate.n_index, candidate.batch_index]
    )
    replicas = required / (rate * request.workload.utilisation)
    gpu_usd = float(tariff.usd_per_gpu_hour) * float(tariff.paid_hours)
    return replicas * candidate.tensor_parallel * gpu_usd
