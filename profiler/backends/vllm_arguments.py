"""From a request to the exact arguments of ``vllm.LLM``; every limit is written out."""

from __future__ import annotations

from typing import Any

from capplan.errors import RequestError
from capplan.schema.cells import DraftSampling
from capplan.schema.pairing import Method
from profiler.engine import Configuration, EngineRequest

MAX_BATCHED_TOKENS = {"cpu": 2048, "cuda": 8192}
"""Tokens of one step at most; prompts longer than this are prefilled in pieces."""
NEEDS_HEAD = frozenset(
    {Method.DRAFT_MODEL, Method.EAGLE, Method.EAGLE3, Method.MEDUSA, Method.DFLASH}
)
LOOKUPS = frozenset({Method.NGRAM, Method.SUFFIX})


def engine_arguments(
    request: EngineRequest,
    configuration: Configuration,
    *,
    target: str,
    draft: str | None,
    dtype: str,
    kind: str,
    max_model_len: int,
) -> dict[str, Any]:
    """Return the keyword arguments of ``vllm.LLM``.

    Parameters
    ----------
    request, configuration
        What is served, and how this engine differs from the others.
    target, draft
        Folders of the checkpoints.
    dtype
        Number format of weights and KV cache.
    kind
        ``cpu`` or ``cuda``.
    max_model_len
        The longest sequence to make room for.
    """
    width = configuration.num_speculative_tokens + 1
    arguments: dict[str, Any] = {
        "model": target,
        "dtype": dtype,
        "tensor_parallel_size": request.tensor_parallel,
        "max_model_len": max_model_len,
        "max_num_seqs": request.max_num_seqs,
        # A step must hold a round of every request.
        "max_num_batched_tokens": max(
            MAX_BATCHED_TOKENS[kind], request.max_num_seqs * width, max_model_len
        ),
        # A prompt seen before would skip its prefill, and pad drafts that count as refused.
        "enable_prefix_caching": False,
        # Without statistics the engine counts no drafts.
        "disable_log_stats": False,
        "seed": request.seed,
    }
    if kind == "cpu":
        # Compiling for a processor takes minutes a configuration and gives a small LLM nothing.
        arguments["enforce_eager"] = True
    else:
        arguments["gpu_memory_utilization"] = request.gpu_memory_utilization
        # Full graphs for every batch up to the largest: by default capturing stops at 512 tokens.
        arguments["compilation_config"] = {
            "max_cudagraph_capture_size": graph_ceiling(request.max_num_seqs * width)
        }
    if configuration.num_speculative_tokens:
        arguments["speculative_config"] = speculative_config(request, configuration, draft)
        arguments["per_request_spec_decode_metrics"] = "detailed"
    return arguments


def speculative_config(
    request: EngineRequest, configuration: Configuration, draft: str | None
) -> dict[str, Any]:
    """Return vLLM's ``speculative_config``, its method always written out."""
    method = request.method
    if method is None:
        raise RequestError("Speculation was asked for without a way to draft.", "Give --method.")
    config: dict[str, Any] = {
        "method": method.value,
        "num_speculative_tokens": configuration.num_speculative_tokens,
    }
    if draft is not None:
        config["model"] = draft
    if method is Method.DRAFT_MODEL:
        # vLLM refuses any other value on one of its runners and ignores it on the other.
        config["draft_tensor_parallel_size"] = request.tensor_parallel
    if method is Method.NGRAM and request.prompt_lookup:
        config["prompt_lookup_min"], config["prompt_lookup_max"] = request.prompt_lookup
    if configuration.draft_sampling is DraftSampling.PROBABILISTIC:
        config["draft_sample_method"] = "probabilistic"
    if configuration.synthetic_rates is not None:
        config["rejection_sample_method"] = "synthetic"
        config["synthetic_acceptance_rates"] = list(configuration.synthetic_rates)
    return config


def graph_ceiling(tokens: int) -> int:
    """Return the capture size to ask for: vLLM truncates others to its grid, below what is needed.

    >>> graph_ceiling(42)
    48
    >>> graph_ceiling(330)
    336
    """
    step = 8 if tokens < 256 else 16
    return -(-tokens // step) * step
