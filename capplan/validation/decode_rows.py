"""Plain decode steps of a folder as the estimator sees them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from capplan.estimate.decoding import FACTORS, NOISE, DecodeSetting, decode_work
from capplan.estimate.kvcache import kv_known
from capplan.estimate.pooling import PooledFit, Work, fit_pooled
from capplan.units import MS_PER_S
from capplan.validation.rows import DecodeRow, PublishedRows
from capplan.validation.scoring import Scored
from capplan.validation.specs import Specs, bytes_per_param

_Z_90 = 1.645
_PROMPT_TOKENS = 512.0
"""Where a row states no context: short, so that it hardly matters."""


@dataclass(frozen=True)
class DecodeStep:
    """One measured step.

    Attributes
    ----------
    machine
        Engine and GPU as the row names them.
    work
        What the step does.
    """

    source: str
    machine: tuple[str, str]
    llm: str
    work: Work
    seconds: float
    label: str


def decode_steps(rows: PublishedRows, specs: Specs) -> tuple[DecodeStep, ...]:
    """Return the steps at a fixed batch whose LLM, GPU and parallelism are known.

    Rows measured at a concurrency hold prompts of other requests too: they are left to the
    serving modes.
    """
    found = [_step(row, specs) for row in rows.baseline_decode]
    return tuple(step for step in found if step is not None)


def predict_left_out(steps: Sequence[DecodeStep], keys: Sequence[Hashable]) -> tuple[Scored, ...]:
    """Predict each step from those of another key alone."""
    everything = fit_decode(steps, None)
    scored: dict[int, Scored] = {}
    for key in dict.fromkeys(keys):
        kept = [step for step, other in zip(steps, keys, strict=True) if other != key]
        fit = fit_decode(kept, everything)
        for index, (step, other) in enumerate(zip(steps, keys, strict=True)):
            if other == key:
                scored[index] = _scored(step, fit)
    return tuple(scored[index] for index in range(len(steps)))


def fit_decode(steps: Sequence[DecodeStep], start: PooledFit | None = None) -> PooledFit:
    """Fit the factors of all engines to decode steps."""
    works, seconds = [step.work for step in steps], [step.seconds for step in steps]
    return fit_pooled(FACTORS, works, seconds, NOISE, start)


def _scored(step: DecodeStep, fit: PooledFit) -> Scored:
    found = fit.predict(step.work)
    low, high = found.interval(_Z_90)
    return Scored(step.source, step.seconds, found.value, low, high, False, step.label)


def _step(row: DecodeRow, specs: Specs) -> DecodeStep | None:
    llm, gpu, tp = specs.llm(row.model), specs.gpu(row.gpu), row.tp or row.n_gpu
    seconds = _seconds(row)
    if llm is None or gpu is None or not tp or seconds is None or not kv_known(llm):
        return None
    engine = row.engine.split()[0] if row.engine else "unknown"
    if row.load_kind != "batch" or not row.load:
        return None
    prompt = row.isl if row.isl is not None else _PROMPT_TOKENS
    setting = DecodeSetting(
        llm=llm,
        gpu=gpu,
        engine=row.engine,
        machine=row.gpu,
        bytes_per_param=bytes_per_param(row.dtype, llm),
        tensor_parallel=tp,
        batch=row.load,
        context=prompt + (row.osl or 0.0) / 2.0,
    )
    label = f"{row.model} {row.dtype} on {tp:g} x {row.gpu}, {engine}, B={row.load:g} S={prompt:g}"
    machine = (row.engine, row.gpu)
    return DecodeStep(row.source_key, machine, llm.id, decode_work(setting), seconds, label)


def _seconds(row: DecodeRow) -> float | None:
    if row.tpot_ms:
        return row.tpot_ms / MS_PER_S
    if row.load and row.tok_s_total:
        return row.load / row.tok_s_total
    return None
