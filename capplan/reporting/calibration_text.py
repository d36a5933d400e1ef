"""A calibration as text: constants beside the shipped ones, errors on what was left out."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.schema.calibration import CalibratedConstant, Calibration, CalibrationFit
from capplan.units import US_PER_S


def render_calibration(calibration: Calibration) -> str:
    """Return what ``capplan calibrate`` prints."""
    return "\n".join(_lines(calibration)) + "\n"


def _lines(calibration: Calibration) -> Iterator[str]:
    sizes = ", ".join(map(str, calibration.tensor_parallel))
    graphs = "with" if calibration.cuda_graphs else "without"
    yield (
        f"Calibration of {calibration.engine} {calibration.engine_version} ({graphs} CUDA graphs) "
        f"on {calibration.gpu}, tensor parallel {sizes}"
    )
    yield f"  LLMs: {', '.join(calibration.llms)}"
    yield f"  profiles: {', '.join(calibration.profiles)}"
    yield ""
    yield from _fit("Decode and verification", calibration.step)
    yield ""
    if calibration.prefill is not None:
        yield from _fit("Prompts", calibration.prefill)
    else:
        yield f"Prompts: shipped constants. {calibration.prefill_note}"
    if calibration.held_out_by == "point":
        yield ""
        yield "Passes of the same LLMs were left out: for other LLMs plans keep the wider interval"
        yield "of the data sheet. Profiles of LLMs of other sizes would check that."


def _fit(title: str, fit: CalibrationFit) -> Iterator[str]:
    yield (
        f"{title}: {fit.points} passes; left out {fit.held_out_error:.1%} off, shipped constants "
        f"{fit.datasheet_error:.1%}, on the fit itself {fit.fit_error:.1%}"
    )
    yield f"  {'constant':<30}{'fitted':>10}   {'95 % interval':<20}{'shipped':>10}"
    for constant in fit.constants:
        yield f"  {_constant(constant)}"
    yield f"  {'left out':<30}{'passes':>10}   {'error':<20}{'shipped':>10}"
    for group in fit.groups:
        yield (
            f"  {group.group:<30}{group.points:>10}   {f'{group.held_out_error:.1%}':<20}"
            f"{group.datasheet_error:>10.1%}"
        )


def _constant(constant: CalibratedConstant) -> str:
    in_us = constant.name.endswith("_s")
    value = constant.value.scaled(US_PER_S) if in_us else constant.value
    shipped = constant.shipped * US_PER_S if in_us else constant.shipped
    name = f"{constant.name.removesuffix('_s')}, us" if in_us else constant.name
    interval = f"{value.low:.3g} to {value.high:.3g}"
    return f"{name:<30}{value.mid:>10.3g}   {interval:<20}{shipped:>10.3g}"
