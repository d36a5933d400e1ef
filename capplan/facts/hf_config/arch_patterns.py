"""Rules on layers that one family or two use."""

from __future__ import annotations

from capplan.facts.hf_config.arch_layers import by_kind, from_index_on, windows_switched_on
from capplan.facts.hf_config.fields import Fields

QWEN_WINDOWS = by_kind(from_index_on, used=windows_switched_on)


def has_window(fields: Fields) -> bool:
    """Return whether a window is stated."""
    return bool(fields.optional("sliding_window"))


def every_other(_fields: Fields, index: int) -> bool:
    """Return whether a layer is windowed: the first is, then every other."""
    return index % 2 == 0


def all_but_fourth(_fields: Fields, index: int) -> bool:
    """Return whether a layer is windowed: all but the first and every fourth from it."""
    return index % 4 != 0


def rotary(fields: Fields, index: int) -> bool:
    """Layers with rotary positions are windowed (Llama 4, SmolLM 3), by list or interval."""
    listed = fields.integers("no_rope_layers")  # despite its name, 1 is a layer with them
    if listed:
        return index < len(listed) and listed[index] == 1
    return (index + 1) % (fields.optional("no_rope_layer_interval") or 4) != 0


def letters(fields: Fields, index: int) -> bool:
    """``LLLG`` or a number of layers, the last of which is full (EXAONE 4)."""
    pattern = fields.value("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return pattern[index % len(pattern)] == "L"
    return (index + 1) % (fields.optional("sliding_window_pattern") or 4) != 0


def interleaved(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Llama 4: the layers listed, else every ``interleave_moe_layer_step``-th."""
    listed = fields.integers("moe_layers")
    if listed:
        return tuple(index in listed for index in range(layers))
    step = fields.optional("interleave_moe_layer_step")
    if not step:
        return (False,) * layers
    return tuple((index + 1) % step == 0 for index in range(layers))


def listed_range(fields: Fields, layers: int) -> tuple[bool, ...]:
    """ERNIE 4.5: every n-th layer between two indices, both included."""
    first = fields.optional("moe_layer_start_index") or 0
    end = fields.value("moe_layer_end_index")
    last = end if isinstance(end, int) and end >= 0 else layers - 1
    every = fields.optional("moe_layer_interval") or 1
    return tuple(first <= index <= last and (index + 1) % every == 0 for index in range(layers))
