"""What a published run ran on: its engine, GPUs and draft, as the estimator sees them."""

from __future__ import annotations

from capplan.estimate.decoding import DecodeSetting, half_precision_flops
from capplan.estimate.round_cost import typical_head_params
from capplan.estimate.work import flops_per_token
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.validation.rows import SpeedupRow, ThroughputRow
from capplan.validation.specs import Specs, bytes_per_param, plain_name

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
_FP8_BYTES = 1.1
_PROMPT_EFFICIENCY = 0.57
"""Of the peak, others' prompts in a serving loop of vLLM (docs/method/serving.md)."""
_COMPRESSED = "KV-compressed"
_COMPRESSED_CONTEXT = 512.0


def engine_of(source: str) -> str:
    """Return the engine that a source ran, the source's own key where that is not known."""
    return next((name for start, name in _ENGINES.items() if source.startswith(start)), source)


def engine_named(row: ThroughputRow) -> str:
    """Return the engine that a row names, else the one that its source ran."""
    words = row.engine.lower().replace("-", "")
    named = next((name for name in _SERVING_ENGINES if words.startswith(name)), None)
    return _SERVING_ENGINES[named] if named is not None else engine_of(row.source_key)


def target_setting(row: SpeedupRow, llm: LlmSpec, gpu: GpuSpec, engine: str) -> DecodeSetting:
    """Return the plain step of a run: what the row leaves out as such runs usually have it."""
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


def _usual_parallelism(weight_bytes: float, gpu: GpuSpec) -> float:
    size = 1
    while size < 8 and weight_bytes / size > _FULLEST * gpu.memory_bytes:
        size *= 2
    return float(size)


def draft_setting(row: SpeedupRow, target: DecodeSetting, specs: Specs) -> DecodeSetting | None:
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


def head_params(row: SpeedupRow, llm: LlmSpec, specs: Specs) -> float | None:
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


def prompt_token_s(target: DecodeSetting) -> float:
    """Return the arithmetic of a prompt token as others meet it."""
    gpu, native = target.gpu, target.bytes_per_param <= _FP8_BYTES
    peak = gpu.fp8_flops_per_s if native and gpu.fp8_flops_per_s else half_precision_flops(gpu)
    return flops_per_token(target.llm) / (target.tensor_parallel * peak * _PROMPT_EFFICIENCY)
