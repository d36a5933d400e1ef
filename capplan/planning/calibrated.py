"""Step times from calibrated constants where a GPU has them, from shipped ones elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from capplan.errors import RequestError
from capplan.planning.choices import HardwareChoice
from capplan.planning.drafting import Drafting
from capplan.planning.hardware import Evaluated, evaluate_catalogue
from capplan.planning.inputs import NamedCalibration, PlanInputs
from capplan.schema.engine import EngineConstants
from capplan.schema.llm import LlmSpec
from capplan.schema.plan import PlanRequest, Tier

if TYPE_CHECKING:
    from capplan.schema.calibration import Calibration


def check_calibrations(named: Sequence[NamedCalibration], engine: EngineConstants) -> None:
    """Refuse calibrations that cannot serve the plan.

    Raises
    ------
    RequestError
        If one is of another engine, or two are of the same GPU.
    """
    seen: dict[str, str] = {}
    for one in named:
        calibration = one.calibration
        if calibration.engine != engine.id:
            raise RequestError(
                f"{one.name} holds constants of {calibration.engine}, and the plan is for "
                f"{engine.id}: efficiencies do not carry from one engine to another.",
                f"Calibrate from profiles taken with {engine.id}, or leave the file out.",
            )
        if calibration.gpu in seen:
            raise RequestError(
                f"{seen[calibration.gpu]} and {one.name} are both calibrations of "
                f"{calibration.gpu}.",
                "Calibrate from all the profiles at once: capplan calibrate PROFILE PROFILE ...",
            )
        seen[calibration.gpu] = one.name


@dataclass(frozen=True)
class _Part:
    """Choices that share their constants."""

    choices: tuple[HardwareChoice, ...]
    calibrated: NamedCalibration | None
    measured: bool


def evaluate_rented(
    target: LlmSpec,
    drafting: Drafting,
    choices: Sequence[HardwareChoice],
    inputs: PlanInputs,
    request: PlanRequest,
) -> list[Evaluated]:
    """Evaluate rented GPUs: one grid a set of constants, tier ``anchored`` where calibrated."""
    return [
        _evaluate(target, drafting, part, inputs, request)
        for part in _parts(target, choices, inputs)
    ]


def _parts(target: LlmSpec, choices: Sequence[HardwareChoice], inputs: PlanInputs) -> list[_Part]:
    by_gpu = {one.calibration.gpu: one for one in inputs.calibrations}
    parts: dict[tuple[str, bool], list[HardwareChoice]] = {}
    for choice in choices:
        one = by_gpu.get(choice.gpu_id)
        measured = one is not None and one.calibration.measured(target.id, choice.tensor_parallel)
        key = (choice.gpu_id if one is not None else "", measured)
        parts.setdefault(key, []).append(choice)
    return [
        _Part(tuple(members), by_gpu.get(gpu_id), measured)
        for (gpu_id, measured), members in parts.items()
    ]


def _evaluate(
    target: LlmSpec, drafting: Drafting, part: _Part, inputs: PlanInputs, request: PlanRequest
) -> Evaluated:
    if part.calibrated is None:
        return evaluate_catalogue(target, drafting, part.choices, inputs, request)
    calibration = part.calibrated.calibration
    engine = _calibrated_engine(inputs.engine, part)
    own = replace(inputs, engine=engine)
    evaluated = evaluate_catalogue(target, drafting, part.choices, own, request)
    return replace(
        evaluated,
        tier=Tier.ANCHORED,
        tier_note=_note(part.calibrated.name, calibration, part.measured),
    )


def _calibrated_engine(engine: EngineConstants, part: _Part) -> EngineConstants:
    """Put fitted constants in; their error is the held-out one.

    What was left out says nothing of another LLM (unless whole LLMs were left out) or of another
    number of GPUs: there the interval stays at least as wide as without a calibration.
    """
    from capplan.estimate.engine_fit import with_constants

    assert part.calibrated is not None
    calibration = part.calibrated.calibration
    error = calibration.step.held_out_error
    if part.measured:
        spread = {"default": error}
    else:
        spread = {arch: max(se, error) for arch, se in engine.decode_relative_se.items()}
    return with_constants(engine, calibration.values).model_copy(
        update={"decode_relative_se": spread}
    )


def _note(name: str, calibration: Calibration, measured: bool) -> str:
    step = calibration.step
    whose = "whole LLMs" if calibration.held_out_by == "llm" else "passes"
    beyond = ""
    if not measured:
        sizes = " and ".join(f"TP {size}" for size in calibration.tensor_parallel)
        beyond = (
            f"; measured with {', '.join(calibration.llms)} at {sizes}, for others the interval "
            "of the data sheet is kept"
        )
    return (
        f"{name}: constants of {calibration.engine} {calibration.engine_version} on "
        f"{calibration.gpu} fitted to {step.points} timed passes; {whose} left out were "
        f"{step.held_out_error:.1%} off (shipped constants: {step.datasheet_error:.1%}){beyond}"
    )
