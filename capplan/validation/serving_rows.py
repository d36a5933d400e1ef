"""Serving rows of a folder as the estimator sees them, and fits that leave a machine out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capplan.estimate.kvcache import kv_known
from capplan.estimate.pooling import PooledFit, Work, fit_pooled
from capplan.estimate.serving import (
    TPOT_FACTORS,
    TPOT_NOISE,
    TTFT_FACTORS,
    TTFT_NOISE,
    ServingSetting,
    tpot_work,
)
from capplan.schema.cache import BF16_BYTES
from capplan.schema.gpu import GpuSpec
from capplan.units import MS_PER_S
from capplan.validation.rows import PublishedRows, ServingRow
from capplan.validation.specs import Specs, bytes_per_param

SCORED_ENGINE = "vllm"
"""The engine that plans are made for; rows of others lend their relatives' factors."""

_Key = tuple[str, str]


@dataclass(frozen=True)
class ServingStep:
    """One measured row.

    Attributes
    ----------
    machine
        LLM and GPU: what is left out together, on every engine.
    """

    source: str
    machine: _Key
    setting: ServingSetting
    tpot_s: float | None
    ttft_s: float | None
    label: str

    @property
    def scored(self) -> bool:
        """Whether this row is of the engine that plans are made for."""
        return self.setting.engine == SCORED_ENGINE


def serving_steps(rows: PublishedRows, specs: Specs) -> tuple[ServingStep, ...]:
    """Return the rows whose LLM, GPU, sizes and load are known."""
    found = [_step(row, specs) for row in rows.serving_baseline]
    return tuple(step for step in found if step is not None)


def fit_tpot(steps: Sequence[ServingStep], start: PooledFit | None = None) -> PooledFit:
    """Fit the time per output token to rows of all engines."""
    known = [step for step in steps if step.tpot_s is not None]
    works = [tpot_work(step.setting) for step in known]
    return fit_pooled(TPOT_FACTORS, works, [step.tpot_s or 0 for step in known], TPOT_NOISE, start)


def fit_ttft(
    works: Sequence[Work], steps: Sequence[ServingStep], start: PooledFit | None = None
) -> PooledFit:
    """Fit the time to the first token."""
    seconds = [step.ttft_s or 0.0 for step in steps]
    return fit_pooled(TTFT_FACTORS, works, seconds, TTFT_NOISE, start)


def machines_left_out(
    steps: Sequence[ServingStep],
) -> Iterator[tuple[list[ServingStep], list[ServingStep]]]:
    """Yield (rows to predict, rows to fit) for each LLM on each GPU."""
    for machine in dict.fromkeys(step.machine for step in steps if step.scored):
        held = [step for step in steps if step.machine == machine and step.scored]
        yield held, [step for step in steps if step.machine != machine]


def _step(row: ServingRow, specs: Specs) -> ServingStep | None:
    llm, gpu, tp = specs.llm(row.model), specs.gpu(row.gpu), row.tp or row.n_gpu
    if llm is None or gpu is None or not tp or not kv_known(llm):
        return None
    if not row.isl or not row.osl or not row.concurrency or not (row.tpot_ms or row.ttft_ms):
        return None
    setting = ServingSetting(
        llm=llm,
        gpu=gpu,
        engine=row.engine,
        tensor_parallel=tp,
        bytes_per_param=bytes_per_param(row.weight_quant, llm),
        # quantised weights are served with an 8-bit KV cache in these benchmarks
        kv_element_bytes=1.0 if row.weight_quant else BF16_BYTES,
        peak_flops_per_s=_peak(row.weight_quant, gpu),
        concurrency=row.concurrency,
        prompt_tokens=row.isl,
        output_tokens=row.osl,
    )
    quant = f" {row.weight_quant}" if row.weight_quant else ""
    label = (
        f"{row.model}{quant} on {tp:g} x {row.gpu}, {row.engine} {row.engine_version}: "
        f"{row.isl:g}/{row.osl:g} C={row.concurrency:g}"
    )
    tpot = row.tpot_ms / MS_PER_S if row.tpot_ms else None
    ttft = row.ttft_ms / MS_PER_S if row.ttft_ms else None
    return ServingStep(row.source, (llm.id, gpu.id), setting, tpot, ttft, label)


def _peak(quant: str, gpu: GpuSpec) -> float:
    """Return the dense rate in the format of the weights, 16-bit where the GPU lacks it."""
    if "fp4" in quant and gpu.fp4_flops_per_s:
        return gpu.fp4_flops_per_s
    if quant.startswith("fp8") and gpu.fp8_flops_per_s:
        return gpu.fp8_flops_per_s
    return gpu.bf16_flops_per_s
