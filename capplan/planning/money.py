"""What a plan's dollars rest on, in words."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.planning.terms import OWN_PRICE_TIER
from capplan.schema.plan import Assumption, PlanOption, PlanRequest
from capplan.schema.price import BillItem, Electricity, Purchase
from capplan.schema.provenance import Kind

_STATED = "stated with the request"


def money_assumptions(
    options: Sequence[PlanOption], request: PlanRequest
) -> tuple[Assumption, ...]:
    """List the terms that are not the default, and what the kinds of purchase mean."""
    listed = []
    if request.list_discount:
        listed.append(
            _stated(
                "Discount",
                f"{(request.list_discount * 100).normalize():f} % off list prices on demand, "
                "those of price files included (tier list, the default); spot, reserved, "
                "community and --gpu-price untouched",
                "--discount",
            )
        )
    if request.share_node:
        listed.append(
            _stated(
                "Shared nodes",
                "only GPUs in use are paid for; others fill the rest of the node",
                "--share-node",
            )
        )
    if request.electricity is not None:
        listed.append(_electricity(request.electricity, options))
    listed.extend(_reservation(options[0]) if options else ())
    kinds = dict.fromkeys(option.purchase for option in options)
    if len(kinds) > 1:
        listed.append(
            _stated(
                "Kinds of purchase",
                f"{' and '.join(kind.value for kind in kinds)} are ranked side by side, each "
                "option at its own price; they are never averaged",
                "--purchase",
            )
        )
    return tuple(listed)


def _stated(name: str, value: str, flag: str) -> Assumption:
    return Assumption(name=name, value=value, kind=Kind.ASSUMED, source=f"{_STATED} ({flag})")


def _electricity(power: Electricity, options: Sequence[PlanOption]) -> Assumption:
    watts = (
        "the GPU's rated power" if power.watts_per_gpu is None else f"{power.watts_per_gpu:f} W"
    )
    paid = any(option.bill and option.bill.usd(BillItem.ELECTRICITY) for option in options)
    scope = f"added to prices stated by you (tier {OWN_PRICE_TIER})"
    rented = "a rented GPU has it in its price"
    return _stated(
        "Electricity",
        f"{power.usd_per_kwh:f} USD/kWh, {watts} in every paid hour, PUE {power.pue:f}; "
        f"{f'{scope}; {rented}' if paid else f'no option pays it: {rented}'}",
        "--electricity-usd-per-kwh",
    )


def _reservation(best: PlanOption) -> list[Assumption]:
    if best.purchase is not Purchase.RESERVED or best.bill is None:
        return []
    upfront = f"; {best.bill.upfront_usd:,.2f} USD of it on the first day, shown spread"
    return [
        Assumption(
            name="Commitment",
            value=(
                f"{best.term_months} months, every hour of them paid for"
                f"{upfront if best.bill.upfront_usd else ''}"
            ),
            kind=best.price_source.kind,
            source=str(best.price_source),
        )
    ]
