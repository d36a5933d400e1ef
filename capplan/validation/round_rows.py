"""Speculative runs whose machine is known well enough to be estimated from data sheets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from capplan.estimate.decoding import DecodeSetting, decode_work, half_precision_flops
from capplan.estimate.kvcache import kv_known
from capplan.estimate.pooling import PooledFit, Prediction, fit_pooled
from capplan.estimate.round_cost import (
    ROUND_FACTORS,
    ROUND_NOISE,
    MachineRound,
    round_work,
    typical_head_params,
)
from capplan.estimate.work import flops_per_token
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.validation.decode_rows import DecodeStep, decode_steps, fit_decode
from capplan.validation.rows import PublishedRows, RoundRow, SpeedupRow, ThroughputRow
from capplan.validation.runs import throughput_speedup
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
    "specdecode_bench": "vllm",
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
_SERVING_ENGINES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrtllm": "trtllm",
    "gptfast": "gpt-fast",
    "hf transformers": "transformers",
}
"""Engine by the beginning of what a row of throughput.csv says, hyphens left out."""
_MOST_PREFILL = 0.5
"""Of a plain step, in others' prompts, up to which a run tells what a round costs."""
_FP8_BYTES = 1.1
_PROMPT_EFFICIENCY = 0.57
"""Of the peak, others' prompts in a serving loop of vLLM (docs/method/serving.md)."""
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

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What tells runs of two files apart: a run that both print is one."""
        machine = self.machine
        run = (machine.drafted, machine.target.batch, self.tokens_per_round)
        return (self.source, self.target, *run, round(self.speedup, 2))

    @property
    def round_ratio(self) -> float:
        """What the round cost in plain steps, as far as the speedup shows it."""
        return self.tokens_per_round / self.speedup

    def shows_its_round(self, decode: PooledFit) -> bool:
        """Whether decoding and not others' prompts takes the time: else it tests prefill."""
        step_s = decode.predict(decode_work(self.machine.target)).value
        return self.machine.prefill_s < _MOST_PREFILL * step_s


def known_runs(rows: PublishedRows, specs: Specs) -> tuple[KnownRun, ...]:
    """Return the runs whose target, GPU, batch, length and tokens a round are known."""
    found = [_run(row, engine_of(row.source_key), 0.0, specs) for row in rows.speedup]
    seen = {run.identity for run in found if run is not None}
    served = [_served(row, specs) for row in rows.throughput]
    found += [run for run in served if run is not None and run.identity not in seen]
    return tuple(run for run in found if run is not None)


def predict_left_out(
    rows: PublishedRows, specs: Specs, key: Callable[[KnownRun], Hashable], scatter: float
) -> list[Scored]:
    """Predict each run from the runs of other keys; decode steps of its source never enter.

    Runs that mostly read others' prompts are left out: what they test is prefill.

    Parameters
    ----------
    scatter
        Relative scatter of a round about the fit, beyond what unmeasured groups add.
    """
    known, steps = known_runs(rows, specs), decode_steps(rows, specs)
    decode = {source: _decode_fit(steps, source) for source in {run.source for run in known}}
    runs = [run for run in known if run.shows_its_round(decode[run.source])]
    works = [round_work(run.machine, decode[run.source]) for run in runs]
    scored: list[Scored] = []
    for held in dict.fromkeys(key(run) for run in runs):
        kept = [i for i, run in enumerate(runs) if key(run) != held]
        ratios = [runs[i].round_ratio for i in kept]
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
    return fit_decode(kept)


def _run(row: SpeedupRow, engine: str, prompts: float, specs: Specs) -> KnownRun | None:
    """Return a run; ``prompts`` is how many prompt tokens are read for each token written."""
    llm, gpu = specs.llm(row.target), specs.gpu(row.gpu)
    if llm is None or gpu is None or not kv_known(llm):
        return None
    if not row.tau or not row.measured_speedup or not row.N or not row.batch_size:
        return None
    target = _target(row, llm, gpu, engine)
    draft = _draft(row, target, specs)
    head = None if draft is not None else _head_params(row, llm, specs)
    if draft is None and head is None:
        return None
    machine = MachineRound(
        target=target,
        drafted=row.N,
        verified=row.verify_tokens or row.N + 1.0,
        head_params=head,
        draft=draft,
        deployment=row.source_key,
        prefill_s=prompts * _prompt_token_s(target),
        tokens_per_round=row.tau,
    )
    label = f"{row.target} + {row.draft} N={row.N:g}, {row.task}, {row.gpu} B={row.batch_size:g}"
    return KnownRun(row.source_key, llm.id, machine, row.tau, row.measured_speedup, label)


def timed_rounds(rows: PublishedRows, specs: Specs) -> tuple[KnownRun, ...]:
    """Return the rounds that were timed beside a plain step, whatever they yielded."""
    found = [_timed(row, specs) for row in rows.rounds]
    return tuple(run for run in found if run is not None)


def _timed(row: RoundRow, specs: Specs) -> KnownRun | None:
    if not row.decode_ms or not row.round_ms:
        return None
    as_speedup = SpeedupRow(
        target=row.target,
        draft=row.draft,
        method=row.method,
        gpu=row.gpu,
        n_gpu=row.n_gpu,
        dtype=row.dtype,
        batch_size=row.batch,
        context=row.context,
        N=row.N,
        tau=1.0,
        measured_speedup=row.decode_ms / row.round_ms,
        source_key=row.source_key,
    )
    return _run(as_speedup, engine_of(row.source_key), 0.0, specs)


def _served(row: ThroughputRow, specs: Specs) -> KnownRun | None:
    """Return a pair of runs with and without speculation at one batch or concurrency.

    A speedup above the tokens of a round is no matter of decoding (a warm cache, another
    baseline), and arrivals a second leave the batch open.
    """
    speedup = throughput_speedup(row)
    at_once = row.load_kind in ("batch", "concurrency")
    if not at_once or not row.load or not row.tau or not speedup or speedup > row.tau:
        return None
    prompt, output = row.isl or 0.0, row.osl or 0.0
    prompts = 0.0
    if row.load_kind == "concurrency" and output:
        # a rate of all requests counts a request's own prompt, a time a token does not
        waiting = row.load if "total" in row.unit or "/GPU" in row.unit else row.load - 1.0
        prompts = waiting * prompt / output
    as_speedup = SpeedupRow(
        target=row.target,
        draft=row.draft,
        method=row.method,
        gpu=row.gpu,
        n_gpu=row.tp or row.n_gpu,
        dtype=row.dtype,
        task=row.task,
        batch_size=row.load,
        context=prompt + output / 2.0 if prompt else None,
        N=row.N,
        verify_tokens=row.verify_tokens,
        tau=row.tau,
        measured_speedup=speedup,
        source_key=row.source_key,
    )
    return _run(as_speedup, _engine_named(row), prompts, specs)


def _engine_named(row: ThroughputRow) -> str:
    words = row.engine.lower().replace("-", "")
    named = next((name for name in _SERVING_ENGINES if words.startswith(name)), None)
    return _SERVING_ENGINES[named] if named is not None else engine_of(row.source_key)


def _prompt_token_s(target: DecodeSetting) -> float:
    """Return the arithmetic of a prompt token as others meet it."""
    gpu, native = target.gpu, target.bytes_per_param <= _FP8_BYTES
    peak = gpu.fp8_flops_per_s if native and gpu.fp8_flops_per_s else half_precision_flops(gpu)
    return flops_per_token(target.llm) / (target.tensor_parallel * peak * _PROMPT_EFFICIENCY)


def _target(row: SpeedupRow, llm: LlmSpec, gpu: GpuSpec, engine: str) -> DecodeSetting:
    size = bytes_per_param(row.dtype, llm)
    return DecodeSetting(
        llm=llm,
        gpu=gpu,
        engine=engine,
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
