"""Schemes with several groups of matrices: compressed-tensors and modelopt."""

from __future__ import annotations

from collections.abc import Mapping

from capplan.errors import FactsError
from capplan.facts.hf_config.fields import Fields
from capplan.facts.hf_config.quantisation import formats
from capplan.facts.hf_config.quantisation.formats import Format
from capplan.facts.hf_config.quantisation.module_names import ModuleNames, module_names

Groups = tuple[tuple[ModuleNames | None, Format], ...]
"""Formats with the matrices they are for; None: every matrix not named elsewhere."""

_UNPACKED = frozenset({"int-quantized", "naive-quantized"})
"""Formats that keep an integer of any width in a byte."""
_KV_BYTES: Mapping[str, float] = {"FP8": 1.0, "FP4": 0.5625, "NVFP4": 0.5625}
"""Of a KV element: 4-bit floats have a scale of a byte for every 16 of them."""
_UNKNOWN = "Give a checkpoint in a documented format, or the 16-bit original."


def compressed_tensors(settings: Fields) -> Groups:
    """Return the groups of ``config_groups``.

    Raises
    ------
    FactsError
        If a group lacks what its size depends on, or its format is not known.
    """
    _refuse_sparse(settings)
    found = settings.inner("config_groups")
    if not found.config:
        raise settings.error("config_groups", "at least one group")
    return tuple(_group(found.inner(name), settings) for name in found.config)


def _refuse_sparse(settings: Fields) -> None:
    sparse = settings.inner("sparsity_config").text("format")
    packed = settings.text("format")
    for name in (sparse, packed):
        if "sparse" in name or "marlin" in name:
            raise FactsError(f"{settings.where}: format {name!r} is not known.", _UNKNOWN)


def _group(group: Fields, settings: Fields) -> tuple[ModuleNames | None, Format]:
    packed = group.text("format") or settings.text("format")
    stored = _stored(group.inner("weights"), packed)
    targets = module_names(group.texts("targets"), group.where)
    return (None if targets.classes or not targets else targets), stored


def _stored(weights: Fields, packed: str) -> Format:
    bits = weights.integer("num_bits")
    if bits > 16:
        raise weights.error("num_bits", "1 to 16 bits")
    kind, strategy = weights.text("type", "int"), weights.text("strategy")
    group = weights.optional("group_size") if weights.value("group_size") != -1 else None
    if kind == "float":
        return _float(weights, bits, strategy, group, packed)
    width = 8 if packed in _UNPACKED else bits
    if strategy == "tensor":
        return formats.grouped(width, None, name=f"int{bits}", scale_bytes=0.0)
    zero_points = not weights.flag("symmetric", default=True)
    return formats.grouped(width, group or None, name=f"int{bits}", zero_points=zero_points)


def _float(weights: Fields, bits: int, strategy: str, group: int | None, packed: str) -> Format:
    if bits == 4 and (packed.startswith("mxfp4") or group == 32):
        return formats.mxfp4()
    if bits == 4:
        return formats.nvfp4(group or 16)
    if bits != 8:
        raise weights.error("num_bits", "4 or 8 bits for floats")
    block = weights.integers("block_structure") if _is_list(weights) else ()
    if strategy == "block":
        return formats.fp8_blocks(*(block if len(block) == 2 and min(block) > 0 else (128, 128)))
    if strategy == "group" and group == 32:
        return formats.mxfp8()
    return formats.fp8_per_row() if strategy == "channel" else formats.fp8_per_tensor()


def _is_list(weights: Fields) -> bool:
    return isinstance(weights.value("block_structure"), list)


def modelopt(settings: Fields) -> Groups:
    """Return the groups of NVIDIA's Model Optimizer.

    Raises
    ------
    FactsError
        If an algorithm is not known.
    """
    layers = settings.value("quantized_layers")
    if isinstance(layers, Mapping) and layers:
        return _by_layer(settings.inner("quantized_layers"))
    if settings.has("quant_algo"):
        return ((None, _algorithm(settings)),)
    return compressed_tensors(settings)


def _by_layer(layers: Fields) -> Groups:
    names: dict[Format, list[str]] = {}
    for name in layers.config:
        names.setdefault(_algorithm(layers.inner(name)), []).append(name)
    return tuple((module_names(listed, layers.where), stored) for stored, listed in names.items())


def _algorithm(settings: Fields) -> Format:
    name = settings.text("quant_algo").upper()
    if "NVFP4" in name:
        return formats.nvfp4(settings.optional("group_size") or 16)
    known: Mapping[str, Format] = {
        "FP8": formats.fp8_per_tensor(),
        "FP8_PB_WO": formats.fp8_blocks(128, 128),
        "FP8_PER_CHANNEL_PER_TOKEN": formats.fp8_per_row(4.0),
        "MXFP8": formats.mxfp8(),
        "MXFP4": formats.mxfp4(),
        "W4A8_MXFP4_FP8": formats.mxfp4(),
        "W4A16_AWQ": formats.grouped(4, 128),
        "INT4_AWQ": formats.grouped(4, 128),
        "W4A8_AWQ": formats.grouped(4, 128),
        "INT8_SQ": formats.grouped(8, None),
    }
    if name not in known:
        raise FactsError(
            f"{settings.where}: quant_algo {name!r} is not known.",
            f"Known: NVFP4, {', '.join(known)}.",
        )
    return known[name]


def kv_element_bytes(settings: Fields) -> float | None:
    """Return bytes of a KV element that the checkpoint asks for; None where it leaves 16 bit.

    vLLM 0.32 follows these settings where no KV dtype is given (utils/torch_utils.py,
    model_executor/layers/attention/attention.py). What it does not know it leaves at 16 bit.
    """
    name = settings.value("kv_cache_quant_algo")
    scheme = settings.value("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme:
        name = f"FP{scheme.get('num_bits')}" if scheme.get("type") == "float" else None
    return _KV_BYTES.get(str(name).upper())
