"""Launching: the text that starts a plan's option, and old commands made new."""

from __future__ import annotations

from dataclasses import replace

from capplan.api.pairs import pair
from capplan.deploy.from_option import (
    LaunchChoices,
    counted_sampling,
    longest_request,
    settings_from_option,
    unsupported_reason,
)
from capplan.deploy.lengths import Lengths, check_lengths
from capplan.deploy.migrate import Migration, migrate_command
from capplan.deploy.settings import Settings
from capplan.deploy.text import Form, LaunchText, write_launch
from capplan.deploy.versions import LAUNCH_ENGINE, launch_engine, parse_version
from capplan.errors import (
    CheckpointError,
    FactsError,
    PairingError,
    RequestError,
    UnknownIdError,
)
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.find_llm import as_name
from capplan.facts.find_pair import find_target
from capplan.planning.part_plans import the_part
from capplan.schema.llm import LlmSpec
from capplan.schema.pair import PairReport
from capplan.schema.pairing import DraftSampleMethod, Method
from capplan.schema.plan import Plan, PlanOption

_ALL = ", or take all: capplan launch PLAN, capplan.launch_parts(plan)"


def launch(
    plan: Plan,
    *,
    engine: str | None = None,
    form: Form | str = Form.COMMAND,
    rank: int = 1,
    service: str | None = None,
    target_path: str | None = None,
    draft_path: str | None = None,
    lengths: Lengths = (),
    draft_sampling: DraftSampleMethod | None = None,
    max_model_len: int | None = None,
    port: int = 8000,
    catalog: Catalog | None = None,
) -> LaunchText:
    """Return the text that starts one of a plan's options, of several services that of one part.

    Parameters
    ----------
    plan
        A plan with at least one option.
    engine
        Engine with its version: ``vllm==0.33``, the default on a GPU; on a CPU 0.32, the latest
        whose CPU build was checked.
    form
        ``command``, ``python`` or ``kubernetes``.
    rank
        Which option, 1 for the recommended one; of a fleet in parts that of the largest.
    service
        Of several services: start the replicas that serve this one;
        :func:`capplan.launch_parts` starts all.
    target_path, draft_path
        Where the checkpoints lie, instead of the plan's ids.
    lengths
        (first batch, last batch, N) for a length that follows the batch.
    draft_sampling
        ``greedy`` or ``probabilistic``; as the plan's acceptance was counted if None, greedy
        where its source does not say.
    max_model_len
        Longest request; four times the mean one if None.
    port
        Where the server listens.
    catalog
        Facts; the shipped ones by default.

    Raises
    ------
    RequestError
        For an engine version that was never checked, an option that the plan does not have, a
        method that the version does not have, or settings that contradict each other; of a fleet
        in several parts without a service.
    PairingError
        If the engine refuses target and draft: MTP without MTP layers, vocabularies.
    """
    part = the_part(plan, service, rank, otherwise=_ALL)
    option = part.option
    version = parse_version(engine or launch_engine(on_cpu=option.on_cpu))
    catalog = catalog if catalog is not None else load_catalog()
    target = _spec(target_path or option.target, catalog) or _spec(option.target, catalog)
    reason = unsupported_reason(option, version, target)
    if reason:
        raise PairingError(
            f"{version} cannot run option {rank} ({option.id}): {reason}.",
            "Choose another with --option; capplan report PLAN lists them.",
        )
    workload = part.plan.request.workload
    context = target.max_context if target is not None else None
    choices = LaunchChoices(
        target=target_path,
        draft=draft_path,
        lengths=_checked(lengths, option),
        draft_sampling=draft_sampling,
        max_model_len=max_model_len or longest_request(option, workload, context),
        port=port,
    )
    choices = replace(choices, heterogeneous_vocabulary=_needs_map(option, choices, catalog))
    return write_launch(
        _settings(option, choices, target),
        version,
        Form(form),
        option=option.id,
        temperature=workload.temperature,
        target=target,
        counted=counted_sampling(option),
        services=part.label,
    )


def _checked(lengths: Lengths, option: PlanOption) -> Lengths:
    if lengths and option.method is Method.NONE:
        raise RequestError(
            f"Option {option.id} does not speculate, so no batch has a length.",
            "Leave the lengths out, or choose an option with a draft.",
        )
    return check_lengths(lengths) if lengths else ()


def _settings(option: PlanOption, choices: LaunchChoices, target: LlmSpec | None) -> Settings:
    try:
        return settings_from_option(option, choices, target)
    except ValueError as error:  # pydantic's, of settings that contradict each other
        why = str(error).partition("Value error, ")[2].partition(" [type=")[0] or str(error)
        raise RequestError(
            f"The engine would not take these settings for {option.id}: {why}.",
            "Change the option, the lengths or the draft sampling.",
        ) from error


def _spec(name: str, catalog: Catalog) -> LlmSpec | None:
    """Return a target's facts; None where nobody has any, and the engine has to judge."""
    try:
        found = find_target(as_name(name), catalog).found
    except (UnknownIdError, FactsError, CheckpointError):
        return None
    return found.spec if found is not None else None


def _needs_map(option: PlanOption, choices: LaunchChoices, catalog: Catalog) -> bool:
    """Whether the vocabularies differ so that the engine takes the pair only with a map.

    Raises
    ------
    PairingError
        If it does not take the pair with one either.
    """
    if option.method is not Method.DRAFT_MODEL or option.draft is None:
        return False
    plain = _judged(option, choices, catalog, mapped=False)
    if plain is None or plain.usable is not False or not _about_vocabulary(plain):
        return False
    mapped = _judged(option, choices, catalog, mapped=True)
    if mapped is None or mapped.usable is not True:
        raise PairingError(plain.sentence, "See what could draft: capplan pair TARGET")
    return True


def _about_vocabulary(report: PairReport) -> bool:
    return report.target_vocab_size != report.draft_vocab_size or report.verdict != "identical"


def _judged(
    option: PlanOption, choices: LaunchChoices, catalog: Catalog, *, mapped: bool
) -> PairReport | None:
    try:
        report = pair(
            choices.target or option.target,
            choices.draft or option.draft,
            method=option.method,
            heterogeneous_vocab=mapped,
            catalog=catalog,
        )
    except (UnknownIdError, FactsError, CheckpointError):
        return None
    return report if isinstance(report, PairReport) else None


def migrate(command: str, *, engine: str = LAUNCH_ENGINE) -> Migration:
    """Rewrite an old command of vLLM's server for a version of today, saying why for each change.

    Parameters
    ----------
    command
        ``vllm serve ...`` or ``python -m vllm.entrypoints.openai.api_server ...``. It is read,
        never run.
    engine
        Engine with its version: ``vllm==0.33``.

    Raises
    ------
    RequestError
        If it starts no server of vLLM or cannot be read, or the version was never checked.
    """
    return migrate_command(command, parse_version(engine))
