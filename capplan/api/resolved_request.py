"""A request with full ids, and everything that the planner works from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from capplan.api.observed import split_observed, with_observed
from capplan.errors import RequestError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.lookup import resolve
from capplan.facts.on_disk import with_checkpoints
from capplan.planning.calibrated import check_calibrations
from capplan.planning.inputs import NamedCalibration, PlanInputs, ProfiledMachine
from capplan.planning.pairing.inputs import LOOKUPS
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest
from capplan.schema.services import NamedWorkload
from capplan.units import BYTES_PER_MIB

if TYPE_CHECKING:
    from capplan.profiles.calibration_file import StoredCalibration
    from capplan.profiles.store import StoredProfile

_PRICE_TIERS = ("list", "secure", "community", "marketplace")
"""Known even where no row is of one; a price file may name others."""


def plan_inputs(
    request: PlanRequest,
    profiles: Sequence[StoredProfile] = (),
    catalog: Catalog | None = None,
    calibrations: Sequence[StoredCalibration] = (),
) -> tuple[PlanRequest, PlanInputs]:
    """Return the request with full ids, and everything the planner works from.

    Raises
    ------
    UnknownIdError, ProfileInvalidError, RequestError
        As :func:`capplan.recommend`.
    """
    catalog = catalog if catalog is not None else load_catalog()
    engine = load_engine(request.engine)
    named = [NamedCalibration(stored.calibration, stored.path.name) for stored in calibrations]
    check_calibrations(named, engine)
    timed, observed = split_observed(profiles)
    catalog = with_observed(catalog, observed)
    machines = [_machine(stored, catalog) for stored in timed]
    catalog = _with_checkpoints(catalog, request, machines)
    inputs = PlanInputs(
        gpus={gpu.id: gpu for gpu in catalog.gpus},
        llms={llm.id: llm for llm in catalog.llms},
        pairings=catalog.pairings,
        acceptance=catalog.acceptance,
        prices=catalog.prices,
        engine=engine,
        machines=machines,
        calibrations=named,
    )
    return _resolved(request, catalog, machines), inputs


def _machine(stored: StoredProfile, catalog: Catalog) -> ProfiledMachine:
    # most plans rest on no profile: what reads one is loaded with the first
    from capplan.estimate.evidence import evidence_from_profile
    from capplan.facts.gpu_names import gpu_id_from_device_name

    evidence = evidence_from_profile(stored.profile, stored.arrays)
    device = stored.profile.environment.device
    mib = device.memory_bytes / BYTES_PER_MIB if device.memory_bytes is not None else None
    gpu_id = gpu_id_from_device_name(device.name, mib if device.kind == "cuda" else None)
    return ProfiledMachine(evidence, catalog.gpu(gpu_id) if gpu_id is not None else None)


def _with_checkpoints(
    catalog: Catalog, request: PlanRequest, machines: Sequence[ProfiledMachine]
) -> Catalog:
    """Add LLMs named by a directory or kept in the local cache; profiled ones are known."""
    profiled = {machine.evidence.target.id for machine in machines}
    profiled |= {machine.evidence.draft_id or "" for machine in machines}
    own = (one.target for one in request.services if one.target is not None)
    names = (*request.targets, *own, *request.drafts)
    return with_checkpoints(
        catalog, (name for name in names if name not in profiled and _lookup(name) is None)
    )


def _resolved(
    request: PlanRequest, catalog: Catalog, machines: Sequence[ProfiledMachine]
) -> PlanRequest:
    """Replace short names by ids; raise for names that nobody knows."""
    profiled = {machine.evidence.target.id for machine in machines}

    def target_id(name: str) -> str:
        return name if name in profiled else catalog.llm(name).id

    known_drafts = {machine.evidence.draft_id for machine in machines}
    known_drafts |= {pairing.draft for pairing in catalog.pairings}
    known_providers = sorted({row.provider for row in catalog.prices})
    tiers = _known_tiers(catalog)
    return request.model_copy(
        update={
            "targets": tuple(dict.fromkeys(map(target_id, request.targets))),
            "services": tuple(
                _with_target(one, target_id(one.target)) if one.target is not None else one
                for one in request.services
            ),
            "drafts": tuple(_draft_id(name, known_drafts, catalog) for name in request.drafts),
            "gpus": tuple(catalog.gpu(gpu).id for gpu in request.gpus),
            "providers": tuple(
                resolve(name, known_providers, "provider") for name in request.providers
            ),
            "price_tiers": tuple(resolve(name, tiers, "tier") for name in request.price_tiers),
            "gpu_price_usd_per_hour": _prices_by_id(request, catalog),
        }
    )


def _prices_by_id(request: PlanRequest, catalog: Catalog) -> dict[str, Decimal]:
    """Return the prices stated by GPU; two of the same GPU, named differently, are refused."""
    prices: dict[str, Decimal] = {}
    for key, usd in request.gpu_price_usd_per_hour.items():
        gpu = key if key == "profile" else catalog.gpu(key).id
        if gpu in prices:
            raise RequestError(
                f"Two prices are stated for {gpu}: {prices[gpu]:f} and {usd:f} USD an hour.",
                "Keep one of them.",
            )
        prices[gpu] = usd
    return prices


def _with_target(one: NamedWorkload, target: str) -> NamedWorkload:
    return one.model_copy(update={"target": target})


def _draft_id(name: str, known: Collection[str | None], catalog: Catalog) -> str:
    """Return the id of a draft or head; lookups, which have none, go by their method's name.

    Raises
    ------
    RequestError
        For a way to draft whose drafts have names of their own.
    UnknownIdError
        If nobody knows the name.
    """
    if name in known:
        return name
    lookup = _lookup(name)
    if lookup is not None:
        return lookup.value
    if name in set(_ways()):
        raise RequestError(
            f"{name!r} is a way to draft, expected the name of a draft or head.",
            f"Ask for it as a method: methods=({name!r},) in Python, --method {name}.",
        )
    return catalog.llm(name).id


def _lookup(name: str) -> Method | None:
    """Return the way to draft without a draft that bears this name."""
    wanted = name.strip().lower()
    return next((method for method in LOOKUPS if method.value == wanted), None)


def _ways() -> Iterator[str]:
    return (method.value for method in Method if method is not Method.NONE)


def _known_tiers(catalog: Catalog) -> tuple[str, ...]:
    return (*_PRICE_TIERS, *(row.tier for row in catalog.prices))
