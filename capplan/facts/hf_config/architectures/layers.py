"""Which layer is of which kind: windowed or full, dense or sparse."""

from __future__ import annotations

from collections.abc import Callable

from capplan.facts.hf_config.fields import Fields

Windows = Callable[[Fields, int], tuple[int | None, ...]]
"""From fields and the number of layers to each layer's window, None for full attention."""
Sparse = Callable[[Fields, int], tuple[bool, ...]]
"""From fields and the number of layers to whether each layer routes to experts."""

FULL = "full_attention"
SLIDING = "sliding_attention"
_WINDOWED = (SLIDING, "chunked_attention")
_ATTENDING = (FULL, "attention", *_WINDOWED)


def layer_kinds(fields: Fields, layers: int, name: str = "layer_types") -> tuple[str, ...]:
    """Return each layer's kind as the configuration lists it, nothing if it does not.

    Raises
    ------
    FactsError
        If the list is shorter than the number of layers.
    """
    kinds = fields.texts(name)
    if kinds and len(kinds) < layers:
        raise fields.error(name, f"one entry for each of {layers} layers")
    return kinds[:layers]


def known_kinds(fields: Fields, kinds: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Check that layers are of kinds that the reader counts.

    Raises
    ------
    FactsError
        If one is not.
    """
    unknown = set(kinds) - set(known)
    if unknown:
        raise fields.error("layer_types", f"kinds of {', '.join(known)}, not {min(unknown)!r}")


def no_windows(_fields: Fields, layers: int) -> tuple[int | None, ...]:
    """Every layer keeps all tokens."""
    return (None,) * layers


def same_window(fields: Fields, layers: int) -> tuple[int | None, ...]:
    """Every layer has the window, if there is one (Mistral 7B v0.1, Phi-3)."""
    return (fields.optional("sliding_window") or None,) * layers


def by_kind(
    pattern: Callable[[Fields, int], bool],
    *width: str,
    used: Callable[[Fields], bool] = lambda _: True,
) -> Windows:
    """Return a rule: ``layer_types`` says which layers are windowed, else a pattern does.

    Parameters
    ----------
    pattern
        From fields and the layer's index to whether it is windowed.
    width
        Names of the field with the window.
    used
        Whether windows are used at all, where no list says so.
    """

    def windows(fields: Fields, layers: int) -> tuple[int | None, ...]:
        size = fields.optional(*(width or ("sliding_window",))) or None
        kinds = layer_kinds(fields, layers)
        if kinds:
            known_kinds(fields, kinds, _ATTENDING)
            chosen = [kind in _WINDOWED for kind in kinds]
        else:
            chosen = [used(fields) and pattern(fields, index) for index in range(layers)]
        if size is None and kinds and any(chosen):
            raise fields.error((width or ("sliding_window",))[0], "the window of windowed layers")
        return tuple(size if windowed else None for windowed in chosen)

    return windows


def all_but_every(period: int, *names: str) -> Callable[[Fields, int], bool]:
    """Return a pattern: every ``period``-th layer is full, all others are windowed."""

    def pattern(fields: Fields, index: int) -> bool:
        stated = fields.optional(*names) if names else None
        return (index + 1) % (stated or period) != 0

    return pattern


def from_index_on(fields: Fields, index: int) -> bool:
    """Layers from ``max_window_layers`` on are windowed (Qwen 2 and 3)."""
    return index >= (fields.optional("max_window_layers") or 0)


def windows_switched_on(fields: Fields) -> bool:
    """Return whether ``use_sliding_window`` is true."""
    return fields.flag("use_sliding_window")


def all_sparse(_fields: Fields, layers: int) -> tuple[bool, ...]:
    """Every layer routes to experts."""
    return (True,) * layers


def by_mlp_kind(otherwise: Sparse) -> Sparse:
    """Return a rule: ``mlp_layer_types`` says it, else another rule does."""

    def sparse(fields: Fields, layers: int) -> tuple[bool, ...]:
        kinds = layer_kinds(fields, layers, "mlp_layer_types")
        return tuple(kind == "sparse" for kind in kinds) if kinds else otherwise(fields, layers)

    return sparse


def after_dense(*names: str) -> Sparse:
    """Return a rule: the first layers are dense, from then on every n-th is sparse."""

    def sparse(fields: Fields, layers: int) -> tuple[bool, ...]:
        dense = fields.optional(*names) or 0
        listed = _frequency_list(fields, layers)
        if listed:
            return listed
        every = fields.optional("moe_layer_freq") or 1
        return tuple(index >= dense and index % every == 0 for index in range(layers))

    return by_mlp_kind(sparse)


def _frequency_list(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Return ``moe_layer_freq`` where it is a list of 0 and 1, one a layer."""
    if not isinstance(fields.value("moe_layer_freq"), (list, tuple)):
        return ()
    listed = fields.integers("moe_layer_freq")
    if len(listed) < layers:
        raise fields.error("moe_layer_freq", f"one entry for each of {layers} layers")
    return tuple(bool(one) for one in listed[:layers])


def by_step(fields: Fields, layers: int) -> tuple[bool, ...]:
    """Every ``decoder_sparse_step``-th layer but those named is sparse (Qwen)."""
    step = fields.optional("decoder_sparse_step") or 1
    dense = set(fields.integers("mlp_only_layers"))
    return tuple(index not in dense and (index + 1) % step == 0 for index in range(layers))


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
