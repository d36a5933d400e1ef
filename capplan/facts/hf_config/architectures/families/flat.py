"""Multimodal configurations that hold the LLM's fields beside the tower's, not in an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from capplan.facts.hf_config.architectures.families.dense import RECIPES
from capplan.facts.hf_config.architectures.network import Network
from capplan.facts.hf_config.architectures.recipe import decoder
from capplan.facts.hf_config.fields import Fields

_LLMS: Mapping[str, str] = {
    "llava": "llama",
    "llava_llama": "llama",
    "llava_mistral": "mistral",
    "llava_qwen": "qwen2",
    "minicpmo": "qwen2",
    "phi3_v": "phi3",
    "phi4mm": "phi3",
    "videollama3_qwen2": "qwen2",
}
"""Which LLM a multimodal type is built on."""

_MINICPM_V: Mapping[float, str] = {2.0: "minicpm", 2.5: "llama", 2.6: "qwen2", 4.5: "qwen3"}
"""LLM of each MiniCPM-V, by ``version``."""


def _on(fields: Fields, llm: str) -> Network:
    network = replace(decoder(fields, RECIPES[llm]), family=llm)
    return network.noting("Towers and projectors are not counted: the LLM alone is.")


def _reader(llm: str) -> Callable[[Fields], Network]:
    return lambda fields: _on(fields, llm)


def minicpm_v(fields: Fields) -> Network:
    """MiniCPM-V: its version says which LLM it is built on."""
    version = fields.number("version") or 0.0
    if version not in _MINICPM_V:
        raise fields.error("version", f"one of {', '.join(map(str, _MINICPM_V))}")
    return _on(fields, _MINICPM_V[version])


FLAT: dict[str, Callable[[Fields], Network]] = {
    "minicpmv": minicpm_v,
    **{name: _reader(llm) for name, llm in _LLMS.items()},
}
