"""What the engines call their figures under ``/metrics``.

One meaning, one field; which name stands for it differs by engine and version. Names are
compared in a plain form: ``:`` becomes ``_`` (as some exporters write), the closing ``_total`` is
dropped (``LLM.get_metrics`` has none, OpenMetrics TYPE lines neither) and so is Ray's prefix.

Sources: vLLM v1/metrics/loggers.py and v1/spec_decode/metrics.py (0.33) and
engine/metrics.py (0.6-0.8, the first engine); SGLang docs "Production Metrics" and
observability/metrics_collector.py; TensorRT-LLM metrics/collector.py and Triton's tensorrtllm
backend; TGI docs "Metrics"; llama.cpp tools/server README.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

COUNTERS = (
    *("drafts", "drafted", "accepted", "emitted", "accepted_at", "rounds"),
    *("output_tokens", "prompt_tokens", "prefix_queries", "prefix_hits", "preemptions"),
    *("completed", "decode_seconds"),
)
"""Figures that only grow while an engine lives."""
GAUGES = (
    *("running", "waiting", "kv_usage", "prefix_hit_rate"),
    *("acceptance_rate", "acceptance_length", "spec_steps", "efficiency"),
)
HISTOGRAMS = ("ttft", "step", "token_gap", "tpot", "e2e", "generated", "prompted", "skipped")
"""Of these ``_sum`` and ``_count`` are read; buckets of times are too coarse below 10 ms."""
LENGTHS = ("generated", "prompted")
"""Histograms over requests of which the buckets are read too."""


@dataclass(frozen=True)
class EngineNames:
    """The names of one engine, in plain form; the first that is there counts."""

    engine: str
    prefix: str
    fields: Mapping[str, tuple[str, ...]]
    selected: Mapping[str, tuple[str, str]] | None = None
    """Fields of which only series with this label value count."""


VLLM = EngineNames(
    "vllm",
    "vllm_",
    {
        "drafts": ("vllm_spec_decode_num_drafts",),
        "drafted": ("vllm_spec_decode_num_draft_tokens",),
        "accepted": ("vllm_spec_decode_num_accepted_tokens",),
        "emitted": ("vllm_spec_decode_num_emitted_tokens",),
        "accepted_at": ("vllm_spec_decode_num_accepted_tokens_per_pos",),
        "output_tokens": ("vllm_generation_tokens",),
        "prompt_tokens": ("vllm_prompt_tokens",),
        "prefix_queries": ("vllm_prefix_cache_queries", "vllm_gpu_prefix_cache_queries"),
        "prefix_hits": ("vllm_prefix_cache_hits", "vllm_gpu_prefix_cache_hits"),
        "preemptions": ("vllm_num_preemptions",),
        "completed": ("vllm_request_success",),
        "running": ("vllm_num_requests_running",),
        "waiting": ("vllm_num_requests_waiting",),
        "kv_usage": ("vllm_kv_cache_usage_perc", "vllm_gpu_cache_usage_perc"),
        "prefix_hit_rate": ("vllm_gpu_prefix_cache_hit_rate",),
        "acceptance_rate": ("vllm_spec_decode_draft_acceptance_rate",),
        "efficiency": ("vllm_spec_decode_efficiency",),
        "ttft": ("vllm_time_to_first_token_seconds",),
        # Before 0.11 the time between two engine steps of a request went by TPOT's name.
        "step": ("vllm_inter_token_latency_seconds", "vllm_time_per_output_token_seconds"),
        "tpot": ("vllm_request_time_per_output_token_seconds",),
        "e2e": ("vllm_e2e_request_latency_seconds",),
        "generated": ("vllm_request_generation_tokens",),
        "prompted": ("vllm_request_prompt_tokens",),
    },
)
SGLANG = EngineNames(
    "sglang",
    "sglang_",
    {
        "rounds": ("sglang_spec_verify_calls",),
        "output_tokens": ("sglang_generation_tokens",),
        "prompt_tokens": ("sglang_prompt_tokens",),
        "prefix_hits": ("sglang_cached_tokens",),
        "preemptions": ("sglang_num_retracted_requests",),
        "completed": ("sglang_num_requests",),
        "running": ("sglang_num_running_reqs",),
        "waiting": ("sglang_num_queue_reqs",),
        "kv_usage": ("sglang_token_usage",),
        "prefix_hit_rate": ("sglang_cache_hit_rate",),
        "acceptance_rate": ("sglang_spec_accept_rate",),
        "acceptance_length": ("sglang_spec_accept_length",),
        "spec_steps": ("sglang_spec_num_steps",),
        "ttft": ("sglang_time_to_first_token_seconds",),
        # Each interval is divided by its tokens and counted once a token: no step time. Its
        # time_per_output_token_seconds holds the first token too: not read.
        "token_gap": ("sglang_inter_token_latency_seconds",),
        "e2e": ("sglang_e2e_request_latency_seconds",),
        "generated": ("sglang_generation_tokens_histogram",),
        "prompted": ("sglang_prompt_tokens_histogram",),
    },
)
TENSORRT_LLM = EngineNames(
    "tensorrt-llm",
    "trtllm_",
    {
        # The second of each has a series a position (1.3 and newer).
        "drafted": ("trtllm_spec_decode_num_draft_tokens", "trtllm_spec_decode_drafted_tokens"),
        "accepted": (
            "trtllm_spec_decode_num_accepted_tokens",
            "trtllm_spec_decode_accepted_tokens",
        ),
        "acceptance_length": ("trtllm_spec_decode_acceptance_length",),
        "output_tokens": ("trtllm_generation_tokens",),
        "prompt_tokens": ("trtllm_prompt_tokens",),
        "completed": ("trtllm_request_success",),
        "prefix_hits": ("trtllm_prompt_cached_tokens",),
        "running": (
            *("trtllm_num_requests_running", "trtllm_num_scheduled_requests"),
            "trtllm_num_active_requests",
        ),
        "waiting": ("trtllm_num_requests_waiting", "trtllm_server_queue_length"),
        "kv_usage": ("trtllm_kv_cache_utilization",),
        "prefix_hit_rate": ("trtllm_kv_cache_hit_rate",),
        "ttft": ("trtllm_time_to_first_token_seconds",),
        "tpot": ("trtllm_time_per_output_token_seconds",),
        "e2e": ("trtllm_e2e_request_latency_seconds",),
    },
)
TRITON = EngineNames(
    "tensorrt-llm",
    "nv_trt_llm_",
    {
        "running": ("nv_trt_llm_request_metrics",),
        "kv_usage": ("nv_trt_llm_kv_cache_block_metrics",),
    },
    {"running": ("request_type", "active"), "kv_usage": ("kv_cache_block_type", "fraction")},
)
TGI = EngineNames(
    "tgi",
    "tgi_",
    {
        "completed": ("tgi_request_success",),
        "running": ("tgi_batch_current_size",),
        "waiting": ("tgi_queue_size",),
        "tpot": ("tgi_request_mean_time_per_token_duration",),
        "e2e": ("tgi_request_duration",),
        "generated": ("tgi_request_generated_tokens",),
        "prompted": ("tgi_request_input_length",),
        "skipped": ("tgi_request_skipped_tokens",),
    },
)
LLAMA_CPP = EngineNames(
    "llama.cpp",
    "llamacpp_",
    {
        "drafts": ("llamacpp_spec_decode_num_drafts",),
        "drafted": ("llamacpp_spec_decode_num_draft_tokens", "llamacpp_tokens_drafted"),
        "accepted": (
            "llamacpp_spec_decode_num_accepted_tokens",
            "llamacpp_tokens_drafted_accepted",
        ),
        "accepted_at": ("llamacpp_spec_decode_num_accepted_tokens_per_pos",),
        "output_tokens": ("llamacpp_tokens_predicted",),
        "prompt_tokens": ("llamacpp_prompt_tokens",),
        "prefix_hits": ("llamacpp_prompt_tokens_cached",),
        "decode_seconds": ("llamacpp_tokens_predicted_seconds",),
        "running": ("llamacpp_requests_processing",),
        "waiting": ("llamacpp_requests_deferred",),
        "kv_usage": ("llamacpp_kv_cache_usage_ratio",),
    },
)
ENGINES = (VLLM, SGLANG, TENSORRT_LLM, TRITON, TGI, LLAMA_CPP)

MODEL_LABELS = ("model_name", "model", "served_model_name", "model_id")
ENGINE_LABELS = (
    *("instance", "pod", "worker_id", "engine", "engine_id", "dp_rank"),
    *("ReplicaId", "WorkerId"),
)
"""Labels that tell engines apart; together they name one. The last two are Ray's."""
POSITION_LABELS = ("position", "token_position")
"""Labels that tell the tokens of a draft apart, the first one 0."""
SAME_VALUE_LABELS = ("tp_rank", "pp_rank", "moe_ep_rank", "moe_dp_rank", "pid")
"""Every rank of an engine reports the same gauge: they are not added up."""


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return a metric's name in the form that names are compared in.

    Ray exports the metrics of an engine that it runs under its own prefix.
    """
    return name.replace(":", "_").removesuffix("_total").removeprefix("ray_")


def known_names() -> frozenset[str]:
    """Return every plain name that is read, histograms with their ``_sum`` and ``_count``."""
    names: set[str] = set()
    for engine in ENGINES:
        for field, candidates in engine.fields.items():
            ends = ("_sum", "_count", "_bucket") if field in HISTOGRAMS else ("",)
            names.update(f"{name}{end}" for name in candidates for end in ends)
    return frozenset(names)
