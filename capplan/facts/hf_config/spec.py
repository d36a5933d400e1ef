"""A configuration and the files beside it to an LLM's facts, with their derivation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capplan.errors import FactsError
from capplan.facts.derivation import Line, cache_lines
from capplan.facts.hf_config.architecture import read_architecture
from capplan.facts.hf_config.heads import read_head
from capplan.facts.hf_config.parts import Architecture, Part
from capplan.facts.hf_config.plausible import check_sizes
from capplan.facts.hf_config.quantisation import PartBytes, Weighed, weigh
from capplan.facts.hf_config.settings_beside import with_settings_beside
from capplan.facts.hf_config.weight_files import FileSet, find_weights
from capplan.facts.hf_config.weight_index import read_index
from capplan.facts.hf_config.weights import Weights, read_weights
from capplan.schema.cache import kv_bytes_per_token
from capplan.schema.llm import LlmSpec
from capplan.schema.provenance import Kind, Source

_LICENCE = re.compile(r"^license(?:_name)?:\s*[\"']?([\w.+-]+)", re.MULTILINE)
_FRONT_MATTER_CHARS = 20_000
_CONTEXT_NOTE = "Context "
"""Beginning of the notes that say which field gave the context: they stand beside the figure."""


@dataclass(frozen=True)
class FoundLlm:
    """An LLM's facts with how they were found."""

    spec: LlmSpec
    lines: tuple[Line, ...] = ()
    """The derivation; empty where the facts come from models_db."""
    config: Mapping[str, Any] | None = None
    """Content of ``config.json``; None where the facts come from models_db."""
    folder: Path | None = None
    """Where the checkpoint's files lie, if they do."""
    origin: str = ""
    """``directory``, ``cache``, ``models_db`` or ``hub``."""


def llm_from_config(
    config: Mapping[str, Any],
    *,
    name: str,
    folder: Path | None = None,
    origin: str = "directory",
    files: FileSet | None = None,
) -> FoundLlm:
    """Derive an LLM's facts from its configuration and the files beside it.

    Parameters
    ----------
    config
        The content of ``config.json``.
    name
        Hugging Face id or path: becomes the spec's id.
    folder
        Where weights, index and README are looked for; None: only the configuration counts.
    origin
        Where it was found, for the source.
    files
        Weight files that do not lie in the folder, with their sizes (on the hub).

    Raises
    ------
    FactsError
        If the architecture, its quantisation or its dtype is unknown, or a field is wrong.
    """
    config = with_settings_beside(config, folder)
    check_sizes(config, name)
    names = _tensor_names(folder)
    architecture = read_head(config, name, names) or read_architecture(config, name)
    weighed = weigh(architecture, config, name)
    weights = read_weights(folder, weighed, architecture, files)
    spec = _spec(architecture, weighed, weights, name, folder)
    lines = tuple(_lines(architecture, weighed, weights, spec))
    return FoundLlm(spec, lines, config, folder, origin)


def _tensor_names(folder: Path | None) -> frozenset[str]:
    if folder is None:
        return frozenset()
    index = read_index(folder)
    if index is not None and index.tensors:
        return frozenset(index.tensors)
    files = find_weights(folder)
    return frozenset(tensor.name for tensor in files.tensors) if files else frozenset()


def _params(architecture: Architecture, weights: Weights) -> tuple[float, float]:
    """Return total and active parameters: counted in the files, else summed."""
    total, active = architecture.params_total, architecture.params_active
    if weights.params and weights.params != total:
        # a mixture of experts keeps the formula's active share: files do not tell it
        active = weights.params if active == total else min(active, weights.params)
        total = weights.params
    return float(total), float(active)


def _spec(
    architecture: Architecture,
    weighed: Weighed,
    weights: Weights,
    name: str,
    folder: Path | None,
) -> LlmSpec:
    total, active = _params(architecture, weights)
    is_sparse = architecture.params_active < architecture.params_total
    active_bytes = weighed.active_bytes if is_sparse else weights.size_bytes
    mtp_params = weights.mtp_params or sum(part.params for part in architecture.mtp_parts)
    cache = architecture.cache
    heads = next((group.heads for group in cache if group.elements), None)
    where = f"config.json of {name}; weight bytes from {weights.source}"
    try:
        return LlmSpec(
            id=name,
            family=architecture.family,
            params_total=total,
            params_active=active,
            weight_bytes=weights.size_bytes,
            weight_bytes_active=min(active_bytes, weights.size_bytes),
            layers=architecture.layers,
            hidden=architecture.hidden,
            vocab_size=architecture.vocab_size,
            kv_bytes_per_token=kv_bytes_per_token(cache) if heads is not None else None,
            kv_heads=heads,
            heads=architecture.heads,
            cache=cache,
            max_context=architecture.max_context,
            experts=architecture.experts,
            experts_per_token=architecture.experts_per_token,
            mtp_layers=architecture.mtp_layers,
            mtp_params=float(mtp_params) if mtp_params else None,
            dtype=architecture.dtype,
            quantisation=weighed.wording,
            licence=_licence(folder),
            head=architecture.head,
            source=Source(kind=Kind.DERIVED, reference=where),
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "config.json"
        raise FactsError(
            f"{name}: {field} comes out as {first['input']!r}: {first['msg']}.",
            "Correct config.json, or take it from the checkpoint's own repository.",
        ) from None


def _licence(folder: Path | None) -> str:
    """Return the licence that the model card states at its head, if there is one."""
    if folder is None or not (folder / "README.md").is_file():
        return ""
    try:
        with (folder / "README.md").open(encoding="utf-8", errors="replace") as file:
            text = file.read(_FRONT_MATTER_CHARS)
    except OSError:
        return ""
    if not text.startswith("---"):
        return ""
    found = dict.fromkeys(_LICENCE.findall(text.split("\n---", 1)[0]))
    named = [licence for licence in found if licence.lower() != "other"]
    return named[0] if named else ""


def _lines(
    architecture: Architecture, weighed: Weighed, weights: Weights, spec: LlmSpec
) -> Iterator[Line]:
    yield from _parameter_lines(architecture, weights, spec)
    yield from _weight_lines(weighed, weights, spec)
    yield from cache_lines(architecture.cache)
    context_notes = [note for note in architecture.notes if note.startswith(_CONTEXT_NOTE)]
    how = " ".join(context_notes)
    yield Line("context", "longest context", architecture.max_context, "tokens", how)
    yield Line("context", "vocabulary", architecture.vocab_size, "tokens", "vocab_size")
    if architecture.head is not None:
        yield from _head_lines(architecture)
    for note in (*architecture.notes, *weighed.notes, *weights.warnings):
        if note in context_notes:
            continue
        yield Line("warning", "note", None, "", note)


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
