"""How an LLM's facts follow from its configuration and files: every figure as a line."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.facts.derivation import Line, cache_lines
from capplan.facts.hf_config.parts import Architecture, Part
from capplan.facts.hf_config.quantisation.weigh import PartBytes, Weighed
from capplan.facts.hf_config.weights.read import Weights
from capplan.schema.llm import LlmSpec

_CONTEXT_NOTE = "Context "
"""Beginning of the notes that say which field gave the context: they stand beside the figure."""


def derivation(
    architecture: Architecture, weighed: Weighed, weights: Weights, spec: LlmSpec
) -> Iterator[Line]:
    """Yield every figure with the sum or the field behind it, then what is to be known."""
    yield from _parameter_lines(architecture, weights, spec)
    yield from _weight_lines(weighed, weights, spec)
    yield from cache_lines(architecture.cache)
    context_notes = [note for note in architecture.notes if note.startswith(_CONTEXT_NOTE)]
    how = " ".join(context_notes)
    yield Line("context", "longest context", architecture.max_context, "tokens", how)
    yield Line("context", "vocabulary", architecture.vocab_size, "tokens", "vocab_size")
    if architecture.head is not None:
        yield from _head_lines(architecture)
    for note in (
        *architecture.notes,
        *_dtype_note(architecture),
        *weighed.notes,
        *weights.warnings,
    ):
        if note in context_notes:
            continue
        yield Line("warning", "note", None, "", note)


def _dtype_note(architecture: Architecture) -> Iterator[str]:
    if not architecture.dtype_stated:
        known = "by the size of the files" if architecture.dtype == "float32" else "taken"
        yield f"No field states the dtype: {architecture.dtype} {known}."


def _parameter_lines(
    architecture: Architecture, weights: Weights, spec: LlmSpec
) -> Iterator[Line]:
    for part in architecture.parts:
        yield Line("parameters", part.name, part.params, "", part.how)
    yield Line("parameters", "total", spec.params_total, "", _total_how(architecture, weights))
    if architecture.experts is not None:
        used = f"{architecture.experts_per_token} of {architecture.experts} experts a token"
        yield Line("parameters", "active", spec.params_active, "", used)
    for part in architecture.mtp_parts:
        yield Line("parameters", f"MTP {part.name}", part.params, "", part.how)
    if spec.mtp_params is not None:
        count = architecture.mtp_layers
        layers = f"{count} layer" + ("s" if count != 1 else "")
        how = f"{layers}, loaded only where they draft; not in the total"
        yield Line("parameters", "MTP layers", spec.mtp_params, "", how)


def _total_how(architecture: Architecture, weights: Weights) -> str:
    if weights.params is None:
        return "sum of the parts"
    difference = weights.params - architecture.params_total
    if not difference:
        return "sum of the parts; the weight files hold exactly as many"
    return f"counted in the weight files; the parts sum to {architecture.params_total:,}"


def _weight_lines(weighed: Weighed, weights: Weights, spec: LlmSpec) -> Iterator[Line]:
    for part in weighed.parts:
        if part.size_bytes:
            yield _bytes_line(part, part.part)
    yield Line("weights", "by formula", weighed.total_bytes, "B", weighed.wording or "unquantised")
    if weights.checkpoint_bytes is not None and weights.checkpoint_bytes != weights.size_bytes:
        how = f"all of it, from {weights.source}"
        yield Line("weights", "weight bytes", weights.checkpoint_bytes, "B", how)
        yield Line("weights", "of them loaded", weights.size_bytes, "B", weights.how)
    else:
        yield Line("weights", "weight bytes", weights.size_bytes, "B", weights.how)
    if spec.weight_bytes_active != spec.weight_bytes:
        how = "parts read for one token"
        yield Line("weights", "weight bytes a token", spec.weight_bytes_active, "B", how)
    if weighed.mtp_bytes:
        how = "formula; loaded only where they draft"
        yield Line("weights", "MTP layers", weighed.mtp_bytes, "B", how)


def _bytes_line(part: PartBytes, counted: Part) -> Line:
    return Line("weights", counted.name, part.size_bytes, "B", part.how)


def _head_lines(architecture: Architecture) -> Iterator[Line]:
    head = architecture.head
    if head is None:
        return
    yield Line("head", "method", head.method.value, "", architecture.class_name)
    yield Line("head", "target's hidden size", head.target_hidden, "", "")
    reduced = head.draft_vocab_size
    how = "output layer of its own" if reduced else "the target's"
    yield Line("head", "output vocabulary", reduced or architecture.vocab_size, "tokens", how)
    if head.target_id:
        yield Line("head", "target", head.target_id, "", "named by the checkpoint")
