"""What a live server says of itself: the model it serves, its version, its KV cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capplan.errors import MetricsError, ServerError, UnknownIdError
from capplan.profiles.exposition import parse_exposition
from capplan.profiles.server_http import ANSWER_TIMEOUT_S, ServerAddress, get
from capplan.schema.profile import EngineMemory

_CACHE_INFO = ("vllm:cache_config_info", "vllm_cache_config_info")
_RECORDED = ("block_size", "cache_dtype", "gpu_memory_utilization", "enable_prefix_caching")
_LONGEST_NAME = 300
_LONGEST_VALUE = 60
_MOST_TOKENS = 10**12
_MOST_DIGITS = 12


@dataclass(frozen=True)
class ServerFacts:
    """A server as it describes itself; what it does not say is empty."""

    model: str
    version: str = ""
    max_model_len: int | None = None
    cache: Mapping[str, str] = field(default_factory=dict)

    def engine_memory(self, num_speculative_tokens: int) -> EngineMemory | None:
        """Return the KV capacity, where the server tells it."""
        capacity, block = self.cache.get("kv_cache_size_tokens"), self.cache.get("block_size")
        if not _is_count(capacity) or not _is_count(block) or self.max_model_len is None:
            return None
        return EngineMemory(
            num_speculative_tokens=num_speculative_tokens,
            kv_capacity_tokens=int(capacity or 0),
            kv_block_tokens=int(block or 0),
            max_model_len=self.max_model_len,
        )

    def arguments(self) -> dict[str, str]:
        """Return what is recorded of the server's configuration."""
        known = {name: self.cache[name] for name in _RECORDED if name in self.cache}
        if self.max_model_len is not None:
            known["max_model_len"] = str(self.max_model_len)
        return known


def ask_facts(
    address: ServerAddress,
    *,
    api_key: str | None,
    served_model: str | None = None,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> ServerFacts:
    """Ask a server which model it serves.

    Raises
    ------
    ServerError
        If it does not answer as an OpenAI-compatible server does.
    UnknownIdError
        If it serves several models, or not the one that is named.
    """
    answer = get(address, "/v1/models", api_key=api_key, timeout_s=timeout_s)
    document = _object(answer.body) if answer.status == 200 else None
    rows = document.get("data") if document is not None else None
    if not isinstance(rows, list) or not rows:
        raise ServerError(
            f"{address} names no model under /v1/models (status {answer.status}{answer.wait}).",
            "Give the key in CAPPLAN_API_KEY."
            if answer.status in (401, 403)
            else "Give the address of an OpenAI-compatible server.",
        )
    by_name = {str(row.get("id")): row for row in rows if isinstance(row, dict) and _is_named(row)}
    if not by_name:
        raise ServerError(
            f"{address} gives its models no name that can be shown.",
            "Give the address of an OpenAI-compatible server.",
        )
    name = _chosen(list(by_name), served_model)
    return ServerFacts(
        model=name,
        version=_version(address, api_key, timeout_s),
        max_model_len=_length(by_name[name].get("max_model_len")),
        cache=_cache(address, api_key, timeout_s),
    )


def _is_named(row: Mapping[str, Any]) -> bool:
    """Whether a model has a name that can be recorded: it is shown, and sent back."""
    name = row.get("id")
    return isinstance(name, str) and name.isprintable() and 0 < len(name) <= _LONGEST_NAME


def _length(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value <= _MOST_TOKENS else None


def _chosen(names: list[str], wanted: str | None) -> str:
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted in names:
        return wanted or ""
    shown = ", ".join(names[:5])
    if wanted is None:
        raise UnknownIdError(
            f"The server serves {len(names)} models: {shown}.", "Choose one by --served-model."
        )
    raise UnknownIdError(
        f"The server does not serve {wanted!r} but {shown}.", "Choose one of them."
    )


def _version(address: ServerAddress, api_key: str | None, timeout_s: float) -> str:
    try:
        answer = get(address, "/version", api_key=api_key, timeout_s=timeout_s)
    except ServerError:
        return ""
    document = _object(answer.body) if answer.status == 200 else None
    version = document.get("version") if document is not None else None
    return version if isinstance(version, str) and _is_short(version) else ""


def _cache(address: ServerAddress, api_key: str | None, timeout_s: float) -> dict[str, str]:
    try:
        text = get(address, "/metrics", api_key=api_key, timeout_s=timeout_s).text
        samples = parse_exposition(text + "\n").samples
    except (ServerError, MetricsError):
        return {}
    labels = next((sample.labels for sample in samples if sample.name in _CACHE_INFO), ())
    return {name: value for name, value in labels if _is_short(value)}


def _is_short(value: str) -> bool:
    return value.isprintable() and len(value) <= _LONGEST_VALUE


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_count(text: str | None) -> bool:
    is_number = text is not None and text.isascii() and text.isdigit()
    return is_number and len(text or "") <= _MOST_DIGITS and int(text or 0) > 0
