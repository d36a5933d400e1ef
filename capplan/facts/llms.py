"""LLMs of models_db."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capplan.facts.rows import PROVENANCE, Row, build, filled, read_family
from capplan.schema.cache import CacheLayers, kv_bytes_per_token
from capplan.schema.llm import LlmSpec
from capplan.schema.provenance import Kind, Source

LLM_COLUMNS = (
    *("id", "family", "params_total", "params_active", "weight_bytes", "weight_bytes_active"),
    *("layers", "hidden", "heads", "vocab_size", "cache", "max_context"),
    *("experts", "experts_per_token", "mtp_layers", "mtp_params", "dtype", "quantisation"),
    *("attention", "tokenizer_family", "licence", *PROVENANCE),
)

_NEEDED = ("params_total", "params_active", "weight_bytes", "layers", "hidden", "vocab_size")


@dataclass(frozen=True)
class IncompleteLlm:
    """An LLM whose figures are not all known; listed, never planned with."""

    id: str
    family: str
    missing: tuple[str, ...]
    source: Source


def load_llms(folder: Path) -> tuple[tuple[LlmSpec, ...], tuple[IncompleteLlm, ...]]:
    """Load LLMs: those with all figures, and those that are only known to exist.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    complete: list[LlmSpec] = []
    incomplete: list[IncompleteLlm] = []
    for row in read_family(folder, LLM_COLUMNS):
        missing = tuple(name for name in _NEEDED if not row.cells[name])
        if missing:
            family, source = row.required("family"), row.source(Kind.CITED)
            incomplete.append(IncompleteLlm(row.required("id"), family, missing, source))
        else:
            complete.append(_llm(row))
    return tuple(complete), tuple(incomplete)


def _llm(row: Row) -> LlmSpec:
    values = filled(row, ("attention", "cache", *PROVENANCE))
    return build(LlmSpec, row, {**values, **_cache(row), "source": row.source(Kind.CITED)})


def _cache(row: Row) -> dict[str, object]:
    """Return the cache's layers with what follows from them; nothing where they are unknown."""
    if not row.cells["cache"]:
        return {}
    try:
        cache = CacheLayers.parse(row.cells["cache"])
    except ValueError as error:
        raise row.error("cache", f"groups of layers ({error})") from None
    heads = next((group.heads for group in cache if group.elements), None)
    return {"cache": cache, "kv_bytes_per_token": kv_bytes_per_token(cache), "kv_heads": heads}
