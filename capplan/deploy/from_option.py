"""From an option of a plan to settings: the limits that the plan rests on, spelled out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from capplan.deploy.graph_sizes import graph_sizes
from capplan.deploy.lengths import Lengths, longest
from capplan.deploy.settings import Dtype, Settings
from capplan.deploy.versions import METHODS, EngineVersion, runs
from capplan.estimate.length_distributions import quantile_tokens
from capplan.estimate.traffic import output_distribution, prompt_distribution
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import DraftSampleMethod, Method
from capplan.schema.plan import PlanOption
from capplan.schema.workload import Workload
from capplan.units import BYTES_PER_GIB

_BUILT_IN = "(built-in)"
_LEAST_BATCHED_TOKENS = 8192
"""Below this many scheduled tokens a step vLLM warns that speculation starves prefill."""
_LEAST_BATCHED_TOKENS_ON_CPU = 2048
"""The CPU build's own default: its trial run of a step takes minutes with more."""
_BATCHED_STEP = 256
_CONTEXT_ROOM = 4
"""Room for requests of so many times the mean length: a plan may know only the mean."""
_TAIL = 0.999
"""Share of prompts, and of outputs, that fit together where their lengths are known."""
_CONTEXT_STEP = 1024
_DEFAULT_LOOKUP = (5, 5)
"""What vLLM looks up where nothing is said."""
_DTYPES: dict[str, Dtype] = {
    "bfloat16": "bfloat16",
    "float16": "float16",
}
_PROFILED_DTYPES: dict[str, Dtype] = {**_DTYPES, "float32": "float32"}
"""``auto`` takes half precision for a checkpoint in float32, whatever was profiled."""
_INSTEAD = "take an EAGLE-3 head or a draft model for this target"


@dataclass(frozen=True)
class LaunchChoices:
    """What a plan leaves open, or what its reader wants otherwise."""

    target: str | None = None
    """Path or id to load instead of the plan's target."""
    draft: str | None = None
    lengths: Lengths = ()
    draft_sampling: DraftSampleMethod | None = None
    """None: as the plan's acceptance was counted."""
    max_model_len: int | None = None
    prompt_lookup: tuple[int, int] | None = None
    heterogeneous_vocabulary: bool = False
    port: int = 8000


def unsupported_reason(
    option: PlanOption, version: EngineVersion, target: LlmSpec | None = None
) -> str:
    """Return why this version cannot run the option; empty if it can.

    Parameters
    ----------
    option, version
        What to run, and on what.
    target
        Facts of the target; None where nobody knows them, and nothing is refused for them.
    """
    method = option.method
    if method is Method.NONE:
        return ""
    if not runs(method, version):
        return (
            f"{version} has no {method.value} heads any more (0.32 was the last version that ran "
            f"them); {_INSTEAD}"
        )
    if not METHODS[method].needs_checkpoint:
        return ""
    built_in = option.draft in (None, "", _BUILT_IN)
    if built_in and not METHODS[method].may_be_built_in:
        return f"method {method.value} needs a draft checkpoint and the option names none"
    if built_in and target is not None:
        return _mtp_reason(option, target)
    return ""


def _mtp_reason(option: PlanOption, target: LlmSpec) -> str:
    if target.mtp_layers == 0:
        return f"{target.id} has no MTP layers to draft with; {_INSTEAD}"
    length = option.num_speculative_tokens
    if length > target.mtp_layers and length % target.mtp_layers:
        return (
            f"{target.id} drafts {target.mtp_layers} tokens a pass of its MTP layers, and vLLM "
            f"refuses {length}, which is no multiple"
        )
    return ""


def settings_from_option(
    option: PlanOption, choices: LaunchChoices, target: LlmSpec | None = None
) -> Settings:
    """Return what runs one replica of the option.

    Parameters
    ----------
    option
        From a plan, and runnable: ``unsupported_reason`` is empty.
    choices
        What the plan leaves open.
    target
        Facts of the target, where they are known.
    """
    method, length = option.method, option.num_speculative_tokens
    lengths = choices.lengths if method is not Method.NONE else ()
    if lengths:
        length = longest(lengths)
    on_cpu = option.on_cpu
    sequences = option.max_concurrency
    lookup = choices.prompt_lookup or option.prompt_lookup or _DEFAULT_LOOKUP
    return Settings(
        target=choices.target or option.target,
        draft=_draft(option, choices.draft),
        method=method,
        num_speculative_tokens=length,
        lengths_by_batch=lengths,
        device="cpu" if on_cpu else "gpu",
        tensor_parallel=option.tensor_parallel,
        replicas=option.replicas,
        dtype=_dtype(option, target),
        max_model_len=choices.max_model_len,
        max_num_seqs=sequences,
        max_num_batched_tokens=batched_tokens(
            method,
            length,
            sequences,
            least=_LEAST_BATCHED_TOKENS_ON_CPU if on_cpu else _LEAST_BATCHED_TOKENS,
        ),
        gpu_memory_utilization=None if on_cpu else _memory_share(option),
        kv_cache_bytes=_kv_bytes(option, choices.max_model_len) if on_cpu else None,
        graph_sizes=()
        if on_cpu
        else graph_sizes(
            sequences, length, lengths, drafts_vary=method in (Method.NGRAM, Method.SUFFIX)
        ),
        draft_sample_method=_draft_sampling(option, choices),
        prompt_lookup=lookup if method is Method.NGRAM else None,
        heterogeneous_vocabulary=choices.heterogeneous_vocabulary and method is Method.DRAFT_MODEL,
        port=choices.port,
    )


def _dtype(option: PlanOption, target: LlmSpec | None) -> Dtype:
    """Return the number format that was profiled, else the checkpoint's own."""
    own = _DTYPES.get(target.dtype, "auto") if target is not None else "auto"
    return _PROFILED_DTYPES.get(option.dtype, own)


def _draft(option: PlanOption, override: str | None) -> str | None:
    if option.method is Method.NONE or not METHODS[option.method].needs_checkpoint:
        return None
    named = override or option.draft
    return None if named in (None, "", _BUILT_IN) else named


def counted_sampling(option: PlanOption) -> DraftSampleMethod | None:
    """Return how the drafts of the option's acceptance were drawn; None where nobody says."""
    return option.acceptance.draft_sampling if option.acceptance is not None else None


def _draft_sampling(option: PlanOption, choices: LaunchChoices) -> DraftSampleMethod:
    """Return how drafts are drawn: as the plan counted them, else greedily, vLLM's default.

    Mapped vocabularies draft greedily only, and so does a CPU here: drawn drafts make the worst
    of the text that the CPU build writes above temperature 0.
    """
    if choices.draft_sampling is not None:
        return choices.draft_sampling
    greedy_only = choices.heterogeneous_vocabulary or option.on_cpu
    return "greedy" if greedy_only else counted_sampling(option) or "greedy"


def _memory_share(option: PlanOption) -> float:
    share = option.memory.usable_bytes / option.memory.gpu_bytes
    # rounded down: a hundredth too much would not start
    return max(0.01, math.floor(share * 100 + 1e-9) / 100)


def _kv_bytes(option: PlanOption, max_model_len: int | None) -> int:
    """Return the KV pool on a CPU: what the largest load takes, within what there is."""
    memory = option.memory
    held = memory.target_weight_bytes + memory.draft_weight_bytes + memory.overhead_bytes
    pool = memory.kv_pool_bytes or memory.usable_bytes - held
    longest_request = max_model_len or memory.request_tokens or _CONTEXT_STEP
    needed = memory.kv_bytes_per_token * longest_request * option.max_concurrency
    whole_gib = math.ceil(min(pool, needed) / BYTES_PER_GIB) * BYTES_PER_GIB
    return int(max(BYTES_PER_GIB, whole_gib))


def batched_tokens(
    method: Method, length: int, max_num_seqs: int, *, least: int = _LEAST_BATCHED_TOKENS
) -> int:
    """Return room for every sequence's verification, for its draft slots, and for prefill."""
    draft_slots = {Method.DRAFT_MODEL: 1, Method.PEAGLE: max(0, length - 1)}
    slots = max_num_seqs * draft_slots.get(method, 0)
    scheduled = max(least, max_num_seqs * (length + 1))
    return math.ceil((scheduled + slots) / _BATCHED_STEP) * _BATCHED_STEP


def context_limit(workload: Workload, max_context: int | None = None) -> int:
    """Return the longest request to make room for.

    Four times the mean request, or the lengths that one request in a thousand exceeds where they
    are known and longer; in steps of 1,024 tokens, within the checkpoint's own limit. A service
    that knows its longest request should set that instead.
    """
    mean = workload.prompt_tokens + workload.output_tokens
    longest = max(_CONTEXT_ROOM * mean, _tail_tokens(workload))
    limit = math.ceil(longest / _CONTEXT_STEP) * _CONTEXT_STEP
    return limit if max_context is None else min(limit, max_context)


@lru_cache(16)
def _tail_tokens(workload: Workload) -> float:
    lengths = (prompt_distribution(workload), output_distribution(workload))
    return sum(float(quantile_tokens(one, _TAIL)) for one in lengths)


def longest_request(option: PlanOption, workload: Workload, max_context: int | None) -> int:
    """Return ``context_limit`` within what the option's KV pool holds.

    The engine refuses to start if its pool cannot hold one request of the longest length.
    """
    return context_limit(workload, int(min(max_context or math.inf, option.memory.kv_tokens)))


def pair_config(
    method: Method,
    draft: str | None,
    num_speculative_tokens: int,
    *,
    heterogeneous_vocabulary: bool = False,
) -> dict[str, str | int | bool]:
    """Return the least ``speculative_config`` for a way to draft; empty where 0.33 has none.

    Parameters
    ----------
    method, draft
        How and with what; the draft is left out for lookups and for layers of the target.
    num_speculative_tokens
        Tokens drafted a round.
    heterogeneous_vocabulary
        Whether to map the tokens that both vocabularies have; draft models only.
    """
    if method not in METHODS or METHODS[method].until is not None:
        return {}
    config: dict[str, str | int | bool] = {"method": METHODS[method].name}
    if METHODS[method].needs_checkpoint and draft is not None and draft != _BUILT_IN:
        config["model"] = draft
    config["num_speculative_tokens"] = num_speculative_tokens
    if method is Method.PEAGLE:
        config["parallel_drafting"] = True
    if heterogeneous_vocabulary and method is Method.DRAFT_MODEL:
        config["use_heterogeneous_vocab"] = True
    return config
