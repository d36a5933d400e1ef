"""The façade: the only place where facts, profiles, planning and reporting meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import capplan
from capplan.advice.rules import advise
from capplan.deploy.vllm import context_limit, launch_command
from capplan.estimate.evidence import evidence_from_profile
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.gpu_names import gpu_id_from_device_name
from capplan.facts.lookup import resolve
from capplan.planning.inputs import PlanInputs, ProfiledMachine
from capplan.planning.planner import search
from capplan.planning.verdict import assumptions, verdict
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.frame import to_frame
from capplan.reporting.plan_file import load_plan
from capplan.reporting.profile_text import render_profile
from capplan.reporting.render import render
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.profile import NgramDraft

__all__ = [
    "load_catalog",
    "load_plan",
    "load_profile",
    "recommend",
    "render",
    "summarise_profile",
    "to_frame",
]


def recommend(
    request: PlanRequest,
    profiles: Sequence[StoredProfile] = (),
    catalog: Catalog | None = None,
    now: datetime | None = None,
) -> Plan:
    """Rank the ways to serve a load within a budget.

    Parameters
    ----------
    request
        Targets, traffic, limits, budget and filters. Short names are resolved by the catalogue.
    profiles
        Profiles to use: their acceptance holds on any hardware, their step times on theirs.
    catalog
        Facts; the shipped ones by default.
    now
        Time written into the plan; the clock by default.

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
    """
    catalog = catalog if catalog is not None else load_catalog()
    now = now if now is not None else datetime.now(UTC)
    engine = load_engine(request.engine)
    machines = [_machine(stored, catalog) for stored in profiles]
    request = _resolved(request, catalog, machines)
    inputs = PlanInputs(
        gpus={gpu.id: gpu for gpu in catalog.gpus},
        llms={llm.id: llm for llm in catalog.llms},
        pairings=catalog.pairings,
        acceptance=catalog.acceptance,
        prices=catalog.prices,
        engine=engine,
        machines=machines,
    )
    outcome = search(inputs, request)
    launched = [_with_launch(option, inputs, request) for option in outcome.options]
    baseline = outcome.baseline
    plan = Plan(
        created_at=now.isoformat(timespec="seconds"),
        capplan_version=capplan.__version__,
        request=request,
        verdict=verdict(outcome, request),
        options=tuple(launched),
        baseline=_with_launch(baseline, inputs, request) if baseline is not None else None,
        rejections=outcome.rejections,
        assumptions=assumptions(outcome, request, engine),
        profiles=tuple(machine.evidence.profile.id for machine in machines),
        candidates=outcome.candidates,
    )
    experts = {llm.id for llm in catalog.llms if llm.is_moe}
    advice = advise(plan, as_of=now.date(), moe_targets=experts)
    return plan.model_copy(update={"advice": advice})


def _with_launch(option: PlanOption, inputs: PlanInputs, request: PlanRequest) -> PlanOption:
    """Add the launch text; hardware that the engine does not run on (a CPU) gets none."""
    machines = {machine.gpu_id: machine for machine in inputs.machines}
    machine = machines.get(option.gpu)
    if machine is not None and machine.device.kind == "cpu":
        return option
    lookup = next(
        (
            (draft.prompt_lookup_min, draft.prompt_lookup_max)
            for machine in inputs.machines_for(option.target)
            if isinstance(draft := machine.evidence.profile.draft, NgramDraft)
        ),
        None,
    )
    # the engine refuses to start if its KV pool cannot hold one request of the longest length
    longest = min(inputs.target(option.target).max_context or math.inf, option.memory.kv_tokens)
    text = launch_command(
        option,
        max_model_len=context_limit(request.workload, int(longest)),
        prompt_lookup=lookup if option.method is Method.NGRAM else None,
    )
    return option.model_copy(update={"launch": text})


def _machine(stored: StoredProfile, catalog: Catalog) -> ProfiledMachine:
    evidence = evidence_from_profile(stored.profile, stored.arrays)
    gpu_id = gpu_id_from_device_name(stored.profile.environment.device.name)
    return ProfiledMachine(evidence, catalog.gpu(gpu_id) if gpu_id is not None else None)


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
    return request.model_copy(
        update={
            "targets": targets,
            "drafts": drafts,
            "gpus": gpus,
            "providers": providers,
            "gpu_price_usd_per_hour": prices,
        }
    )


def summarise_profile(stored: StoredProfile | Path | str) -> str:
    """Return what a profile shows, as text: cost ratio, acceptance, actual beside projected."""
    if not isinstance(stored, StoredProfile):
        stored = load_profile(Path(stored))
    return render_profile(stored.profile, stored.arrays)
