"""Quantisation settings of ``config.json``, one reader for each ``quant_method``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from capplan.errors import FactsError
from capplan.facts.hf_config.fields import Fields
from capplan.facts.hf_config.quantisation import formats
from capplan.facts.hf_config.quantisation.formats import Format
from capplan.facts.hf_config.quantisation.groups import (
    compressed_tensors,
    kv_element_bytes,
    modelopt,
)
from capplan.facts.hf_config.quantisation.module_names import ModuleNames, module_names


@dataclass(frozen=True)
class Scheme:
    """What a checkpoint does to its matrices."""

    wording: str
    """For people: ``awq 4 bit, groups of 128``."""
    groups: tuple[tuple[ModuleNames | None, Format], ...]
    """Formats with the matrices they are for; None: every matrix not named elsewhere."""
    skipped: ModuleNames
    output_layer: bool = False
    """Whether the output layer is quantised unless it is skipped."""
    embedding: bool = False
    """Whether the token embedding is quantised too."""
    output_format: Format | None = None
    """Format of the output layer where it differs."""
    kv_element_bytes: float | None = None
    """Bytes of a KV element that the checkpoint asks for; None: 16 bit."""
    notes: tuple[str, ...] = field(default=())

    def format_of(self, names: tuple[str, ...]) -> Format | None:
        """Return how a matrix of any of these names is stored; None: in 16 bit."""
        for listed, stored in self.groups:
            if listed is not None and any(map(listed.match, names)):
                return stored
        if any(map(self.skipped.match, names)):
            return None
        return next((stored for listed, stored in self.groups if listed is None), None)


_SKIP_KEYS = (
    *("modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules"),
    *("ignore", "exclude_modules", "exclude", "modules_to_not_quantize"),
)


def skipped_modules(settings: Fields) -> ModuleNames:
    """Return the matrices that stay in 16 bit."""
    listed = [name for key in _SKIP_KEYS for name in settings.texts(key)]
    return module_names(listed, settings.where)


def _group(settings: Fields, *names: str) -> int | None:
    """Return weights a group; None for one scale a row (0, -1 or absent)."""
    value = settings.value(*names)
    if value in (None, -1, 0):
        return None
    return settings.integer(*names)


def _bits(settings: Fields, *names: str) -> float:
    for name in names:
        value = settings.number(name)
        if value is not None:
            if not 1 <= value <= 16:
                raise settings.error(name, "1 to 16 bits")
            return value
    raise settings.error(names[0], "the bits of a weight")


def _one(settings: Fields, wording: str, stored: Format, *, output_layer: bool = False) -> Scheme:
    """Return a scheme with one format for all matrices."""
    return Scheme(
        f"{wording}, {stored.detail}" if stored.detail else wording,
        ((None, stored),),
        skipped_modules(settings),
        output_layer=output_layer,
    )


def _awq(settings: Fields) -> Scheme:
    bits = _bits(settings, "bits", "w_bit")
    group = _group(settings, "group_size", "q_group_size")
    stored = formats.grouped(bits, group, zero_points=settings.flag("zero_point", default=True))
    return _one(settings, f"awq {bits:g} bit", stored)


def _gptq(settings: Fields) -> Scheme:
    bits = _bits(settings, "bits")
    group = _group(settings, "group_size")
    # zero points are stored even where they are all alike (sym), and so is each input's group
    stored = formats.grouped(bits, group, zero_points=True, row_bytes=4.0)
    name = "auto-round" if "round" in settings.text("quant_method") else "gptq"
    scheme = _one(settings, f"{name} {bits:g} bit", stored, output_layer=settings.flag("lm_head"))
    rules = settings.value("dynamic")
    rules = rules if isinstance(rules, Mapping) else {}
    left = [f"re:.*{str(rule)[2:]}" for rule in rules if str(rule).startswith("-:")]
    return replace(
        scheme,
        skipped=module_names([*scheme.skipped.listed, *left], settings.where),
        notes=_uncounted(settings, rules),
    )


def _uncounted(settings: Fields, rules: Mapping[str, object]) -> tuple[str, ...]:
    notes = []
    if any(not str(rule).startswith("-:") for rule in rules):
        notes.append("Some matrices have bits of their own (dynamic); counted at the common bits.")
    if settings.has("modules_in_block_to_quantize"):
        notes.append("modules_in_block_to_quantize is not evaluated; all matrices are counted.")
    return tuple(notes)


def _fp8(settings: Fields) -> Scheme:
    block = settings.integers("weight_block_size")
    if not block:
        return _one(settings, "fp8, one scale a matrix", formats.fp8_per_tensor())
    if len(block) != 2 or min(block) < 1:
        raise settings.error("weight_block_size", "two whole numbers above 0")
    return _one(settings, "fp8", formats.fp8_blocks(*block))


def _fbgemm(settings: Fields) -> Scheme:
    return _one(settings, "fp8", formats.fp8_per_row(4.0))


def _mxfp4(settings: Fields) -> Scheme:
    return _one(settings, "mxfp4", formats.mxfp4())


_WHILE_LOADING = (
    "bitsandbytes may quantise while loading: then the files are in 16 bit, and this is what "
    "the engine holds."
)


def _bitsandbytes(settings: Fields) -> Scheme:
    four, eight = settings.flag("load_in_4bit"), settings.flag("load_in_8bit")
    if four == eight:
        raise settings.error("load_in_4bit", "either load_in_4bit or load_in_8bit to be true")
    if eight:
        stored, kind = formats.grouped(8, None, scale_bytes=4.0), "int8"
    else:
        stored = formats.nf4(double=settings.flag("bnb_4bit_use_double_quant"))
        kind = settings.text("bnb_4bit_quant_type", "fp4")
    return replace(_one(settings, f"bitsandbytes {kind}", stored), notes=(_WHILE_LOADING,))


def _hqq(settings: Fields) -> Scheme:
    inner = settings.inner("quant_config").inner("weight_quant_params")
    source = inner if inner.has("nbits") else settings
    bits = _bits(source, "nbits", "bits")
    stored = formats.grouped(bits, _group(source, "group_size"), scale_bytes=4.0)
    return _one(settings, f"hqq {bits:g} bit", stored)


_NAMED_BITS: Mapping[str, float] = {"int8": 8, "float8": 8, "fp8": 8, "int4": 4, "int2": 2}


def _by_words(settings: Fields, text: str, method: str, group: int | None = None) -> Scheme:
    """Return a scheme whose bits stand in a name, such as ``Int4WeightOnlyConfig``."""
    wanted = text.lower().replace("_", "")
    bits = next((bits for word, bits in _NAMED_BITS.items() if word in wanted), None)
    if bits is None:
        raise FactsError(
            f"{settings.where}: {method} with {text or 'no type'!r}: its bits are not known.",
            "Give a checkpoint whose quantisation settings state the bits of a weight.",
        )
    if bits == 8:
        return _one(settings, f"{method} 8 bit", formats.grouped(8, None, name=f"{method} 8 bit"))
    return _one(settings, f"{method} {bits:g} bit", formats.grouped(bits, group or 128))


def _torchao(settings: Fields) -> Scheme:
    kind = settings.value("quant_type")
    if isinstance(kind, Mapping):
        default = settings.inner("quant_type").inner("default")
        group = _group(default.inner("_data"), "group_size")
        return _by_words(settings, default.text("_type"), "torchao", group)
    return _by_words(settings, settings.text("quant_type"), "torchao")


def _quanto(settings: Fields) -> Scheme:
    return _by_words(settings, settings.text("weights"), "quanto")


def _exl(settings: Fields) -> Scheme:
    method = settings.text("quant_method")
    bits = _bits(settings, "bits")
    head = settings.number("head_bits")
    scheme = _one(settings, method, formats.plain(bits, method), output_layer=head is not None)
    output = None if head is None else formats.plain(head, f"{method} output layer")
    return replace(scheme, output_format=output)


def _mlx(settings: Fields) -> Scheme:
    bits, group = _bits(settings, "bits"), _group(settings, "group_size")
    # a scale and a bias of 16 bit a group; embedding and output layer are quantised as well
    stored = formats.grouped(bits, group, scale_bytes=4.0)
    wording = f"mlx {bits:g} bit, {stored.detail}"
    skipped = skipped_modules(settings)
    return Scheme(wording, ((None, stored),), skipped, output_layer=True, embedding=True)


def _compressed_tensors(settings: Fields) -> Scheme:
    scheme = _grouped_scheme(settings, compressed_tensors(settings), "")
    # its lists also name modules that only hold matrices, which leaves those as they are
    return replace(scheme, skipped=replace(scheme.skipped, exact=True))


def _modelopt(settings: Fields) -> Scheme:
    groups = modelopt(settings)
    return _grouped_scheme(settings, groups, "modelopt ")


def _grouped_scheme(
    settings: Fields, groups: tuple[tuple[ModuleNames | None, Format], ...], before: str
) -> Scheme:
    wording = " + ".join(dict.fromkeys(str(stored) for _, stored in groups))
    skipped = skipped_modules(settings)
    kv = kv_element_bytes(settings)
    return Scheme(f"{before}{wording}", groups, skipped, output_layer=True, kv_element_bytes=kv)


READERS: Mapping[str, Callable[[Fields], Scheme]] = {
    "awq": _awq,
    "gptq": _gptq,
    "auto-round": _gptq,
    "intel/auto-round": _gptq,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "bnb": _bitsandbytes,
    "hqq": _hqq,
    "torchao": _torchao,
    "quanto": _quanto,
    "exl2": _exl,
    "exl3": _exl,
    "mlx": _mlx,
    "compressed-tensors": _compressed_tensors,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
}
"""By ``quant_method``, in lower case."""
