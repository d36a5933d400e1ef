"""Constants fitted on one GPU: where they are used, and how far they are trusted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from capplan.api.plans import plan_inputs
from capplan.errors import RequestError
from capplan.estimate.engine_fit import with_constants
from capplan.planning.calibrated import check_calibrations, evaluate_rented
from capplan.planning.choices import HardwareChoice
from capplan.planning.drafting import NO_DRAFTING
from capplan.planning.hardware import Evaluated, evaluate_catalogue
from capplan.planning.inputs import NamedCalibration, PlanInputs
from capplan.schema.calibration import (
    CalibratedConstant,
    Calibration,
    CalibrationFit,
    HeldOutGroup,
)
from capplan.schema.plan import PlanRequest, Tier
from capplan.schema.quantity import Quantity

H100, H200, TARGET = "h100-sxm-80gb", "h200-sxm-141gb", "Qwen/Qwen3-8B"
REQUEST = PlanRequest(targets=(TARGET,), budget_usd_per_month=1e6)
LAYER_S, HELD_OUT = 3e-5, 0.03


def calibration(**fields: Any) -> Calibration:
    """Twice 40 points of one LLM on one H100; 3 % off where left out, shipped ones 20 %."""
    step = CalibrationFit(
        constants=(
            CalibratedConstant(name="layer_s", value=Quantity.exact(LAYER_S), shipped=1e-5),
        ),
        points=80,
        fit_error=0.01,
        held_out_error=fields.pop("held_out_error", HELD_OUT),
        datasheet_error=0.2,
        groups=(
            HeldOutGroup(group="batch 8", points=80, held_out_error=0.03, datasheet_error=0.2),
        ),
    )
    given: dict[str, Any] = {
        "created_at": "2026-01-02T03:04:05+00:00",
        "capplan_version": "0",
        "engine": "vllm",
        "engine_version": "0.33",
        "cuda_graphs": True,
        "gpu": H100,
        "device": "NVIDIA H100 80GB HBM3",
        "tensor_parallel": (1,),
        "llms": (TARGET,),
        "profiles": ("p-1",),
        "held_out_by": "point",
        "step": step,
    }
    return Calibration(**{**given, **fields})


@cache
def shipped() -> PlanInputs:
    return plan_inputs(REQUEST)[1]


def choice(gpu_id: str, size: int = 1) -> HardwareChoice:
    gpu = shipped().gpus[gpu_id]
    return HardwareChoice(gpu.id, gpu.name, gpu.memory_bytes, size, gpu)


def evaluated(
    *choices: HardwareChoice, target: str = TARGET, **fields: Any
) -> dict[tuple[str, int], Evaluated]:
    """Evaluate plain decoding; by GPU and size, where each has a grid of its own."""
    named = NamedCalibration(calibration(**fields), "c.json")
    inputs = replace(shipped(), calibrations=[named])
    items = evaluate_rented(inputs.target(target), NO_DRAFTING, choices, inputs, REQUEST)
    return {(one.gpu_id, one.tensor_parallel): item for item in items for one in item.choices}


def test_only_the_calibrated_gpu_takes_the_fitted_constants() -> None:
    found = evaluated(choice(H200), choice(H100))
    assert found[H100, 1].tier is Tier.ANCHORED
    assert found[H200, 1].tier is Tier.DATASHEET
    target = shipped().target(TARGET)
    plain = evaluate_catalogue(target, NO_DRAFTING, [choice(H200)], shipped(), REQUEST)
    assert np.array_equal(found[H200, 1].grid.decode_s, plain.grid.decode_s)
    assert found[H200, 1].tier_note == plain.tier_note
    fitted = replace(shipped(), engine=with_constants(shipped().engine, {"layer_s": LAYER_S}))
    again = evaluate_catalogue(target, NO_DRAFTING, [choice(H100)], fitted, REQUEST)
    assert np.array_equal(found[H100, 1].grid.decode_s, again.grid.decode_s)


def test_what_was_measured_is_off_by_what_was_left_out_and_the_rest_by_the_data_sheet() -> None:
    sheet = shipped().engine.decode_relative_se["hopper"]
    assert sheet > HELD_OUT
    found = evaluated(choice(H100), choice(H100, 2))
    assert found[H100, 1].grid.decode_relative_se.tolist() == [HELD_OUT]
    assert found[H100, 2].grid.decode_relative_se.tolist() == [sheet]
    other = evaluated(choice(H100), target="Qwen/Qwen3-14B")
    assert other[H100, 1].grid.decode_relative_se.tolist() == [sheet]
    # a fit that is worse than the data sheet elsewhere is no better for another size
    worse = evaluated(choice(H100, 2), held_out_error=0.15)
    assert worse[H100, 2].grid.decode_relative_se.tolist() == [0.15]


def test_whole_llms_left_out_speak_for_any_llm() -> None:
    found = evaluated(choice(H100), target="Qwen/Qwen3-14B", held_out_by="llm")
    assert found[H100, 1].grid.decode_relative_se.tolist() == [HELD_OUT]


def test_the_note_says_what_was_fitted_and_where_the_wider_interval_holds() -> None:
    found = evaluated(choice(H100), choice(H100, 2))
    own = found[H100, 1].tier_note
    assert own == (
        "c.json: constants of vllm 0.33 on h100-sxm-80gb fitted to 80 timed passes; passes left "
        "out were 3.0% off (shipped constants: 20.0%)"
    )
    assert found[H100, 2].tier_note == (
        f"{own}; measured with {TARGET} at TP 1, for others the interval of the data sheet is kept"
    )
    whole = evaluated(choice(H100), held_out_by="llm")[H100, 1].tier_note
    assert "; whole LLMs left out were 3.0% off" in whole


def named(name: str, **fields: Any) -> NamedCalibration:
    return NamedCalibration(calibration(**fields), name)


def test_calibrations_of_two_gpus_serve_one_plan() -> None:
    check_calibrations([named("a.json"), named("b.json", gpu=H200)], shipped().engine)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([named("a.json", engine="sglang")], r"a\.json holds constants of sglang, and the plan"),
        ([named("a.json"), named("b.json")], r"a\.json and b\.json are both calibrations of h100"),
    ],
)
def test_calibrations_that_cannot_serve_a_plan_are_refused(
    given: list[NamedCalibration], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        check_calibrations(given, shipped().engine)
