"""The longest context a configuration allows, and which fields said so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from capplan.facts.hf_config.fields import Fields

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "n_ctx",
)
_OVERRIDING = "model_max_length"
"""Command R states its real length here, and vLLM takes it over all others."""
_INCLUDED = ("su", "longrope", "llama3", "default", "mrope", "proportional")
"""Rotary scalings whose factor the stated length already includes, or that have none."""


def read_context(fields: Fields) -> tuple[int | None, tuple[str, ...]]:
    """Return the longest context and notes on where it comes from.

    Of several lengths the smallest counts, but ``model_max_length`` over all, as in vLLM.
    ``yarn`` stretches the original length by its factor; ``linear`` and ``dynamic`` stretch the
    stated one; ``llama3`` and ``longrope`` are already in it.
    """
    stated = {name: length for name in _LENGTHS if (length := _length(fields, name))}
    if not stated:
        return None, ("No field states the longest context.",)
    name = min(stated, key=lambda key: stated[key])
    if _OVERRIDING in stated:
        name = _OVERRIDING
    others = [f"{key} {value}" for key, value in stated.items() if value != stated[name]]
    note = f"Context {stated[name]} from {name}"
    if others:
        why = "which vLLM prefers" if name == _OVERRIDING else "the smallest"
        note += f", {why}; also stated: {', '.join(others)}"
    if fields.text("model_type").startswith("gemma3"):  # its length includes the factor
        return stated[name], (f"{note}.",)
    for kind, scaling in _scalings(fields):
        return _scaled(kind, scaling, stated[name], note)
    return stated[name], (f"{note}{_shorter_start(fields, stated[name])}.",)


def _shorter_start(fields: Fields, length: int) -> str:
    """Return what vLLM does with longrope: it starts at the original length unless told."""
    original = fields.optional("original_max_position_embeddings") or length
    if original >= length:
        return ""
    return f"; vLLM starts at {original} unless given a longer --max-model-len"


def _length(fields: Fields, name: str) -> int | None:
    return fields.optional(name) if fields.has(name) or name == _LENGTHS[0] else None


def _scalings(fields: Fields) -> Iterator[tuple[str, Fields]]:
    """Yield rotary scalings that change the length; newer files keep one a kind of layer."""
    for name in ("rope_scaling", "rope_parameters"):
        if not isinstance(fields.value(name), Mapping):
            continue
        outer = fields.inner(name)
        inner = [outer.inner(key) for key, value in outer.config.items() if _is_object(value)]
        for one in inner or [outer]:
            kind = one.text("rope_type") or one.text("type")
            if kind and kind not in _INCLUDED and one.number("factor"):
                yield kind, one


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping)


def _scaled(kind: str, scaling: Fields, stated: int, note: str) -> tuple[int, tuple[str, ...]]:
    factor = scaling.number("factor") or 1.0
    original = scaling.optional("original_max_position_embeddings")
    if kind == "yarn" and original:
        length = int(original * factor)
        other = f"; the stated {stated} is what recent vLLM takes" if stated != length else ""
        return length, (f"Context {length}: yarn, {original} x {factor:g}{other}.",)
    if kind == "yarn":
        return stated, (f"{note}; yarn without an original length: its factor is not applied.",)
    length = int(stated * factor)
    return length, (f"{note}, times {factor:g} ({kind} scaling): {length}.",)
