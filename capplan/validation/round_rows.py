"""Speculative runs whose machine is known well enough to be estimated from data sheets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from capplan.estimate.decoding import FACTORS, NOISE, DecodeSetting
from capplan.estimate.kvcache import kv_known
from capplan.estimate.pooling import PooledFit, Prediction, fit_pooled
from capplan.estimate.round_cost import (
    ROUND_FACTORS,
    ROUND_NOISE,
    MachineRound,
    round_work,
    typical_head_params,
)
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.validation.decode_rows import DecodeStep, decode_steps
from capplan.validation.rows import PublishedRows, SpeedupRow
from capplan.validation.scoring import Scored
from capplan.validation.specs import Specs, bytes_per_param, plain_name

_Z_90 = 1.645
_CONTEXT = 800.0
"""Where a row states none: a chat turn."""
_FULLEST = 0.3
"""Share of a GPU that weights fill where the parallelism is not published: the smallest power of
two that stays below, at most the eight GPUs of a server."""
_ENGINES = {
    "vllm": "vllm",
    "specbundle": "sglang",
    "sglang": "sglang",
    "cookbook": "sglang",
    "trtllm": "trtllm",
    "magicdec": "gpt-fast",
    "gptfast": "gpt-fast",
    "eagle": "transformers",
    "specbench": "transformers",
    "medusa": "transformers",
}
"""Engine by the beginning of a source's key, from the sources themselves (sources.csv)."""
_COMPRESSED = "KV-compressed"
_COMPRESSED_CONTEXT = 512.0


@dataclass(frozen=True)
class KnownRun:
    """One run with what it takes to estimate its round."""

    source: str
    target: str
    machine: MachineRound
    tokens_per_round: float
    speedup: float
    label: str


def known_runs(rows: PublishedRows, specs: Specs) -> tuple[KnownRun, ...]:
    """Return the runs whose target, GPU, batch, length and tokens a round are known."""
    found = [_run(row, specs) for row in rows.speedup]
    return tuple(run for run in found if run is not None)


def predict_left_out(
    rows: PublishedRows, specs: Specs, key: Callable[[KnownRun], Hashable], scatter: float
) -> list[Scored]:
    """Predict each run from the runs of other keys; decode steps of its source never enter.

    Parameters
    ----------
    scatter
        Relative scatter of a round about the fit, beyond what unmeasured groups add.
    """
    runs, steps = known_runs(rows, specs), decode_steps(rows, specs)
    decode = {source: _decode_fit(steps, source) for source in {run.source for run in runs}}
    works = [round_work(run.machine, decode[run.source]) for run in runs]
    scored: list[Scored] = []
    for held in dict.fromkeys(key(run) for run in runs):
        kept = [i for i, run in enumerate(runs) if key(run) != held]
        ratios = [runs[i].tokens_per_round / runs[i].speedup for i in kept]
        fit = fit_pooled(ROUND_FACTORS, [works[i] for i in kept], ratios, ROUND_NOISE)
        scored += [
            _scored(run, fit.predict(work, scatter))
            for run, work in zip(runs, works, strict=True)
            if key(run) == held
        ]
    return scored


def _scored(run: KnownRun, found: Prediction) -> Scored:
    low, high = found.interval(_Z_90)
    tau = run.tokens_per_round
    return Scored(
        run.source, run.speedup, tau / found.value, tau / high, tau / low, True, run.label
    )


def _decode_fit(steps: Sequence[DecodeStep], source: str) -> PooledFit:
    kept = [step for step in steps if step.source != source]
    works, seconds = [step.work for step in kept], [step.seconds for step in kept]
    return fit_pooled(FACTORS, works, seconds, NOISE)


def _run(row: SpeedupRow, specs: Specs) -> KnownRun | None:
    llm, gpu = specs.llm(row.target), specs.gpu(row.gpu)
    if llm is None or gpu is None or not kv_known(llm):
        return None
    if not row.tau or not row.measured_speedup or not row.N or not row.batch_size:
        return None
    target = _target(row, llm, gpu)
    draft = _draft(row, target, specs)
    head = None if draft is not None else _head_params(row, llm, specs)
    if draft is None and head is None:
        return None
    verified = row.verify_tokens or row.N + 1.0
    machine = MachineRound(target, row.N, verified, head, draft, row.source_key)
    label = f"{row.target} + {row.draft} N={row.N:g}, {row.task}, {row.gpu} B={row.batch_size:g}"
    return KnownRun(row.source_key, llm.id, machine, row.tau, row.measured_speedup, label)


def _target(row: SpeedupRow, llm: LlmSpec, gpu: GpuSpec) -> DecodeSetting:
    size = bytes_per_param(row.dtype, llm)
    return DecodeSetting(
        llm=llm,
        gpu=gpu,
        engine=engine_of(row.source_key),
        machine=row.gpu,
        bytes_per_param=size,
        tensor_parallel=row.n_gpu or _usual_parallelism(llm.params_total * size, gpu),
        batch=row.batch_size or 1.0,
        context=row.context or _CONTEXT,
    )


def engine_of(source: str) -> str:
    """Return the engine that a source ran, the source's own key where that is not known."""
    return next((name for start, name in _ENGINES.items() if source.startswith(start)), source)


def _usual_parallelism(weight_bytes: float, gpu: GpuSpec) -> float:
    size = 1
    while size < 8 and weight_bytes / size > _FULLEST * gpu.memory_bytes:
        size *= 2
    return float(size)


def _draft(row: SpeedupRow, target: DecodeSetting, specs: Specs) -> DecodeSetting | None:
    """Return the step of a drafting LLM: another one, or the target with a compressed cache."""
    if _COMPRESSED not in row.method and "draft model" not in row.method:
        return None
    words = row.draft.lower()
    named = specs.llm(row.draft.split(" ")[0])
    compressed = any(word in words for word in ("stream", "snapkv", "(s)", "self"))
    llm = named if named is not None else target.llm
    if named is None and not compressed:
        return None
    return DecodeSetting(
        llm=llm,
        gpu=target.gpu,
        engine=target.engine,
        machine=target.machine,
        bytes_per_param=llm.weight_bytes / llm.params_total,
        tensor_parallel=target.tensor_parallel,
        batch=target.batch,
        context=_COMPRESSED_CONTEXT if compressed else target.context,
    )


def _head_params(row: SpeedupRow, llm: LlmSpec, specs: Specs) -> float | None:
    """Return the parameters one pass of a head reads; None for methods without a head."""
    method = row.method.upper()
    if not any(word in method for word in ("EAGLE", "MTP")):
        return None
    draft = row.draft.lower()
    for pairing in specs.pairings:
        same = plain_name(pairing.target) == plain_name(row.target)
        if same and pairing.draft.lower() == draft and pairing.draft_params is not None:
            return pairing.draft_params
    if "EAGLE-1" in method:
        # the first EAGLE reads the target's whole vocabulary
        return typical_head_params(llm, llm.vocab_size)
    return typical_head_params(llm)
