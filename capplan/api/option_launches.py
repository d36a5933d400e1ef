"""Options with the text that starts them on the engine."""

from __future__ import annotations

from capplan.deploy.command import render_command
from capplan.deploy.from_option import (
    LaunchChoices,
    counted_sampling,
    longest_request,
    settings_from_option,
    unsupported_reason,
)
from capplan.deploy.names import name_problem
from capplan.deploy.notes import launch_notes
from capplan.deploy.versions import launch_engine, parse_version
from capplan.planning.inputs import PlanInputs, ProfiledMachine
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption, PlanRequest, Tier

Texts = dict[object, str]
"""Texts written already: offers of the same GPUs share one."""


def with_launch(
    option: PlanOption, inputs: PlanInputs, request: PlanRequest, texts: Texts
) -> PlanOption:
    """Add what launching needs to know, and the text."""
    machine = {one.gpu_id: one for one in inputs.machines}.get(option.gpu)
    profiled = machine is not None and option.tier is Tier.PROFILED
    lookup = _profiled_lookup(option, inputs)
    dtype = machine.evidence.profile.target.dtype if machine and profiled else ""
    key = (
        (option.target, option.method, option.draft, option.num_speculative_tokens, option.gpu),
        (option.tensor_parallel, option.replicas, option.max_concurrency, option.tier),
        (id(option.memory), id(option.acceptance)),
    )
    known = {**vars(option), "prompt_lookup": lookup, "dtype": dtype}
    if key not in texts:
        (option,) = PlanOption.of_checked([known])
        texts[key] = _launch_text(option, machine, inputs, request)
    (launched,) = PlanOption.of_checked([{**known, "launch": texts[key]}])
    return launched


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
    if name_problem(settings):
        return ""
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
    machines = inputs.machines_for(option.target) if option.method is Method.NGRAM else []
    if not machines:
        return None
    from capplan.schema.measured_setup import NgramDraft

    drafts = (machine.evidence.profile.draft for machine in machines)
    return next(
        (
            (draft.prompt_lookup_min, draft.prompt_lookup_max)
            for draft in drafts
            if isinstance(draft, NgramDraft)
        ),
        None,
    )
