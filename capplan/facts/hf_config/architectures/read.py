"""Any Hugging Face ``config.json`` to an architecture: parameters, cache, context.

A configuration is plain JSON here; nothing of it is run. A model type that no reader knows is
refused by name: parameters cannot be guessed from sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from capplan.errors import FactsError
from capplan.facts.hf_config.architectures.classes import as_saved
from capplan.facts.hf_config.architectures.context import read_context
from capplan.facts.hf_config.architectures.defaults import defaults_of
from capplan.facts.hf_config.architectures.families.flat import FLAT
from capplan.facts.hf_config.architectures.network import (
    Network,
    add_up,
    group_caches,
    merge_caches,
)
from capplan.facts.hf_config.architectures.registry import (
    BY_LAYER,
    REFUSED,
    base_or_classifier,
    counted_type,
    known_types,
    reader_of,
    refusal,
)
from capplan.facts.hf_config.fields import Fields
from capplan.facts.hf_config.parts import Architecture
from capplan.schema.cache import CacheKind, CacheLayers

_INNER = ("text_config", "llm_config", "language_config", "thinker_config")
_TOWERS = (
    *("vision_config", "visual", "vision_tower_config", "vision_encoder_config"),
    *("audio_config", "speech_config"),
)
_FROM_OUTER = ("tie_word_embeddings", "dtype", "torch_dtype", "architectures")
_DTYPE = "bfloat16"
"""Taken where no field states the dtype and no file tells it."""
_DTYPES = {"float": "float32", "half": "float16"}
REMEDY = (
    "State its sizes in a row of models_db/models and check it with `capplan facts check`; "
    "CONTRIBUTING.md shows how."
)


def read_architecture(
    config: Mapping[str, object], name: str, files: Callable[[], str] = str
) -> Architecture:
    """Count a configuration's parameters and cache.

    Parameters
    ----------
    config
        The content of ``config.json``.
    name
        Path or id, for messages.
    files
        Returns what the weight files tell of an LLM that no reader counts, for the message.

    Raises
    ------
    FactsError
        If the model type is unknown or refused, or a field is missing or wrong.
    """
    outer = Fields(config, name)
    inner, notes = _unwrap(outer)
    model_type, class_name = inner.text("model_type"), _class_name(outer, inner)
    # DeepSeek's vision models name the LLM's class inside, and no type
    counted = counted_type(model_type, _class_name(inner, inner))
    counted = counted or counted_type(model_type, class_name)
    if not counted or outer.text("model_type") in REFUSED:
        raise _unknown(name, outer.text("model_type") or model_type, class_name, files())
    fields = Fields(inner.config, name, defaults_of(counted, nested=inner is not outer))
    if fields.has("per_layer_config") and counted not in BY_LAYER:
        raise fields.error("per_layer_config", "none: layers of this type are counted alike")
    network = reader_of(counted)(fields)
    network = as_saved(network, fields, base_or_classifier(class_name))
    if counted != model_type:
        by = _class_name(inner, inner) or class_name
        notes = (*notes, f"Model type {model_type!r} is counted as {counted}, by {by}.")
    context, context_notes = read_context(fields)
    dtype = _dtype(fields)
    family = network.family or counted
    defaulted = _defaulted(fields)
    all_notes = (*notes, *network.notes, *context_notes, *defaulted)
    found = _architecture(network, model_type, class_name, family, context, dtype, all_notes)
    return replace(found, has_tower=bool(_tower(outer)) or counted in FLAT)


def _architecture(
    network: Network,
    model_type: str,
    class_name: str,
    family: str,
    context: int | None,
    dtype: str,
    notes: tuple[str, ...],
) -> Architecture:
    return Architecture(
        model_type=model_type,
        class_name=class_name,
        family=family,
        layers=len(network.layers),
        hidden=network.hidden,
        heads=network.heads,
        vocab_size=network.vocab_size,
        tied_embeddings=network.tied,
        dtype=dtype or _DTYPE,
        dtype_stated=bool(dtype),
        cache=_within(group_caches(network.layers), context),
        max_context=context,
        parts=add_up(network.layers, network.outer, network.modules),
        mtp_layers=len(network.mtp),
        mtp_parts=add_up(network.mtp, (), network.modules),
        experts=network.experts,
        experts_per_token=network.experts_per_token,
        notes=notes,
    )


def _within(cache: tuple[CacheLayers, ...], context: int | None) -> tuple[CacheLayers, ...]:
    """Return groups in which a window that covers the whole context is none."""
    if context is None:
        return cache
    full = {"kind": CacheKind.FULL, "window": None}
    return merge_caches(
        group.model_copy(update=full) if (group.window or 0) >= context else group
        for group in cache
    )


def _unwrap(outer: Fields) -> tuple[Fields, tuple[str, ...]]:
    """Return the LLM's own configuration, with what only the outer one states."""
    notes: list[str] = []
    fields = outer
    for _ in range(2):  # Qwen Omni nests twice: thinker_config holds text_config
        name = next((key for key in _INNER if isinstance(fields.value(key), Mapping)), None)
        if name is None:
            break
        inner = cast("Mapping[str, object]", fields.value(name))
        handed = {key: fields.config[key] for key in _FROM_OUTER if key in fields.config}
        config = {**handed, **{key: value for key, value in inner.items() if value is not None}}
        config.update({key: None for key, value in inner.items() if value is None})
        config.setdefault("model_type", fields.config.get("model_type"))
        # where both speak and disagree, published checkpoints hold an output layer of their own
        if False in (fields.config.get("tie_word_embeddings"), inner.get("tie_word_embeddings")):
            config["tie_word_embeddings"] = False
        notes += [_left_out(fields, name)]
        fields = Fields(config, outer.where)
    if not notes and (tower := _tower(outer)):
        notes.append(f"{tower} is not counted: the LLM alone is.")
    return fields, tuple(note for note in notes if note)


def _tower(fields: Fields) -> str:
    return ", ".join(key for key in _TOWERS if isinstance(fields.value(key), Mapping))


def _left_out(fields: Fields, name: str) -> str:
    tower = _tower(fields)
    if not tower:
        return ""
    return f"The LLM is read from {name}; {tower} is not counted (vision or audio tower)."


def _class_name(outer: Fields, inner: Fields) -> str:
    names = outer.texts("architectures") or inner.texts("architectures")
    return names[0] if names else ""


def _dtype(fields: Fields) -> str:
    """Return the stated dtype, nothing if there is none."""
    found = (fields.text("dtype") or fields.text("torch_dtype")).removeprefix("torch.")
    return _DTYPES.get(found, found)


def _defaulted(fields: Fields) -> tuple[str, ...]:
    """Return one note on the fields that the file leaves to transformers' defaults."""
    shown = [f"{key} {value}" for key, value in sorted(fields.defaulted.items()) if value]
    return (f"Absent, so transformers' defaults: {', '.join(shown)}.",) if shown else ()


def _unknown(name: str, model_type: str, class_name: str, files: str) -> FactsError:
    what = f"model type {model_type!r}" if model_type else "no model_type"
    named = f" ({class_name})" if class_name else ""
    why = refusal(model_type, class_name) or "no reader counts it, and it is not guessed"
    known = f"one of the {len(known_types())} types that capplan counts"
    return FactsError(f"{name}: {what}{named}: {why}; expected {known}.{files}", REMEDY)
