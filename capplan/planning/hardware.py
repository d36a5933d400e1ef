"""Step-time and memory models of one way to draft, on catalogue GPUs or a profiled machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup
from capplan.estimate.planned_round import RoundFactors
from capplan.estimate.served_step import served
from capplan.estimate.uncertainty import combine_relative
from capplan.planning.choices import HardwareChoice
from capplan.planning.drafting import Drafting
from capplan.planning.evaluate import FirstToken, StepModels, draft_lengths, evaluate
from capplan.planning.grid import Grid
from capplan.planning.inputs import PlanInputs, ProfiledMachine, column
from capplan.planning.memory import allot, batch_limit
from capplan.schema.engine import EngineConstants
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanRequest, Tier
from capplan.schema.quantity import Quantity


@dataclass(frozen=True)
class Evaluated:
    """A grid with what its axes and its trust mean."""

    drafting: Drafting
    choices: tuple[HardwareChoice, ...]
    grid: Grid
    tier: Tier
    tier_note: str
    machine: ProfiledMachine | None

    @property
    def on_cpu(self) -> bool:
        """Whether it is a profiled machine without a GPU."""
        return self.machine is not None and self.machine.device.kind == "cpu"

    @property
    def unit(self) -> str:
        """What a replica takes some of: ``GPU``, or ``CPU host``."""
        return "CPU host" if self.on_cpu else "GPU"


def _no_request_cost(engine: EngineConstants) -> EngineConstants:
    """Drafting happens inside a step: scheduling a request is paid once, by the target."""
    return engine.model_copy(update={"request_s": 0.0})


def evaluate_catalogue(
    target: LlmSpec,
    drafting: Drafting,
    choices: Sequence[HardwareChoice],
    inputs: PlanInputs,
    request: PlanRequest,
) -> Evaluated:
    """Evaluate on rented GPUs from data sheets and engine constants (tier ``datasheet``)."""
    engine = inputs.engine
    pairs = [(choice.gpu, choice.tensor_parallel) for choice in choices if choice.gpu is not None]
    group = HardwareGroup.of(pairs, engine)
    step = DatasheetStep(target, group, engine)
    draft = drafting.llm
    lengths = draft_lengths(drafting.acceptance, request.max_num_speculative_tokens)
    models = StepModels(
        target=served(step, request.workload),
        draft=(
            served(DatasheetStep(draft, group, _no_request_cost(engine)), request.workload)
            if draft
            else None
        ),
        drafts_with_head=drafting.method is not Method.DRAFT_MODEL,
        round_factors=RoundFactors.of(engine.rounds, moe=target.is_moe),
        draft_pass_s=engine.draft_pass_s,
        passes_scale_with_n=drafting.passes_scale_with_n,
        max_verified_tokens=float(engine.capturable_tokens),
        first_token=FirstToken(
            engine.first_token_s,
            engine.prompt_queue_per_request,
            engine.prompt_token_s,
            engine.prompt_token_queue_s,
        ),
    )
    grid = evaluate(
        models,
        drafting.acceptance,
        request.max_num_speculative_tokens,
        allot(target, draft, choices, lengths, engine),
        column([batch_limit(choice, engine) for choice in choices]),
        request.workload,
        request.slo,
    )
    note = (
        f"constants of {engine.id}; on pairs of LLM and GPU left out of the fit (H100, H200, "
        f"B200) a decode step was 4-8 % off; this pairing was never measured"
    )
    return Evaluated(drafting, tuple(choices), grid, Tier.DATASHEET, note, None)


def can_profile(drafting: Drafting, machine: ProfiledMachine) -> bool:
    """Whether the machine's profile measured this very way to draft."""
    if drafting.method is Method.NONE:
        return True
    evidence = machine.evidence
    return drafting.method is evidence.method and drafting.draft_id == evidence.draft_id


def evaluate_machine(
    target: LlmSpec,
    drafting: Drafting,
    machine: ProfiledMachine,
    inputs: PlanInputs,
    request: PlanRequest,
) -> Evaluated:
    """Evaluate on the profiled machine from its fitted grid (tier ``profiled``)."""
    evidence, device, engine = machine.evidence, machine.device, inputs.engine
    assert device.memory_bytes is not None, "a machine that was profiled is known"
    choice = HardwareChoice(
        machine.gpu_id, device.name, device.memory_bytes, device.count, machine.gpu
    )
    step = evidence.target_step
    lengths = draft_lengths(drafting.acceptance, request.max_num_speculative_tokens)
    # both halves of the ratio carry the fit's error; really run rounds add their own scatter
    ratio_se = combine_relative(step.relative_se, evidence.round_relative_se)
    draft_step = evidence.draft_step if drafting.llm is not None else None
    models = StepModels(
        target=served(step, request.workload),
        draft=served(draft_step, request.workload) if draft_step is not None else None,
        drafts_with_head=drafting.method is not Method.DRAFT_MODEL,
        round_factors=RoundFactors.measured(evidence.round_overhead_s, ratio_se),
        draft_pass_s=Quantity.exact(0.0),
        passes_scale_with_n=drafting.passes_scale_with_n,
        max_verified_tokens=float("inf"),
        # what a prompt takes was measured whole, the host's share included
        first_token=FirstToken(0.0, engine.prompt_queue_per_request, 0.0, 0.0),
        cost_ratio_se=(
            combine_relative(step.relative_se, draft_step.relative_se) if draft_step else 0.0
        ),
    )
    grid = evaluate(
        models,
        drafting.acceptance,
        request.max_num_speculative_tokens,
        allot(target, drafting.llm, [choice], lengths, engine),
        column([machine.max_batch]),
        request.workload,
        request.slo,
    )
    note = (
        f"profile {evidence.profile.id}: {len(evidence.profile.timing)} timed points, held-out "
        f"error {step.relative_se:.1%}; batches above {machine.max_batch:.0f} were not measured"
    )
    return Evaluated(drafting, (choice,), grid, Tier.PROFILED, note, machine)
