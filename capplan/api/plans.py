"""Plans: a request and evidence in, ranked options out; and what to do with a plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import capplan
from capplan.advice.guide.checklist import guide_checklist
from capplan.advice.rules import advise
from capplan.api.collecting import paused_collection
from capplan.api.guide import audit_guide
from capplan.api.notebook import Plan
from capplan.api.observed import split_observed, temperature_notes, with_observed
from capplan.api.option_schedules import plan_schedules
from capplan.deploy.command import render_command
from capplan.deploy.from_option import (
    LaunchChoices,
    counted_sampling,
    longest_request,
    settings_from_option,
    unsupported_reason,
)
from capplan.deploy.notes import launch_notes
from capplan.deploy.versions import launch_engine, parse_version
from capplan.errors import RequestError
from capplan.estimate.evidence import evidence_from_profile
from capplan.facts.api_prices import current_api_prices, find_api_prices, hosted_as
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.gpu_names import gpu_id_from_device_name
from capplan.facts.lookup import resolve
from capplan.facts.on_disk import with_checkpoints
from capplan.planning.api_comparison import compare_option
from capplan.planning.calibrated import check_calibrations
from capplan.planning.inputs import NamedCalibration, PlanInputs, ProfiledMachine
from capplan.planning.peaks import outcome_by_mean, sized_for_peak, traffic_assumptions
from capplan.planning.planner import search
from capplan.planning.verdict import assumptions, verdict
from capplan.profiles.calibration_file import StoredCalibration
from capplan.profiles.store import StoredProfile
from capplan.reporting.render import Format, render as render_plan
from capplan.schema import plan as schema
from capplan.schema.pairing import Method
from capplan.schema.plan import Assumption, PlanOption, PlanRequest, Tier
from capplan.schema.price import ApiComparison
from capplan.schema.profile import NgramDraft
from capplan.schema.provenance import Kind
from capplan.units import BYTES_PER_MIB

_PRICE_TIERS = ("list", "secure", "community", "marketplace")
"""Known even where no row is of one; a price file may name others."""


def recommend(
    request: PlanRequest,
    profiles: Sequence[StoredProfile] = (),
    catalog: Catalog | None = None,
    now: datetime | None = None,
    calibrations: Sequence[StoredCalibration] = (),
) -> Plan:
    """Rank the ways to serve a load within a budget.

    Parameters
    ----------
    request
        Targets, traffic, limits, budget and filters. Short names are resolved by the catalogue;
        targets and drafts may be directories with a ``config.json``.
    profiles
        Profiles to use: their acceptance holds on any hardware, their step times on theirs.
        Those that only observed a served load (``capplan import``) give acceptance.
    catalog
        Facts; the shipped ones by default.
    now
        Time written into the plan; the clock by default.
    calibrations
        Constants fitted by ``capplan calibrate``: they replace the shipped ones on their GPU.

    Returns
    -------
    Plan
        Ranked options, best first. ``plan.verdict.feasible`` is False if there is none; that is
        an answer, with what it would take, not an error.

    Raises
    ------
    UnknownIdError
        If a target, GPU or provider is not known.
    ProfileInvalidError
        If a profile judged itself invalid.
    RequestError
        If a calibration is of another engine, or two are of the same GPU.
    """
    catalog = catalog if catalog is not None else load_catalog()
    now = now if now is not None else datetime.now(UTC)
    with paused_collection():
        request, inputs = plan_inputs(request, profiles, catalog, calibrations)
        return _plan(request, inputs, profiles, catalog, now)


def _plan(
    request: PlanRequest,
    inputs: PlanInputs,
    profiles: Sequence[StoredProfile],
    catalog: Catalog,
    now: datetime,
) -> Plan:
    outcome = outcome_by_mean(search(inputs, sized_for_peak(request)), request)
    texts: dict[object, str] = {}
    launched = [_with_launch(option, inputs, request, texts) for option in outcome.options]
    baseline = outcome.baseline
    plan = Plan(
        created_at=now.isoformat(timespec="seconds"),
        capplan_version=capplan.__version__,
        request=request,
        verdict=verdict(outcome, request),
        options=tuple(launched),
        baseline=(
            _with_launch(baseline, inputs, request, texts) if baseline is not None else None
        ),
        rejections=outcome.rejections,
        assumptions=(
            *assumptions(outcome, request, inputs.engine),
            *traffic_assumptions(request),
            *temperature_notes(split_observed(profiles)[1], request),
            _price_origin(catalog),
        ),
        schedules=plan_schedules(outcome.options, request, inputs),
        profiles=tuple(stored.profile.id for stored in profiles),
        candidates=outcome.candidates,
    )
    experts = {llm.id for llm in inputs.llms.values() if llm.is_moe}
    if request.compare_api and plan.options:
        plan = plan.model_copy(
            update={"api_comparisons": compare_with_apis(plan, request.compare_api, now=now)}
        )
    advice = advise(plan, as_of=now.date(), moe_targets=experts)
    checklist = guide_checklist(plan, dict(inputs.llms), catalog.acceptance)
    return plan.model_copy(update={"advice": advice, "guide_checklist": checklist})


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
        As :func:`recommend`.
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


def _price_origin(catalog: Catalog) -> Assumption:
    dates = sorted({price.source.date for price in catalog.prices if price.source.date})
    undated = sum(price.source.date is None for price in catalog.prices)
    span = f", read {dates[0]} to {dates[-1]}" if dates else ""
    return Assumption(
        name="Prices",
        value=f"{len(catalog.prices)} offers{span}, {undated} undated",
        kind=Kind.CITED,
        source=catalog.price_origin,
    )


def _with_launch(
    option: PlanOption, inputs: PlanInputs, request: PlanRequest, texts: dict[object, str]
) -> PlanOption:
    """Add what launching needs to know, and the text; offers of the same GPUs share it."""
    machine = {one.gpu_id: one for one in inputs.machines}.get(option.gpu)
    profiled = machine is not None and option.tier is Tier.PROFILED
    lookup = _profiled_lookup(option, inputs)
    dtype = machine.evidence.profile.target.dtype if machine and profiled else ""
    key = (
        (option.target, option.method, option.draft, option.num_speculative_tokens, option.gpu),
        (option.tensor_parallel, option.replicas, option.max_concurrency, option.tier),
        (id(option.memory), id(option.acceptance)),
    )
    if key not in texts:
        known = option.model_copy(update={"prompt_lookup": lookup, "dtype": dtype})
        texts[key] = _launch_text(known, machine, inputs, request)
    update = {"prompt_lookup": lookup, "dtype": dtype, "launch": texts[key]}
    return option.model_copy(update=update)


def _launch_text(
    option: PlanOption, machine: ProfiledMachine | None, inputs: PlanInputs, request: PlanRequest
) -> str:
    version = parse_version(launch_engine(on_cpu=option.on_cpu))
    target = inputs.target(option.target)
    if unsupported_reason(option, version, target):
        return ""
    choices = LaunchChoices(
        max_model_len=longest_request(option, request.workload, target.max_context),
    )
    settings = settings_from_option(option, choices, target)
    temperature = request.workload.temperature
    notes = launch_notes(settings, version, temperature, target, counted_sampling(option))
    if option.on_cpu and machine is not None:
        notes = (*notes, *_other_engine(machine))
    return render_command(settings, version, notes)


def _other_engine(machine: ProfiledMachine) -> tuple[str, ...]:
    """Say that passes timed in torch are no steps of the engine that is launched."""
    profile = machine.evidence.profile
    if profile.backend.name != "torch":
        return ()
    return (
        f"The plan's times are of passes in torch ({profile.id}); vLLM's steps differ: "
        "capplan profile --backend vllm times them.",
    )


def _profiled_lookup(option: PlanOption, inputs: PlanInputs) -> tuple[int, int] | None:
    if option.method is not Method.NGRAM:
        return None
    drafts = (m.evidence.profile.draft for m in inputs.machines_for(option.target))
    return next(
        (
            (draft.prompt_lookup_min, draft.prompt_lookup_max)
            for draft in drafts
            if isinstance(draft, NgramDraft)
        ),
        None,
    )


def _machine(stored: StoredProfile, catalog: Catalog) -> ProfiledMachine:
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
    names = (*request.targets, *request.drafts)
    return with_checkpoints(catalog, (name for name in names if name not in profiled))


def _resolved(
    request: PlanRequest, catalog: Catalog, machines: Sequence[ProfiledMachine]
) -> PlanRequest:
    """Replace short names by ids; raise for names that nobody knows."""
    profiled = {machine.evidence.target.id for machine in machines}
    targets = tuple(
        target if target in profiled else catalog.llm(target).id for target in request.targets
    )
    drafts_known = {machine.evidence.draft_id for machine in machines}
    pairing_drafts = {pairing.draft for pairing in catalog.pairings}
    drafts = tuple(
        draft if draft in drafts_known | pairing_drafts else catalog.llm(draft).id
        for draft in request.drafts
    )
    gpus = tuple(catalog.gpu(gpu).id for gpu in request.gpus)
    prices = {
        key if key == "profile" else catalog.gpu(key).id: usd
        for key, usd in request.gpu_price_usd_per_hour.items()
    }
    known_providers = sorted({row.provider for row in catalog.prices})
    providers = tuple(resolve(name, known_providers, "provider") for name in request.providers)
    tiers = tuple(resolve(name, _known_tiers(catalog), "tier") for name in request.price_tiers)
    return request.model_copy(
        update={
            "targets": targets,
            "drafts": drafts,
            "gpus": gpus,
            "providers": providers,
            "price_tiers": tiers,
            "gpu_price_usd_per_hour": prices,
        }
    )


def _known_tiers(catalog: Catalog) -> tuple[str, ...]:
    return (*_PRICE_TIERS, *(row.tier for row in catalog.prices))


def compare_with_apis(
    plan: schema.Plan,
    names: Sequence[str] | str = (),
    *,
    rank: int = 1,
    cached_input_share: Decimal | None = None,
    now: datetime | None = None,
) -> tuple[ApiComparison, ...]:
    """Return the bill of one of a plan's options beside hosted LLMs, cheapest API first.

    Parameters
    ----------
    plan
        A plan with at least one option.
    names
        Hosted LLMs (``llama-3.1-8b-instant``, ``groq:llama-3.1-8b-instant``); empty for those
        that bear the target's name. Same name does not mean same weights.
    rank
        Which option, 1 for the recommended one.
    cached_input_share
        Share of the prompts that the API has cached; that of the request by default.
    now
        Time at which API prices hold; the clock by default.

    Raises
    ------
    UnknownIdError
        If no provider lists a name.
    RequestError
        If the plan has no such option.
    """
    option = ranked_option(plan, rank)
    table = current_api_prices(load_catalog().api_prices, now or datetime.now(UTC))
    asked = (names,) if isinstance(names, str) else names
    found = [price for name in asked for price in find_api_prices(table.prices, name)]
    prices = dict.fromkeys(found if asked else hosted_as(table.prices, option.target))
    return compare_option(option, plan.request, prices, cached_input_share)


def ranked_option(plan: schema.Plan, rank: int) -> PlanOption:
    """Return an option by its rank, 1 for the recommended one.

    Raises
    ------
    RequestError
        If the plan has no such option.
    """
    if not 1 <= rank <= len(plan.options):
        raise RequestError(
            f"The plan has {len(plan.options)} options, no option {rank}.",
            "See them with: capplan report PLAN",
        )
    return plan.options[rank - 1]


def render(plan: schema.Plan, fmt: Format | str) -> str:
    """Return the plan as text in one of the formats; a page also holds the guide's audit.

    Raises
    ------
    RequestError
        For a format that does not exist.
    """
    return render_plan(plan, fmt, audit_guide() if fmt == "html" else ())
