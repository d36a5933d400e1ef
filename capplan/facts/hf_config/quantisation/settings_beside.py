"""Quantisation settings that lie in a file of their own beside ``config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capplan.facts.hf_config.json_file import read_object

_BESIDE = (
    ("hf_quant_config.json", {"quant_method": "modelopt"}),
    ("quantize_config.json", {"quant_method": "gptq"}),
    ("quant_config.json", {"quant_method": "awq"}),
)
"""Files of Model Optimizer, AutoGPTQ and AutoAWQ, with what they leave unsaid."""


def with_settings_beside(config: Mapping[str, Any], folder: Path | None) -> Mapping[str, Any]:
    """Return the configuration with the settings of a file beside it, if it has none itself.

    Raises
    ------
    FactsError
        If such a file is there and is no JSON object.
    """
    if folder is None or _has_settings(config):
        return config
    for name, unsaid in _BESIDE:
        path = folder / name
        if path.is_file():
            content = read_object(path)
            inner = content.get("quantization")
            settings = inner if isinstance(inner, Mapping) else content
            return {**config, "quantization_config": {**unsaid, **settings}}
    return config


def _has_settings(config: Mapping[str, Any]) -> bool:
    inner = [config, *(value for value in config.values() if isinstance(value, Mapping))]
    keys = ("quantization_config", "compression_config", "quantization")
    return any(outer.get(key) for outer in inner for key in keys)
