"""Fit an engine's efficiencies on one GPU to timed passes, and check them on passes left out.

The data-sheet step itself is fitted, not a copy of it: what is predicted here is what a plan
then computes with the fitted constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from capplan.errors import CalibrationError
from capplan.estimate.datasheet_step import DatasheetStep, HardwareGroup, by_arch
from capplan.estimate.decoding import FACTORS
from capplan.estimate.pass_timings import Booleans, Floats, PassTimings, chosen, splits
from capplan.estimate.shrunken_fit import Prior, ShrunkenFit, fit_shrunken
from capplan.schema.calibration import (
    CalibratedConstant,
    CalibrationFit,
    ConstantName,
    HeldOutGroup,
)
from capplan.schema.engine import EngineConstants
from capplan.schema.gpu import GpuSpec
from capplan.schema.quantity import Quantity

_LOG_SD = {factor.name: factor.log_sd for factor in FACTORS}
"""How far engines and GPUs differ, as in the pooled fit of published decode steps."""
_STEP_TERMS = {
    "layer_s": "layer",
    "weight_bandwidth_efficiency": "weights",
    "kv_bandwidth_efficiency": "kv",
    "verify_flops_efficiency": "flops",
    "decoded_token_cost": "flops",
    "request_s": "request",
}
_EXCHANGE_TERMS = {"exchange_efficiency": "exchange"}
_PREFILL_TERMS = {"prompt_flops_efficiency": "flops", "prompt_attention_efficiency": "flops"}

_IMPLAUSIBLE_LOG_SDS = 4.0
"""A constant further from the shipped one was not measured on the GPU that the profile names: for
vLLM these are bandwidth efficiencies below 0.35 and 0.27, where published engines reach 0.42 and
more (``decoding``)."""


@dataclass(frozen=True)
class Bench:
    """The GPU that ran the passes, and the engine's shipped constants."""

    gpu: GpuSpec
    engine: EngineConstants


def with_constants(engine: EngineConstants, values: Mapping[str, float]) -> EngineConstants:
    """Return the engine with fitted constants in place of the shipped ones."""
    update: dict[str, object] = dict(values)
    if "verify_flops_efficiency" in values:
        update["verify_flops_efficiency"] = {"default": values["verify_flops_efficiency"]}
        # what multiplying takes here was measured: the factor that other machines lent is void
        update["rounds"] = engine.rounds.measured("arithmetic")
    return engine.model_copy(update=update)


def fit_step(timings: Sequence[PassTimings], bench: Bench, by_llm: bool) -> CalibrationFit:
    """Fit decode and verification passes.

    Parameters
    ----------
    by_llm
        Check by leaving out one LLM at a time; else one batch, context or pass length at a time.

    Raises
    ------
    CalibrationError
        If there is too little to fit and check, if the times are impossible on this GPU, or if
        passes left out are predicted no better than by the shipped constants, or so badly that
        the times follow no such model.
    """
    exchanged = any(t.tensor_parallel > 1 for t in timings)
    terms = {**_STEP_TERMS, **(_EXCHANGE_TERMS if exchanged else {})}
    _check_possible(timings, bench)
    return _Fit(_predict_step, terms, bench).checked(timings, by_llm)


def fit_prefill(timings: Sequence[PassTimings], bench: Bench, by_llm: bool) -> CalibrationFit:
    """Fit whole prompts; arguments and errors as in :func:`fit_step`.

    Prompts whose arithmetic takes less time at the peak than their weights take to read are
    left out: they are bound by memory, which the prefill formula does not hold for.
    """
    bound = [t.where(_bound_by_arithmetic(t, bench)) for t in timings]
    return _Fit(_predict_prefill, _PREFILL_TERMS, bench).checked(
        [t for t in bound if len(t)], by_llm
    )


_Predict = Callable[[PassTimings, GpuSpec, EngineConstants], Floats]


def _step(timings: PassTimings, gpu: GpuSpec, engine: EngineConstants) -> DatasheetStep:
    group = HardwareGroup.of([(gpu, timings.tensor_parallel)], engine, axes=1)
    return DatasheetStep(timings.llm, group, engine)


def _predict_step(timings: PassTimings, gpu: GpuSpec, engine: EngineConstants) -> Floats:
    step = _step(timings, gpu, engine)
    result: Floats = step.seconds(timings.batch, timings.tokens, timings.context)[0]
    return result


def _predict_prefill(timings: PassTimings, gpu: GpuSpec, engine: EngineConstants) -> Floats:
    step = _step(timings, gpu, engine)
    prompts = np.array([float(step.prompt_seconds(float(n)).item()) for n in timings.tokens])
    result: Floats = timings.batch * prompts
    return result


def _bound_by_arithmetic(timings: PassTimings, bench: Bench) -> Booleans:
    gpu, llm = bench.gpu, timings.llm
    flops_s = 2.0 * llm.params_active * timings.batch * timings.tokens / gpu.bf16_flops_per_s
    result: Booleans = flops_s > llm.weight_bytes / gpu.memory_bytes_per_s
    return result


def _check_possible(timings: Sequence[PassTimings], bench: Bench) -> None:
    """Refuse passes faster than the memory can deliver the weights."""
    for timed in timings:
        llm = timed.llm
        # of an input embedding only the rows of the tokens at hand are read
        looked_up = llm.vocab_size * llm.hidden * llm.weight_bytes / llm.params_total
        read = max(llm.weight_bytes_active - looked_up, 0.0)
        least_s = read / (timed.tensor_parallel * bench.gpu.memory_bytes_per_s)
        fastest = float(timed.seconds.min())
        if fastest < least_s:
            raise CalibrationError(
                f"A pass of {llm.id} took {fastest * 1e3:.3g} ms, and {bench.gpu.name} needs "
                f"{least_s * 1e3:.3g} ms to read its weights at the data sheet's bandwidth.",
                "Check that the profile was taken on that GPU, with an LLM that does not fit its "
                "cache and whose passes read every weight.",
            )


@dataclass(frozen=True)
class _Fit:
    """Constants of one kind of pass: how to predict it, and its terms."""

    predict: _Predict
    terms: Mapping[str, str]
    bench: Bench

    def checked(self, timings: Sequence[PassTimings], by_llm: bool) -> CalibrationFit:
        points = sum(map(len, timings))
        least = len(self.terms) + 1
        if points < least:
            raise CalibrationError(
                f"The profiles hold {points} usable timed passes; a calibration needs at least "
                f"{least}.",
                "Measure more: capplan profile ... --resume with a larger --budget-minutes.",
            )
        groups = self._held_out(timings, by_llm)
        held_out, datasheet = (
            _pooled([getattr(group, name) for group in groups], [g.points for g in groups])
            for name in ("held_out_error", "datasheet_error")
        )
        self._check_worth(held_out, datasheet)
        fit = self._fit(timings)
        return CalibrationFit(
            constants=self._constants(fit),
            points=points,
            fit_error=fit.scatter,
            held_out_error=held_out,
            datasheet_error=datasheet,
            groups=groups,
        )

    def _check_worth(self, held_out: float, datasheet: float) -> None:
        """Refuse constants that predict passes left out worse than planning without them."""
        shipped = self.bench.engine
        unmeasured = shipped.decode_relative_se["default"]
        what = (
            f"Passes left out were predicted {held_out:.1%} off by constants fitted to the "
            f"others, and {datasheet:.1%} off by the shipped constants of {shipped.id}"
        )
        if held_out >= datasheet:
            raise CalibrationError(
                f"{what}: the fit is no better.",
                "Profile longer, at more batches and contexts or with another LLM, on an idle "
                "GPU; until then plan with the shipped constants.",
            )
        if held_out > unmeasured:
            raise CalibrationError(
                f"{what}: no efficiencies explain these times to the {unmeasured:.0%} that a GPU "
                "never measured is planned with.",
                "Check the profile: another program on the GPU, throttling, passes outside CUDA "
                "graphs, or an LLM whose layers capplan does not count.",
            )

    def _priors(self) -> list[Prior]:
        return [self._prior(name, term) for name, term in self.terms.items()]

    def _prior(self, name: str, term: str) -> Prior:
        most = 1.0 if name.endswith("efficiency") else float("inf")
        least = 1.0 if name == "decoded_token_cost" else 1e-12
        shipped = getattr(self.bench.engine, name)
        value = by_arch(shipped, self.bench.gpu) if isinstance(shipped, dict) else shipped
        return Prior(name, float(value), _LOG_SD[term], least, most)

    def _seconds(self, timings: Sequence[PassTimings], values: Floats) -> Floats:
        constants = dict(zip(self.terms, map(float, values), strict=True))
        engine = with_constants(self.bench.engine, constants)
        return np.concatenate([self.predict(t, self.bench.gpu, engine) for t in timings])

    def _fit(self, timings: Sequence[PassTimings]) -> ShrunkenFit:
        measured = np.concatenate([t.seconds for t in timings])
        return fit_shrunken(
            lambda values: self._seconds(timings, values), measured, self._priors()
        )

    def _log_errors(self, timings: Sequence[PassTimings], values: Floats) -> Floats:
        measured = np.concatenate([t.seconds for t in timings])
        result: Floats = np.log(self._seconds(timings, values) / measured)
        return result

    def _held_out(self, timings: Sequence[PassTimings], by_llm: bool) -> tuple[HeldOutGroup, ...]:
        shipped = np.array([prior.value for prior in self._priors()])
        groups = []
        for name, masks in splits(timings, by_llm):
            kept = chosen(timings, [~mask for mask in masks])
            left = chosen(timings, masks)
            if not kept or not left:
                continue
            errors = self._log_errors(left, self._fit(kept).values)
            groups.append(
                HeldOutGroup(
                    group=name,
                    points=len(errors),
                    held_out_error=_rms(errors),
                    datasheet_error=_rms(self._log_errors(left, shipped)),
                )
            )
        if not groups:
            raise CalibrationError(
                "All timed passes have one batch, one context and one length: nothing can be "
                "left out to check a fit.",
                "Profile several batches and contexts: capplan profile --help",
            )
        return tuple(groups)

    def _constants(self, fit: ShrunkenFit) -> tuple[CalibratedConstant, ...]:
        return tuple(
            self._constant(prior, float(value), float(se))
            for prior, value, se in zip(self._priors(), fit.values, fit.log_se, strict=True)
        )

    def _constant(self, prior: Prior, value: float, log_se: float) -> CalibratedConstant:
        away = abs(np.log(value / prior.value)) / prior.log_sd
        if away > _IMPLAUSIBLE_LOG_SDS:
            raise CalibrationError(
                f"The fit puts {prior.name} at {value:.3g}; the shipped constant is "
                f"{prior.value:.3g}, and that is {away:.1f} times as far as engines and GPUs "
                "usually differ.",
                f"Check that the profile was taken on an idle {self.bench.gpu.name} and that its "
                "times are seconds of one pass.",
            )
        spread = Quantity.from_relative_se(value, log_se)
        low, high = max(spread.low, min(prior.least, value)), min(spread.high, prior.most)
        return CalibratedConstant(
            name=cast("ConstantName", prior.name),
            value=Quantity(low=min(low, value), mid=value, high=max(high, value)),
            shipped=prior.value,
        )


def _rms(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _pooled(errors: Sequence[float], points: Sequence[int]) -> float:
    """Return the root mean square over all points of the groups."""
    return float(np.sqrt(np.average(np.square(errors), weights=points)))
