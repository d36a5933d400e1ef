"""An LLM's facts as a row of models_db, ready for a contributor to save and check."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from capplan.facts.derivation import whole
from capplan.facts.hf_config.spec import FoundLlm
from capplan.facts.hub import looks_like_id
from capplan.facts.llms import LLM_COLUMNS
from capplan.files.spreadsheets import inert
from capplan.schema.cache import CacheKind
from capplan.schema.llm import LlmSpec

_KINDS: Mapping[CacheKind, str] = {
    CacheKind.LATENT: "MLA",
    CacheKind.WINDOW: "sliding window",
    CacheKind.STATE: "constant state",
}


def to_row(found: FoundLlm) -> str:
    """Return the header of ``models_db/models`` and one line with these facts."""
    spec = found.spec
    text = io.StringIO()
    writer = csv.DictWriter(text, LLM_COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    words = {name: inert(word) for name, word in _words(found).items()}
    writer.writerow({**_figures(spec), **words})
    return text.getvalue().rstrip("\n")


def _figures(spec: LlmSpec) -> dict[str, Any]:
    names = (
        *("params_total", "params_active", "weight_bytes", "weight_bytes_active", "layers"),
        *("hidden", "heads", "vocab_size", "max_context", "experts", "experts_per_token"),
        *("mtp_layers", "mtp_params"),
    )
    values = {name: getattr(spec, name) for name in names}
    return {name: whole(value) for name, value in values.items() if value is not None}


def _words(found: FoundLlm) -> dict[str, str]:
    spec = found.spec
    where = spec.source.reference if found.origin != "models_db" else str(spec.source)
    return {
        "id": _id(found),
        "family": spec.family,
        "cache": " + ".join(map(str, spec.cache)),
        "dtype": spec.dtype,
        "quantisation": spec.quantisation,
        "attention": _attention(spec),
        "tokenizer_family": spec.tokenizer_family,
        "licence": spec.licence,
        "source": where,
        "as_of": spec.source.date or "",
        "note": "" if spec.source.date else "undated: derived from the checkpoint's files",
    }


def _id(found: FoundLlm) -> str:
    """Return a hub id: the name asked for, else the one that the configuration states."""
    if looks_like_id(found.spec.id):
        return found.spec.id
    stated = (found.config or {}).get("_name_or_path")
    if isinstance(stated, str) and stated.count("/") == 1 and looks_like_id(stated):
        return stated
    return found.folder.resolve().name if found.folder is not None else found.spec.id


def _attention(spec: LlmSpec) -> str:
    kinds = [_KINDS.get(group.kind) or _grouping(spec, group.heads) for group in spec.cache]
    return " + ".join(dict.fromkeys(kinds))


def _grouping(spec: LlmSpec, kv_heads: int) -> str:
    if spec.heads is None or kv_heads == spec.heads:
        return "MHA"
    return "MQA" if kv_heads == 1 else "GQA"
