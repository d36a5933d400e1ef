"""Which fields a version of vLLM has, and where each goes.

One table for every way to write a launch: a flag, the same name as a Python keyword, or a key of
the JSON after ``--speculative-config``. Read off the parser and the configuration classes of the
versions in ``versions.CHECKED``; ``tests/vllm`` feeds what comes out of it back to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from capplan.deploy.settings import Settings
from capplan.deploy.versions import EngineVersion, Minor

Plain = str | int | float | bool | list[int] | list[list[int]] | dict[str, object]


class Place(Enum):
    """Where a field is written."""

    ENGINE = "engine"
    """A flag of the server, a keyword of ``LLM``."""
    SPECULATIVE = "speculative"
    """A key of the speculative configuration."""
    SERVER = "server"
    """A flag of the server only."""


@dataclass(frozen=True)
class Field:
    """One thing that the engine is told."""

    name: str
    """Attribute of ``Settings`` that holds it; None there leaves it out."""
    place: Place
    key: str
    """Keyword or JSON key; the flag is the same with hyphens."""
    since: Minor | None = None
    """First version that has it; None: all."""
    until: Minor | None = None
    """First version that does not have it any more; None: none."""

    def held_by(self, version: EngineVersion) -> bool:
        """Whether a version knows the field."""
        after = self.since is None or version.minor >= self.since
        return after and (self.until is None or version.minor < self.until)

    @property
    def flag(self) -> str:
        """Return the flag of the server."""
        return _hyphened(self.key)


_ENGINE, _SPECULATIVE, _SERVER = Place.ENGINE, Place.SPECULATIVE, Place.SERVER

FIELDS: tuple[Field, ...] = (
    Field("host", _SERVER, "host"),
    Field("port", _SERVER, "port"),
    Field("dtype", _ENGINE, "dtype"),
    Field("quantisation", _ENGINE, "quantization"),
    Field("tensor_parallel", _ENGINE, "tensor_parallel_size"),
    Field("data_parallel", _ENGINE, "data_parallel_size"),
    Field("max_model_len", _ENGINE, "max_model_len"),
    Field("max_num_seqs", _ENGINE, "max_num_seqs"),
    Field("max_num_batched_tokens", _ENGINE, "max_num_batched_tokens"),
    Field("gpu_memory_utilization", _ENGINE, "gpu_memory_utilization"),
    Field("kv_cache_bytes", _ENGINE, "kv_cache_memory_bytes"),
    Field("kv_cache_dtype", _ENGINE, "kv_cache_dtype"),
    Field("prefix_caching", _ENGINE, "enable_prefix_caching"),
    Field("seed", _ENGINE, "seed"),
    Field("largest_size", _ENGINE, "max_cudagraph_capture_size"),
    Field("sizes", _ENGINE, "cudagraph_capture_sizes"),
    Field("engine_method", _SPECULATIVE, "method"),
    Field("draft", _SPECULATIVE, "model"),
    Field("drafted_tokens", _SPECULATIVE, "num_speculative_tokens"),
    Field("lengths", _SPECULATIVE, "num_speculative_tokens_per_batch_size"),
    Field("draft_tensor_parallel", _SPECULATIVE, "draft_tensor_parallel_size"),
    Field("parallel_drafting", _SPECULATIVE, "parallel_drafting"),
    Field("maps_vocabulary", _SPECULATIVE, "use_heterogeneous_vocab"),
    Field("shortest_lookup", _SPECULATIVE, "prompt_lookup_min"),
    Field("longest_lookup", _SPECULATIVE, "prompt_lookup_max"),
    Field("draft_sampling", _SPECULATIVE, "draft_sample_method"),
    Field("rejection", _SPECULATIVE, "rejection_sample_method"),
)

SPECULATIVE_KEYS: dict[str, tuple[Minor | None, Minor | None]] = {
    **{field.key: (field.since, field.until) for field in FIELDS if field.place is _SPECULATIVE},
    **dict.fromkeys(
        (
            "enforce_eager",
            "quantization",
            "moe_backend",
            "attention_backend",
            "kv_cache_dtype",
            "max_model_len",
            "revision",
            "code_revision",
            "index_share_for_mtp_iteration",
            "disable_padded_drafter_batch",
            "disable_eagle_block_drop",
            "use_local_argmax_reduction",
            "suffix_decoding_max_tree_depth",
            "suffix_decoding_max_cached_requests",
            "suffix_decoding_max_spec_factor",
            "suffix_decoding_min_token_prob",
            "draft_load_config",
            "synthetic_acceptance_rates",
            "synthetic_acceptance_length",
            "enable_adaptive_verification",
            "dspark_draft_topk",
        ),
        (None, None),
    ),
    **dict.fromkeys(
        (
            "disable_lookahead_block_hashes",
            "draft_lm_head_quantization",
            "xpress_topc",
            "fly_window_size",
            "fly_entropy_threshold",
            "fly_entropy_top_k",
        ),
        ((0, 33), None),
    ),
}
"""Every key a user may set, with the first version that has it and the first that does not."""


def speculative_key_known(key: str, version: EngineVersion) -> bool:
    """Whether the speculative configuration of a version takes a key; others it refuses."""
    if key not in SPECULATIVE_KEYS:
        return False
    since, until = SPECULATIVE_KEYS[key]
    return (since is None or version.minor >= since) and (until is None or version.minor < until)


def values_at(settings: Settings, version: EngineVersion, place: Place) -> dict[str, Plain]:
    """Return keyword and value of everything that a version is told at one place."""
    found = {key: getattr(settings, name) for name, key in _told(version, place)}
    return {key: value for key, value in found.items() if value is not None}


@cache
def _told(version: EngineVersion, place: Place) -> tuple[tuple[str, str], ...]:
    """Return attribute and keyword of every field that a version has at one place."""
    held = (field for field in FIELDS if field.place is place and field.held_by(version))
    return tuple((field.name, field.key) for field in held)


def engine_keywords(settings: Settings, version: EngineVersion) -> dict[str, Plain]:
    """Return what ``LLM`` takes besides the target, the speculative configuration included."""
    keywords = values_at(settings, version, Place.ENGINE)
    speculative = values_at(settings, version, Place.SPECULATIVE)
    if speculative:
        keywords["speculative_config"] = dict(speculative)
    return keywords


def flags(keywords: Mapping[str, Plain]) -> list[list[str]]:
    """Return a flag with its words for every keyword."""
    return [_flag(_hyphened(key), value) for key, value in keywords.items()]


@cache
def _hyphened(key: str) -> str:
    return "--" + key.replace("_", "-")


def _flag(flag: str, value: Plain) -> list[str]:
    if value is True:
        return [flag]
    if value is False:
        return ["--no-" + flag.removeprefix("--")]
    if isinstance(value, list):
        return [flag, *(str(item) for item in value)]
    if isinstance(value, dict):
        return [flag, canonical_json(value)]
    return [flag, f"{value:.2f}" if isinstance(value, float) else str(value)]


def canonical_json(value: Mapping[str, object]) -> str:
    """Return JSON in one form: no spaces, keys in the order of the table."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
