"""Which reader counts which model type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from capplan.facts.hf_config.architectures.families.deci import DECIS
from capplan.facts.hf_config.architectures.families.dense import RECIPES
from capplan.facts.hf_config.architectures.families.flat import FLAT
from capplan.facts.hf_config.architectures.families.gemma import GEMMAS
from capplan.facts.hf_config.architectures.families.gpt import GPTS
from capplan.facts.hf_config.architectures.families.hybrid import HYBRIDS
from capplan.facts.hf_config.architectures.families.latent import LATENT
from capplan.facts.hf_config.architectures.families.mimo import MIMOS
from capplan.facts.hf_config.architectures.families.minimax import MINIMAXES
from capplan.facts.hf_config.architectures.families.nemotron import NEMOTRONS
from capplan.facts.hf_config.architectures.families.state_space import STATE_SPACE
from capplan.facts.hf_config.architectures.network import Network
from capplan.facts.hf_config.architectures.recipe import decoder
from capplan.facts.hf_config.fields import Fields

CLASSIFIER = "ForSequenceClassification"
Reader = Callable[[Fields], Network]

_READERS: Mapping[str, Reader] = {
    **GPTS,
    **LATENT,
    **HYBRIDS,
    **STATE_SPACE,
    **GEMMAS,
    **NEMOTRONS,
    **MIMOS,
    **MINIMAXES,
    **DECIS,
    **FLAT,
}

REFUSED: Mapping[str, str] = {
    "deepseek_v4": "its compressed sparse attention has no constant cache a token",
    "deepseek_ref": "its compressed sparse attention has no constant cache a token",
    "kimi_k3": "its experts and gates differ from Kimi Linear's in ways that no field states",
    "mllama": "its cross-attention layers cache the image, not the text",
}
"""Types known and not counted, and why."""

BY_LAYER = ("gemma4", "gemma4_text", "gemma4_unified_text")
"""Types whose ``per_layer_config`` is read: single layers that differ from the rest."""


def known_types() -> tuple[str, ...]:
    """Return every model type that is counted."""
    return tuple(sorted({*RECIPES, *_READERS}))


def counted_type(model_type: str, class_name: str) -> str:
    """Return the type to count by: the model type, else the one that the class is named after.

    Empty where neither is known, or where one of them is refused.
    """
    by_class = _types_by_class().get(_stem(class_name), "")
    if model_type in REFUSED or by_class in REFUSED:
        return ""
    known = known_types()
    return model_type if model_type in known else by_class if by_class in known else ""


def refusal(model_type: str, class_name: str) -> str:
    """Return why a type is known and not counted; empty if it is not known at all."""
    by_class = _types_by_class().get(_stem(class_name), "")
    return REFUSED.get(model_type) or REFUSED.get(by_class) or ""


def base_or_classifier(class_name: str) -> str:
    """Return a class that saves a known LLM without its output layer, else nothing.

    Wrappers of other families (``InternVLChatModel``) are no such classes.
    """
    for suffix in (CLASSIFIER, "Model"):
        stem = class_name.removesuffix(suffix).lower()
        if class_name.endswith(suffix) and stem in _types_by_class():
            return class_name
    return ""


def reader_of(counted: str) -> Reader:
    """Return the reader of a known type."""
    if counted in _READERS:
        return _READERS[counted]
    recipe = RECIPES[counted]
    return lambda fields: replace(decoder(fields, recipe), family=counted)


_SUFFIXES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "Model")


def _stem(class_name: str) -> str:
    """Return a class name without what stands behind the family: ``Qwen3MoeForCausalLM``."""
    suffix = next((one for one in _SUFFIXES if class_name.endswith(one)), "")
    return class_name.removesuffix(suffix).lower()


@cache
def _types_by_class() -> Mapping[str, str]:
    return {name.replace("_", "").lower(): name for name in (*known_types(), *REFUSED)}
