"""Heads and built-in layers as specs: what a draft that is no LLM of its own takes and reads."""

from __future__ import annotations

from capplan.schema.cache import CacheLayers, kv_bytes_per_token
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import Method, Pairing
from capplan.schema.provenance import Kind, Source

_SHARES_OUTPUT_LAYER = frozenset({Method.EAGLE, Method.MTP})
"""Heads that read the target's own output layer in every pass: bytes read, not bytes held."""

_BYTES_PER_HEAD_PARAM = 2.0


def head_spec(target: LlmSpec, pairing: Pairing) -> LlmSpec | None:
    """Return a one-layer head (EAGLE, DFlash ...) as a spec; None if its size is unknown.

    Its KV is one layer of the target's shape; its bytes are its parameters in bf16.
    """
    if pairing.draft_params is None:
        return None
    cache = _one_layer(target)
    kv = kv_bytes_per_token(cache) if cache else None
    if not cache and target.kv_bytes_per_token is not None:
        kv = target.kv_bytes_per_token / target.layers
    weight_bytes = pairing.draft_params * _BYTES_PER_HEAD_PARAM
    return LlmSpec(
        id=pairing.draft,
        family=target.family,
        params_total=pairing.draft_params,
        params_active=pairing.draft_params,
        weight_bytes=weight_bytes,
        weight_bytes_active=weight_bytes + shared_output_bytes(target, pairing.method),
        layers=1,
        hidden=target.hidden,
        vocab_size=target.vocab_size,
        kv_bytes_per_token=kv,
        kv_heads=target.kv_heads,
        cache=cache,
        dtype="bfloat16",
        licence=pairing.licence,
        source=Source(
            kind=Kind.DERIVED,
            reference=f"head parameters from {pairing.source.reference}; one layer, bf16",
            date=pairing.source.date,
        ),
    )


def shared_output_bytes(target: LlmSpec, method: Method) -> float:
    """Return what a pass of a head reads of the target's own output layer."""
    if method not in _SHARES_OUTPUT_LAYER:
        return 0.0
    return target.vocab_size * target.hidden * _BYTES_PER_HEAD_PARAM


def built_in_spec(target: LlmSpec) -> LlmSpec | None:
    """Return the MTP layers that a checkpoint carries as a draft; None if it has none known."""
    if not target.mtp_layers or target.mtp_params is None:
        return None
    one = _one_layer(target)
    cache = tuple(group.model_copy(update={"layers": target.mtp_layers}) for group in one)
    size = target.mtp_params * target.weight_bytes / target.params_total
    return LlmSpec(
        id=f"{target.id} (MTP layers)",
        family=target.family,
        params_total=target.mtp_params,
        params_active=target.mtp_params,
        weight_bytes=size,
        weight_bytes_active=size,
        layers=target.mtp_layers,
        hidden=target.hidden,
        vocab_size=target.vocab_size,
        kv_bytes_per_token=kv_bytes_per_token(cache) if cache else None,
        kv_heads=target.kv_heads,
        heads=target.heads,
        cache=cache,
        dtype=target.dtype,
        source=target.source,
    )


def _one_layer(target: LlmSpec) -> tuple[CacheLayers, ...]:
    """Return a layer that keeps every token in the shape of the target's own; none if unknown."""
    kept = next((group for group in target.cache if group.grows), None)
    return () if kept is None else (kept.model_copy(update={"layers": 1}),)
