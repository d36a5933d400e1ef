"""Launch text for vLLM: the exact command that starts one replica of an option.

Names, defaults and removals are those of vLLM 0.33.0, checked against its own argument parser
and its speculative configuration. Three habits of that engine shape the text:

- The method is always named. Left out, vLLM guesses it from the path of the draft.
- The draft's tensor parallelism is never set: its default is the target's, and any other value
  is refused or ignored.
- Batch limits are always set. Their defaults depend on the GPU, and the plan rests on them.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from typing import Literal

from capplan.errors import RequestError
from capplan.estimate.cuda_graphs import SM100_CEILING, captured_tokens, size_to_state
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption
from capplan.schema.workload import Workload

SUPPORTED_VERSIONS = ("0.33",)

DraftSampleMethod = Literal["greedy", "probabilistic"]

_BUILT_IN = "(built-in)"
_LEAST_BATCHED_TOKENS = 8192
"""Below this many scheduled tokens a step vLLM warns that speculation starves prefill."""
_CONTEXT_ROOM = 4
"""Room for requests of so many times the mean length: a plan knows only the mean."""
_CONTEXT_STEP = 1024

_ENGINE_METHOD: dict[Method, str] = {
    Method.DRAFT_MODEL: "draft_model",
    Method.NGRAM: "ngram",
    Method.EAGLE: "eagle",
    Method.EAGLE3: "eagle3",
    Method.PEAGLE: "eagle3",
    Method.MTP: "mtp",
    Method.DFLASH: "dflash",
    Method.DSPARK: "dspark",
    Method.SUFFIX: "suffix",
}
_WITHOUT_CHECKPOINT = (Method.NGRAM, Method.SUFFIX)
_SAMPLES_DRAFTS = (Method.DRAFT_MODEL, Method.EAGLE, Method.EAGLE3, Method.MTP)
_REMOVED: dict[Method, str] = {
    Method.MEDUSA: (
        "vLLM 0.33 removed Medusa heads (0.32 was the last version that ran them); "
        "take an EAGLE-3 head or a draft model for this target"
    ),
}


def unsupported_reason(option: PlanOption, *, version: str = "0.33") -> str:
    """Return why this engine version cannot run the option; empty if it can."""
    _checked(version)
    if option.method in _REMOVED:
        return _REMOVED[option.method]
    needs_draft = option.method not in (Method.NONE, Method.MTP, *_WITHOUT_CHECKPOINT)
    if needs_draft and option.draft in (None, "", _BUILT_IN):
        return f"method {option.method.value} needs a draft checkpoint and the option names none"
    return ""


def launch_command(
    option: PlanOption,
    *,
    version: str = "0.33",
    max_model_len: int | None = None,
    prompt_lookup: tuple[int, int] | None = None,
    draft_sample_method: DraftSampleMethod | None = None,
) -> str:
    """Return the shell command that starts one replica, or an empty text.

    Parameters
    ----------
    option
        What to start.
    version
        vLLM's version, as ``0.33``, ``0.33.0`` or ``vllm==0.33.0``.
    max_model_len
        Longest request in tokens; ``context_limit`` derives it from a workload. None leaves the
        checkpoint's own limit.
    prompt_lookup
        Shortest and longest n-gram to look up; None leaves vLLM's default, 5 and 5.
    draft_sample_method
        How drafts are drawn; None leaves vLLM's default, ``greedy``.

    Returns
    -------
    str
        Empty where ``unsupported_reason`` says why this version cannot run the option.
    """
    if unsupported_reason(option, version=version):
        return ""
    speculative = speculative_config(
        option, prompt_lookup=prompt_lookup, draft_sample_method=draft_sample_method
    )
    flags = [*_engine_flags(option, max_model_len), *_capture_flags(option)]
    if speculative:
        text = json.dumps(speculative, separators=(",", ":"), ensure_ascii=False)
        flags.append(f"--speculative-config {shlex.quote(text)}")
    command = " \\\n  ".join([f"vllm serve {shlex.quote(option.target)}", *flags])
    return f"{_preamble(option)}{command}"


def speculative_config(
    option: PlanOption,
    *,
    prompt_lookup: tuple[int, int] | None = None,
    draft_sample_method: DraftSampleMethod | None = None,
) -> dict[str, object]:
    """Return vLLM's ``speculative_config`` for the option; empty without speculation."""
    if option.method not in _ENGINE_METHOD:
        return {}
    config: dict[str, object] = {
        **pair_config(option.method, option.draft, option.num_speculative_tokens)
    }
    if option.method is Method.NGRAM and prompt_lookup is not None:
        config["prompt_lookup_min"], config["prompt_lookup_max"] = prompt_lookup
    if option.method in _SAMPLES_DRAFTS and draft_sample_method is not None:
        config["draft_sample_method"] = draft_sample_method
    return config


def pair_config(
    method: Method,
    draft: str | None,
    num_speculative_tokens: int,
    *,
    heterogeneous_vocabulary: bool = False,
) -> dict[str, str | int | bool]:
    """Return vLLM's ``speculative_config`` for a way to draft; empty where 0.33 has none.

    Parameters
    ----------
    method, draft
        How and with what; the draft is left out for lookups and for layers of the target.
    num_speculative_tokens
        Tokens drafted a round.
    heterogeneous_vocabulary
        Whether to map the tokens that both vocabularies have; draft models only.
    """
    if method not in _ENGINE_METHOD:
        return {}
    config: dict[str, str | int | bool] = {"method": _ENGINE_METHOD[method]}
    if method not in _WITHOUT_CHECKPOINT and draft is not None and draft != _BUILT_IN:
        config["model"] = draft
    config["num_speculative_tokens"] = num_speculative_tokens
    if method is Method.PEAGLE:
        config["parallel_drafting"] = True
    if heterogeneous_vocabulary and method is Method.DRAFT_MODEL:
        config["use_heterogeneous_vocab"] = True
    return config


def context_limit(workload: Workload, max_context: int | None = None) -> int:
    """Return ``--max-model-len`` for a workload of which only mean lengths are known.

    Room for four times the mean request, in steps of 1,024 tokens, within the checkpoint's own
    limit. A service that knows its longest request should set that instead.
    """
    mean = workload.prompt_tokens + workload.output_tokens
    limit = math.ceil(_CONTEXT_ROOM * mean / _CONTEXT_STEP) * _CONTEXT_STEP
    return limit if max_context is None else min(limit, max_context)


def _checked(version: str) -> str:
    match = re.fullmatch(r"(?:vllm==)?(\d+\.\d+)(?:\.\d+)?", version.strip())
    if match is None or match.group(1) not in SUPPORTED_VERSIONS:
        raise RequestError(
            f"capplan has no launch text for vLLM version {version!r}.",
            f"Versions it was checked against: {', '.join(SUPPORTED_VERSIONS)}.",
        )
    return match.group(1)


def _preamble(option: PlanOption) -> str:
    """Say on a comment line that the command starts one replica of several."""
    if option.replicas == 1:
        return ""
    group = f"{option.tensor_parallel} GPU{'s' if option.tensor_parallel > 1 else ''}"
    return f"# one of {option.replicas} replicas: run this once for every group of {group}\n"


def _engine_flags(option: PlanOption, max_model_len: int | None) -> list[str]:
    share = option.memory.usable_bytes / option.memory.gpu_bytes
    flags = [
        f"--tensor-parallel-size {option.tensor_parallel}",
        f"--max-num-seqs {option.max_concurrency}",
        f"--max-num-batched-tokens {_batched_tokens(option)}",
        # Rounded down: a hundredth too much would not start.
        f"--gpu-memory-utilization {math.floor(share * 100 + 1e-9) / 100:.2f}",
    ]
    if max_model_len is not None:
        flags.insert(1, f"--max-model-len {max_model_len}")
    return flags


def _batched_tokens(option: PlanOption) -> int:
    """Return room for every sequence's verification, for its draft slots, and for prefill."""
    length = option.num_speculative_tokens
    draft_slots = {Method.DRAFT_MODEL: 1, Method.PEAGLE: max(0, length - 1)}
    slots = option.max_concurrency * draft_slots.get(option.method, 0)
    scheduled = max(_LEAST_BATCHED_TOKENS, option.max_concurrency * (length + 1))
    return math.ceil((scheduled + slots) / 256) * 256


def _capture_flags(option: PlanOption) -> list[str]:
    """Widen CUDA-graph capture where the default would leave full batches without graphs.

    Where the default is wide enough it is left alone: setting it by hand turns off the sizes
    that vLLM derives from the draft length.
    """
    tokens = option.max_concurrency * (option.num_speculative_tokens + 1)
    if tokens <= captured_tokens(option.max_concurrency, option.num_speculative_tokens):
        return []
    # more than any GPU gets by default takes memory that the plan gave to KV
    return [f"--max-cudagraph-capture-size {size_to_state(min(tokens, SM100_CEILING))}"]
