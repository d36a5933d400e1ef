"""The façade: the only place where facts, profiles, planning and reporting meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import capplan
from capplan.advice.guide.audit import audit_claims
from capplan.advice.guide.checklist import guide_checklist
from capplan.advice.guide.profile_checklist import profile_checklist
from capplan.advice.guide.sheet import AuditEvidence
from capplan.advice.rules import advise
from capplan.deploy.vllm import context_limit, launch_command, pair_config
from capplan.errors import CapplanError, RequestError
from capplan.estimate.evidence import evidence_from_profile
from capplan.facts.api_prices import current_api_prices, find_api_prices, hosted_as
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.find_llm import find_llm
from capplan.facts.find_pair import Named, find_draft, find_target
from capplan.facts.gpu_names import gpu_id_from_device_name
from capplan.facts.lookup import resolve
from capplan.facts.on_disk import with_checkpoints
from capplan.facts.published import (
    load_published_runs,
    load_rulings,
    load_verification_ratios,
)
from capplan.planning.api_comparison import compare_option
from capplan.planning.calibrated import check_calibrations
from capplan.planning.drafting import built_in_spec, head_spec
from capplan.planning.inputs import NamedCalibration, PlanInputs, ProfiledMachine
from capplan.planning.memory_use import Subject, memory_use
from capplan.planning.pairing import (
    BUILT_IN,
    PairQuestion,
    Shelf,
    Side,
    estimate_cost_ratio,
    judge,
    suggest,
)
from capplan.planning.planner import search
from capplan.planning.verdict import assumptions, verdict
from capplan.profiles.calibration_file import StoredCalibration, load_calibration
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.frame import to_frame
from capplan.reporting.plan_file import load_plan
from capplan.reporting.profile_text import render_profile
from capplan.reporting.render import Format, render as render_plan
from capplan.resources import models_db_dir
from capplan.schema.audit import AuditedClaim, ClaimVerdict
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest, MemoryUse
from capplan.schema.pair import PairReport, PairSuggestions
from capplan.schema.pairing import Method, Pairing
from capplan.schema.plan import Assumption, Plan, PlanOption, PlanRequest
from capplan.schema.price import ApiComparison, Purchase
from capplan.schema.profile import NgramDraft
from capplan.schema.provenance import Kind
from capplan.units import BYTES_PER_MIB
from capplan.validation.folder import read_published
from capplan.validation.registry import MODES, Validation, run
from capplan.validation.specs import Specs

__all__ = [
    "audit_guide",
    "compare_with_apis",
    "load_calibration",
    "load_catalog",
    "load_llm",
    "load_plan",
    "load_profile",
    "pair",
    "plan_memory",
    "recommend",
    "render",
    "summarise_profile",
    "to_frame",
    "validate",
]


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
    engine = load_engine(request.engine)
    named = [NamedCalibration(stored.calibration, stored.path.name) for stored in calibrations]
    check_calibrations(named, engine)
    machines = [_machine(stored, catalog) for stored in profiles]
    catalog = _with_checkpoints(catalog, request, machines)
    request = _resolved(request, catalog, machines)
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
        assumptions=(*assumptions(outcome, request, engine), _price_origin(catalog)),
        profiles=tuple(machine.evidence.profile.id for machine in machines),
        candidates=outcome.candidates,
    )
    experts = {llm.id for llm in catalog.llms if llm.is_moe}
    if request.compare_api and plan.options:
        plan = plan.model_copy(
            update={"api_comparisons": compare_with_apis(plan, request.compare_api, now=now)}
        )
    advice = advise(plan, as_of=now.date(), moe_targets=experts)
    llms = {llm.id: llm for llm in catalog.llms}
    checklist = guide_checklist(plan, llms, catalog.acceptance)
    return plan.model_copy(update={"advice": advice, "guide_checklist": checklist})


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


def compare_with_apis(
    plan: Plan,
    names: Sequence[str] = (),
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
    found = [price for name in names for price in find_api_prices(table.prices, name)]
    prices = dict.fromkeys(found if names else hosted_as(table.prices, option.target))
    return compare_option(option, plan.request, prices, cached_input_share)


def ranked_option(plan: Plan, rank: int) -> PlanOption:
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
    device = stored.profile.environment.device
    mib = device.memory_bytes / BYTES_PER_MIB
    gpu_id = gpu_id_from_device_name(device.name, mib if device.kind != "cpu" else None)
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
    return request.model_copy(
        update={
            "targets": targets,
            "drafts": drafts,
            "gpus": gpus,
            "providers": providers,
            "gpu_price_usd_per_hour": prices,
        }
    )


def plan_memory(request: MemoryRequest, catalog: Catalog | None = None) -> MemoryUse:
    """Return how an engine would allot one GPU: what fits, and by how much it does not.

    Parameters
    ----------
    request
        Target and draft by id, path or directory; GPU by id.
    catalog
        Facts; the shipped ones by default.

    Raises
    ------
    UnknownIdError
        If target, draft or GPU are not known.
    RequestError
        If heads cannot be split, or a length or a layout is not known.
    """
    catalog = catalog if catalog is not None else load_catalog()
    target = find_llm(request.target, catalog).spec
    draft = _draft_in_memory(request, target, catalog)
    engine = load_engine(request.engine)
    return memory_use(request, Subject(target, draft, catalog.gpu(request.gpu), engine))


def _draft_in_memory(request: MemoryRequest, target: LlmSpec, catalog: Catalog) -> LlmSpec | None:
    """Return what is loaded to draft: a draft LLM, a head, MTP layers, or nothing (lookup)."""
    loads_nothing = request.method in (Method.NGRAM, Method.SUFFIX)
    if loads_nothing or (request.draft is None and request.method is Method.NONE):
        return None
    for pairing in catalog.pairings_for(target.id):
        named = request.draft in (None, pairing.draft)
        if named and request.method in (Method.NONE, pairing.method):
            head = head_spec(target, pairing)
            if head is not None:
                return head
    if request.draft is not None:
        return find_llm(request.draft, catalog).spec
    built_in = built_in_spec(target) if request.method is Method.MTP else None
    if built_in is None:
        remedy = (
            "Give the target's directory: its MTP layers are counted from config.json."
            if request.method is Method.MTP
            else "Name the draft: --draft ID or DIRECTORY."
        )
        what = f"What {request.method.value} would load for {target.id} is not known."
        raise RequestError(what, remedy)
    return built_in


def summarise_profile(stored: StoredProfile | Path | str) -> str:
    """Return what a profile shows, as text: cost ratio, acceptance, actual beside projected."""
    if not isinstance(stored, StoredProfile):
        stored = load_profile(Path(stored))
    try:
        checklist = profile_checklist(evidence_from_profile(stored.profile, stored.arrays))
    except CapplanError:
        checklist = ()  # an invalid profile: its text says why
    return render_profile(stored.profile, stored.arrays, checklist)


def render(plan: Plan, fmt: Format | str) -> str:
    """Return the plan as text in one of the formats; a page also holds the guide's audit.

    Raises
    ------
    RequestError
        For a format that does not exist.
    """
    return render_plan(plan, fmt, audit_guide() if fmt == "html" else ())


_AUDITED_GPUS = ("a100-sxm-40gb", "a100-sxm-80gb")
"""What the guide measured on; it does not say which of the two."""


def audit_guide(
    *,
    topic: str | None = None,
    verdict: ClaimVerdict | None = None,
    catalog: Catalog | None = None,
) -> tuple[AuditedClaim, ...]:
    """Return every figure of a popular guide with a verdict: reproduced, or what objects.

    Parameters
    ----------
    topic, verdict
        Only claims of this topic, only those with this verdict.
    catalog
        Facts; the shipped ones by default.

    Raises
    ------
    UnknownIdError
        If no claim has this topic.
    FactsError
        If a figure that others are recomputed from is gone.
    """
    catalog = catalog if catalog is not None else load_catalog()
    wanted = topic and resolve(topic, (claim.topic for claim in catalog.claims), "topic")
    return tuple(
        audited
        for audited in audit_claims(catalog.claims, _audit_evidence(catalog))
        if wanted in (None, audited.claim.topic) and verdict in (None, audited.verdict)
    )


def _audit_evidence(catalog: Catalog) -> AuditEvidence:
    published = catalog.directory / "published"
    offers = (
        price
        for gpu in _AUDITED_GPUS
        for price in catalog.prices_for(gpu, purchases=[Purchase.ON_DEMAND], tiers=["list"])
    )
    return AuditEvidence(
        names=frozenset(
            (
                *(llm.id for llm in catalog.llms),
                *(llm.id for llm in catalog.incomplete_llms),
                *(price.model for price in catalog.api_prices),
            )
        ),
        llms={llm.id: llm for llm in catalog.llms},
        gpu=catalog.gpu(_AUDITED_GPUS[-1]),
        gpu_hour_usd=tuple(float(price.usd_per_gpu_hour) for price in offers),
        acceptance=catalog.acceptance,
        runs=load_published_runs(published),
        verification_ratios=load_verification_ratios(published),
        rulings=load_rulings(catalog.directory / "claims" / "evidence"),
    )


def pair(
    target: str,
    draft: str | None = None,
    *,
    method: Method | str | None = None,
    engine: str = "vllm==0.33",
    tensor_parallel: int = 1,
    draft_tensor_parallel: int | None = None,
    context: int | None = None,
    num_speculative_tokens: int | None = None,
    heterogeneous_vocab: bool = False,
    gpu: str | None = None,
    catalog: Catalog | None = None,
    online: bool = False,
) -> PairReport | PairSuggestions:
    """Say whether a draft can work for a target; without one, what could.

    Parameters
    ----------
    target, draft
        Ids or folders with a ``config.json``; tokenizers beside it are compared token by token.
        The draft may be ``ngram``, ``suffix`` or ``mtp`` (the target's own layers).
    method
        How to draft; by default what the draft is made for.
    engine
        Engine that the answer is about, with its version: ``vllm==0.33``.
    tensor_parallel, draft_tensor_parallel, context, num_speculative_tokens
        How the pair would be run; all but the first may be left open.
    heterogeneous_vocab
        Whether vLLM may map the tokens that both vocabularies have.
    gpu
        Estimate the cost ratio on this GPU from data sheets.
    catalog, online
        Facts, the shipped ones by default; whether to ask the hub for unknown ids.

    Raises
    ------
    UnknownIdError
        If nothing goes by a name, or no rule of the engine is known.
    FactsError, CheckpointError
        If files are there and cannot be used.
    """
    catalog = catalog if catalog is not None else load_catalog()
    question = PairQuestion(
        method=_method(method),
        engine=engine,
        tensor_parallel=tensor_parallel,
        draft_tensor_parallel=draft_tensor_parallel,
        context=context,
        num_speculative_tokens=num_speculative_tokens,
        heterogeneous_vocabulary=heterogeneous_vocab,
    )
    shelf = Shelf(catalog.pairings, catalog.acceptance, catalog.llms)
    ours = find_target(target, catalog, online=online)
    if draft is None and question.method is not None:
        draft = _DRAFT_OF_METHOD.get(question.method)
    if draft is None:
        return suggest(_side(ours), shelf, question)
    theirs = find_draft(draft, ours.id, catalog, online=online)
    known = shelf.known(ours.id, theirs.id, question.method)
    target_spec = ours.found.spec if ours.found is not None else None
    if target_spec is not None and known.pairing is not None and theirs.found is None:
        known = replace(known, head=head_spec(target_spec, known.pairing))
    draft_spec = theirs.found.spec if theirs.found is not None else known.head
    if gpu is not None and target_spec is not None and draft_spec is not None:
        ratio = estimate_cost_ratio(
            target_spec,
            draft_spec,
            catalog.gpu(gpu),
            tensor_parallel,
            context,
            load_engine("vllm"),
        )
        known = replace(known, cost_ratio=ratio)
    both_local = _both_read(ours, theirs)
    report = judge(
        _side(ours, with_tokens=both_local), _side(theirs, with_tokens=both_local), question, known
    )
    return _with_config(report, question, known.pairing, target_spec)


_DRAFT_OF_METHOD = {
    Method.NGRAM: Method.NGRAM.value,
    Method.SUFFIX: Method.SUFFIX.value,
    Method.MTP: BUILT_IN,
}
"""What a method drafts with where no draft is named."""

_DEFAULT_LENGTH = 3
"""Where to begin where nothing says better: a speculation length for the launch text."""


def _method(name: Method | str | None) -> Method | None:
    if name is None or isinstance(name, Method):
        return name
    try:
        return Method(name)
    except ValueError:
        known = ", ".join(method.value for method in Method if method is not Method.NONE)
        raise RequestError(f"Unknown method {name!r}.", f"Known: {known}.") from None


def _both_read(ours: Named, theirs: Named) -> bool:
    return all(
        named.found is not None and named.found.folder is not None for named in (ours, theirs)
    )


def _side(named: Named, *, with_tokens: bool = False) -> Side:
    return Side(
        named.id,
        named.found.spec if named.found is not None else None,
        named.tokenizer() if with_tokens else None,
        local=named.local,
    )


def _with_config(
    report: PairReport, question: PairQuestion, row: Pairing | None, target: LlmSpec | None
) -> PairReport:
    """Add vLLM's speculative config to a pair that it runs."""
    if not report.works or not report.engine.startswith("vllm"):
        return report
    published = row.default_num_speculative_tokens if row is not None else None
    layers = target.mtp_layers if target is not None and report.method is Method.MTP else 0
    length = question.num_speculative_tokens or published or layers or _DEFAULT_LENGTH
    config = pair_config(
        report.method,
        report.draft,
        length,
        heterogeneous_vocabulary=question.heterogeneous_vocabulary,
    )
    return report.model_copy(update={"speculative_config": config})


def load_llm(name: str, *, online: bool = False, catalog: Catalog | None = None) -> LlmSpec:
    """Return an LLM's facts: from a directory, the Hugging Face cache, models_db or the hub.

    Parameters
    ----------
    name
        A directory with a ``config.json``, that file, or an id such as ``Qwen/Qwen3-32B``.
    online
        Ask the hub for ids that are not on this machine; configuration and sizes, never weights.
    catalog
        Facts; the shipped ones by default.

    Raises
    ------
    UnknownIdError
        If nothing goes by this name; offers the nearest ids.
    FactsError
        If files are there and cannot be used: an unknown architecture is refused by name.
    """
    return find_llm(name, catalog or load_catalog(), online=online).spec


def validate(
    folder: Path | None = None,
    modes: Sequence[str] = tuple(MODES),
    *,
    all_quality: bool = False,
) -> Validation:
    """Compare estimates with published measurements.

    Parameters
    ----------
    folder
        A folder in the format of ``models_db/published``, which is the default.
    modes
        What to predict from what; all by default.
    all_quality
        Also use rows whose quality is not ``ok``.

    Raises
    ------
    FactsError
        If the folder holds no rows of this format.
    """
    rows = read_published(folder if folder is not None else models_db_dir() / "published")
    specs = Specs()
    if any(MODES[name].needs_specs for name in modes):
        catalog = load_catalog()
        specs = Specs(catalog.llms, catalog.gpus, catalog.pairings)
    return run(rows if all_quality else rows.sound(), modes, specs)
