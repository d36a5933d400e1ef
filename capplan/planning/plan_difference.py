"""Two plans: what changed in the recommended option, and what each cause adds to the bill.

The month's bill is a product, written so that every factor can be read from a plan file::

    dollars = load / (utilisation * batch * tokens_per_round / round_time)   replicas, not rounded
              * GPUs a replica * whole-node factor * dollars a GPU and hour * hours

docs/comparing-prompts.md
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from capplan.economics.decomposition import Factor, decompose
from capplan.planning.plan_settings import hardware, plan_settings
from capplan.schema.difference import CostPart, PlanDifference
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.workload import Workload
from capplan.units import MS_PER_S


@dataclass(frozen=True)
class _Cost:
    """One plan's recommended option as factors of its bill."""

    load_tokens_per_s: float
    utilisation: float
    batch: float
    tokens_per_round: float
    round_s: float
    """Time in which every request of the batch makes one round, prompts included."""
    gpus_per_replica: float
    gpu_usd_per_hour: float
    hours: float
    whole_nodes: float
    """GPUs paid for over those that the load asks for: whole replicas and whole nodes."""
    total_usd: Decimal

    @classmethod
    def of(cls, plan: Plan) -> _Cost:
        option = plan.options[0]
        workload = plan.request.workload
        total = bill_usd(option)
        hours = float(option.bill.paid_hours if option.bill else plan.request.hours_per_month)
        rate = option.output_tokens_per_s.mid / option.replicas
        emitted = _tokens_per_round(option)
        load = _sized_tokens_per_s(option)
        needed = load / (rate * workload.utilisation) * option.tensor_parallel
        return cls(
            load_tokens_per_s=load,
            utilisation=workload.utilisation,
            batch=option.max_concurrency,
            tokens_per_round=emitted,
            round_s=option.max_concurrency * emitted / rate,
            gpus_per_replica=option.tensor_parallel,
            gpu_usd_per_hour=float(total) / (option.gpus_rented * hours),
            hours=hours,
            whole_nodes=option.gpus_rented / needed,
            total_usd=total,
        )


def _sized_tokens_per_s(option: PlanOption) -> float:
    """Return the load that the replicas are for: the peak, where the plan knows one."""
    mean = option.planned_output_tokens_per_s
    if option.utilisation_at_peak is None:
        return mean
    return mean * option.utilisation_at_peak / option.utilisation


def bill_usd(option: PlanOption) -> Decimal:
    """Return the month's bill; of plans of older versions, the middle of its interval."""
    if option.bill is not None:
        return option.bill.total_usd
    return Decimal(repr(option.usd_per_month.mid))


def compare_plans(before: Plan, after: Plan, names: tuple[str, str]) -> PlanDifference:
    """Compare two plans' recommended options.

    Parameters
    ----------
    before, after
        The earlier plan first.
    names
        What to call them, such as their files.
    """
    notes: list[str] = []
    options = [plan.options[0] if plan.options else None for plan in (before, after)]
    first, second = options
    parts: tuple[CostPart, ...] = ()
    if first is not None and second is not None:
        parts = cost_parts(before, after, notes)
    else:
        lacking = [n for n, option in zip(names, options, strict=True) if option is None]
        notes.append(f"no option to compare in {' and '.join(lacking)}")
    return PlanDifference(
        before=names[0],
        after=names[1],
        option_before=first.id if first else None,
        option_after=second.id if second else None,
        usd_before=bill_usd(first) if first else None,
        usd_after=bill_usd(second) if second else None,
        usd_per_million_before=first.usd_per_million_output_tokens.mid if first else None,
        usd_per_million_after=second.usd_per_million_output_tokens.mid if second else None,
        parts=parts,
        settings=plan_settings(before, after),
        notes=tuple(notes),
    )


def cost_parts(
    before: Plan, after: Plan, notes: list[str], services: str = ""
) -> tuple[CostPart, ...]:
    """Return the causes, largest first; those that did nothing are left out.

    Parameters
    ----------
    before, after
        Plans with an option each.
    notes
        What to know of the causes is added here.
    services
        Whose bill it is, where there are several.
    """
    one, two = _Cost.of(before), _Cost.of(after)
    if not _has_load(before.request.workload) or not _has_load(after.request.workload):
        notes.append(
            "a plan without a load buys what fits its nodes: more tokens from the same GPUs show "
            "as more load served, not as fewer dollars"
        )
    lengths = [plan.options[0].num_speculative_tokens for plan in (before, after)]
    if lengths[0] != lengths[1] or before.options[0].draft != after.options[0].draft:
        notes.append(
            "another draft or N moves acceptance and step time against each other: read their sum"
        )
    factors, told = _factors(before, after, one, two)
    usd = decompose(one.total_usd, two.total_usd, factors)
    rows = [
        CostPart(
            cause=cause,
            usd=usd[cause],
            before=told[cause][0],
            after=told[cause][1],
            services=services,
        )
        for cause in factors
        if usd[cause] or told[cause][0] != told[cause][1]
    ]
    return tuple(sorted(rows, key=lambda part: -abs(part.usd)))


def _has_load(workload: Workload) -> bool:
    return workload.requests_per_s is not None or workload.output_tokens_per_month is not None


def _factors(
    before: Plan, after: Plan, one: _Cost, two: _Cost
) -> tuple[dict[str, Factor], dict[str, tuple[str, str]]]:
    """Return the factors of the bill by cause, and what each was.

    On other hardware the step time, the batch that fits and the GPUs a replica belong to it; the
    price of that hardware stays a cause of its own.
    """
    options = before.options[0], after.options[0]
    steps = Factor(one.round_s / one.batch, two.round_s / two.batch)
    gpus = Factor(one.gpus_per_replica, two.gpus_per_replica)
    same_hardware = hardware(options[0]) == hardware(options[1])
    factors = {
        "load": Factor(one.load_tokens_per_s, two.load_tokens_per_s),
        "utilisation": Factor(two.utilisation, one.utilisation),
        "acceptance": Factor(two.tokens_per_round, one.tokens_per_round),
        "price": Factor(one.gpu_usd_per_hour, two.gpu_usd_per_hour),
        "paid hours": Factor(one.hours, two.hours),
        "whole replicas and nodes": Factor(one.whole_nodes, two.whole_nodes),
    }
    told = {
        "load": _told("{:,.0f} tokens/s", one.load_tokens_per_s, two.load_tokens_per_s),
        "utilisation": _told("{:.0%}", one.utilisation, two.utilisation),
        "acceptance": _told("{:.3g} tokens a round", one.tokens_per_round, two.tokens_per_round),
        "price": _told("{:,.4g} USD a GPU and hour", one.gpu_usd_per_hour, two.gpu_usd_per_hour),
        "paid hours": _told("{:,.5g} h", one.hours, two.hours),
        "whole replicas and nodes": _told(
            "{:.1%} more GPUs than the load asks for", one.whole_nodes - 1, two.whole_nodes - 1
        ),
    }
    if same_hardware:
        factors["step time"] = Factor(one.round_s, two.round_s)
        factors["batch that fits"] = Factor(two.batch, one.batch)
        told["step time"] = _told(
            "{:,.3g} ms a round", one.round_s * MS_PER_S, two.round_s * MS_PER_S
        )
        told["batch that fits"] = _told("{:,.0f} requests", one.batch, two.batch)
    else:
        factors["hardware"] = Factor(steps.before * gpus.before, steps.after * gpus.after)
        told["hardware"] = (hardware(options[0]), hardware(options[1]))
    return factors, told


def _told(spec: str, before: float, after: float) -> tuple[str, str]:
    return spec.format(before), spec.format(after)


def _tokens_per_round(option: PlanOption) -> float:
    return option.acceptance.tokens_per_round.mid if option.acceptance is not None else 1.0
