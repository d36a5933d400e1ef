"""A configuration and the files beside it to an LLM's facts, with their derivation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from capplan.errors import FactsError, UnreadableFileError
from capplan.facts.derivation import Line
from capplan.facts.hf_config.architectures.read import read_architecture
from capplan.facts.hf_config.heads.read import read_head
from capplan.facts.hf_config.lines import derivation
from capplan.facts.hf_config.parts import Architecture
from capplan.facts.hf_config.plausible import check_sizes
from capplan.facts.hf_config.quantisation.settings_beside import with_settings_beside
from capplan.facts.hf_config.quantisation.weigh import Weighed, weigh
from capplan.facts.hf_config.weights.census import is_buffer
from capplan.facts.hf_config.weights.files import FileSet, find_weights
from capplan.facts.hf_config.weights.index import read_index
from capplan.facts.hf_config.weights.read import Weights, read_weights
from capplan.inputs.limits import MODEL_CARD
from capplan.inputs.reading import read_start
from capplan.schema.cache import BF16_BYTES, CacheLayers, kv_bytes_per_token
from capplan.schema.llm import LlmSpec
from capplan.schema.provenance import Kind, Source

_LICENCE = re.compile(r"^license(?:_name)?:\s*[\"']?([\w.+-]+)", re.MULTILINE)
_TWICE = (1.9, 2.2)
"""Ratio of float32 files to 16 bit; above 2 where they store causal masks too."""
_CAST = 0.5
"""Bytes of 16 bit over those of float32."""


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
    checkpoint_bytes: float | None = None
    """All that the weight files hold, where they or an index state it."""
    kv_element_bytes: float | None = None
    """Bytes of a KV element that the checkpoint asks for, as the spec's cache has it; None: 16
    bit."""
    open_cache: tuple[CacheLayers, ...] | None = None
    """The cache for a KV dtype chosen by hand, where the checkpoint asks for one of its own."""
    has_tower: bool = False
    """Whether a vision tower or the like lies beside the LLM."""

    @property
    def is_cast(self) -> bool:
        """Whether an engine casts it: vLLM loads float32 in 16 bit unless ``--dtype`` says else.

        vLLM 0.32, config/model.py (_resolve_auto_dtype). What models_db has is in 16 bit.
        """
        in_float32 = self.spec.dtype == "float32" and not self.spec.quantisation
        return in_float32 and self.config is not None

    @property
    def loaded(self) -> LlmSpec:
        """The facts as an engine loads them."""
        if not self.is_cast:
            return self.spec
        halved = {
            "weight_bytes": self.spec.weight_bytes * _CAST,
            "weight_bytes_active": self.spec.weight_bytes_active * _CAST,
            "dtype": "bfloat16",
        }
        return self.spec.model_copy(update=halved)


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
    architecture = read_head(config, name, names) or read_architecture(
        config, name, lambda: _files_hold(folder)
    )
    weighed = weigh(architecture, config, name)
    weights = read_weights(folder, weighed, architecture, files)
    if not architecture.dtype_stated and _in_float32(weights, weighed):
        architecture = replace(architecture, dtype="float32")
        weighed = weigh(architecture, config, name)
        weights = read_weights(folder, weighed, architecture, files)
    open_cache = architecture.cache
    architecture = _with_kv_as_stored(architecture, weighed.kv_element_bytes)
    spec = _spec(architecture, weighed, weights, name, folder)
    lines = tuple(derivation(architecture, weighed, weights, spec))
    return FoundLlm(
        spec,
        lines,
        config,
        folder,
        origin,
        weights.checkpoint_bytes,
        weighed.kv_element_bytes,
        open_cache if architecture.cache != open_cache else None,
        architecture.has_tower,
    )


def _with_kv_as_stored(architecture: Architecture, element_bytes: float | None) -> Architecture:
    """Fix the bytes of KV elements that would follow the engine's KV dtype."""
    cache = tuple(
        group.model_copy(update={"element_bytes": element_bytes})
        if group.elements and group.element_bytes is None
        else group
        for group in architecture.cache
    )
    if element_bytes is None or cache == architecture.cache:
        return architecture
    note = (
        f"The checkpoint's quantisation settings ask for KV of {8 * element_bytes:g} bits, "
        f"which vLLM takes unless told otherwise; 16 bit is {BF16_BYTES / element_bytes:.3g} "
        "times as much."
    )
    return replace(architecture, cache=cache, notes=(*architecture.notes, note))


def _in_float32(weights: Weights, weighed: Weighed) -> bool:
    """Whether a total is that of four bytes a parameter, where two were taken."""
    total = weights.checkpoint_bytes or 0.0
    return not weighed.wording and _TWICE[0] < total / weighed.total_bytes < _TWICE[1]


def _files_hold(folder: Path | None) -> str:
    """Return what the headers of weight files tell even of an unknown architecture."""
    files = find_weights(folder) if folder is not None else None
    if files is None or not files.tensors:
        return ""
    tensors = [tensor for tensor in files.tensors if not is_buffer(tensor.name)]
    size = sum(tensor.size_bytes for tensor in tensors)
    if not all(tensor.is_plain for tensor in tensors):
        return f" Its weight files hold {size:,} bytes."
    params = sum(tensor.elements for tensor in tensors)
    return f" Its weight files hold {params:,} parameters in {size:,} bytes; its cache is unknown."


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
        start = read_start(folder / "README.md", MODEL_CARD.most_bytes)
    except UnreadableFileError:
        return ""
    text = start.decode("utf-8", errors="replace")
    if not text.startswith("---"):
        return ""
    found = dict.fromkeys(_LICENCE.findall(text.split("\n---", 1)[0]))
    named = [licence for licence in found if licence.lower() != "other"]
    return named[0] if named else ""
