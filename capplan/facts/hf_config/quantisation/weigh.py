"""Bytes of every part of a checkpoint, as its quantisation settings have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from capplan.errors import FactsError
from capplan.facts.hf_config.fields import Fields
from capplan.facts.hf_config.parts import Architecture, Part
from capplan.facts.hf_config.quantisation.formats import DTYPE_BYTES, Format
from capplan.facts.hf_config.quantisation.matrices import Matrix, matrices_of, mtp_matrices
from capplan.facts.hf_config.quantisation.schemes import READERS, Scheme

_KEYS = ("quantization_config", "compression_config", "quantization")
_WRAPPED = ("text_config", "llm_config", "language_config", "thinker_config")
_ALWAYS_16_BIT = frozenset({"router", "projections"})
"""Routers, and the projections that MTP layers and heads begin with: every scheme's tools leave
them alone, because small differences decide there."""


@dataclass(frozen=True)
class PartBytes:
    """One part with its bytes."""

    part: Part
    size_bytes: float
    how: str
    """The sum: ``68,451,041,280 x 1 byte (fp8)``."""

    @property
    def active_bytes(self) -> float:
        """Bytes read for one token."""
        return self.size_bytes * self.part.active / self.part.params


@dataclass(frozen=True)
class Weighed:
    """All parts with their bytes."""

    parts: tuple[PartBytes, ...]
    mtp_parts: tuple[PartBytes, ...]
    wording: str
    """The scheme for people; empty if there is none."""
    notes: tuple[str, ...] = ()
    kv_element_bytes: float | None = None
    """Bytes of a KV element that the checkpoint asks for; None: 16 bit."""

    @property
    def total_bytes(self) -> float:
        """Bytes of the LLM without its MTP layers."""
        return sum(part.size_bytes for part in self.parts)

    @property
    def active_bytes(self) -> float:
        """Bytes read for one token."""
        return sum(part.active_bytes for part in self.parts)

    @property
    def mtp_bytes(self) -> float:
        """Bytes of the MTP layers."""
        return sum(part.size_bytes for part in self.mtp_parts)


def read_scheme(config: Mapping[str, object], where: str) -> Scheme | None:
    """Return the quantisation scheme of a configuration, None if there is none.

    Raises
    ------
    FactsError
        If the method is not known or its settings do not state what the size depends on.
    """
    found = _settings(config, where)
    if found is None:
        return None
    settings, is_mlx = found
    method = "mlx" if is_mlx else _method(settings)
    if method not in READERS:
        raise FactsError(
            f"{where}: quantisation {method!r} is not known.",
            f"Known: {', '.join(READERS)}. Take the 16-bit original, or state the sizes in a "
            "row of models_db.",
        )
    return READERS[method](settings)


def _settings(config: Mapping[str, object], where: str) -> tuple[Fields, bool] | None:
    for outer in (config, *(config.get(key) for key in _WRAPPED)):
        if not isinstance(outer, Mapping):
            continue
        for key in _KEYS:
            value = outer.get(key)
            if isinstance(value, Mapping) and value:
                is_mlx = "quantization" in outer and not _names_a_method(value)
                return Fields(value, f"{where}: {key}"), is_mlx
            if value is not None and not isinstance(value, Mapping):
                raise Fields(outer, where).error(key, "an object")
    return None


def _names_a_method(settings: Mapping[str, object]) -> bool:
    known = ("quant_method", "quant_algo", "config_groups", "load_in_4bit", "load_in_8bit")
    return any(settings.get(key) is not None for key in known)


def _method(settings: Fields) -> str:
    """Return the method in lower case; settings of one producer alone name no method."""
    if settings.has("quantized_layers") or settings.has("quant_algo"):
        return "modelopt"
    method = settings.text("quant_method").lower().replace("_tensors", "-tensors")
    if method:
        return method
    if settings.flag("load_in_4bit") or settings.flag("load_in_8bit"):
        return "bitsandbytes"
    if settings.has("config_groups"):
        return "compressed-tensors"
    raise settings.error("quant_method", f"one of {', '.join(READERS)}")


def weigh(architecture: Architecture, config: Mapping[str, object], where: str) -> Weighed:
    """Return bytes of every part.

    Parameters
    ----------
    architecture
        The parts with their parameters.
    config
        The configuration; its quantisation settings are looked for in wrapped ones too.
    where
        Path or id, for messages.

    Raises
    ------
    FactsError
        If the scheme or the dtype is not known.
    """
    scheme = read_scheme(config, where)
    plain = dtype_bytes(architecture.dtype, where)
    fields = Fields(_text_config(config), where)

    def weighed(part: Part, matrices: Callable[..., tuple[Matrix, ...]]) -> PartBytes:
        if scheme is None or not _touched(part, scheme):
            return PartBytes(part, part.params * plain, _plain_how(part, plain, architecture))
        found = _alike(scheme, part) or _shares(matrices(part, architecture, fields), scheme, part)
        return _part_bytes(part, found, plain, architecture)

    return Weighed(
        tuple(weighed(part, matrices_of) for part in architecture.parts),
        tuple(weighed(part, mtp_matrices) for part in architecture.mtp_parts),
        scheme.wording if scheme is not None else "",
        scheme.notes if scheme is not None else (),
        scheme.kv_element_bytes if scheme is not None else None,
    )


def dtype_bytes(dtype: str, where: str) -> float:
    """Return bytes of an unquantised element.

    Raises
    ------
    FactsError
        If the dtype is not known.
    """
    name = dtype.lower().removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise FactsError(
            f"{where}: dtype {dtype!r} is not known.", f"Known: {', '.join(DTYPE_BYTES)}."
        )
    return DTYPE_BYTES[name]


def _text_config(config: Mapping[str, object]) -> Mapping[str, object]:
    for _ in range(2):  # Qwen Omni nests twice
        inner = next((config[k] for k in _WRAPPED if isinstance(config.get(k), Mapping)), None)
        if not isinstance(inner, Mapping):
            break
        config = inner
    return config


def _touched(part: Part, scheme: Scheme) -> bool:
    if part.name == "token embedding":
        return scheme.embedding
    if part.name == "output layer":
        return scheme.output_layer or _named(part, scheme)
    return part.quantisable and part.name not in _ALWAYS_16_BIT


def _named(part: Part, scheme: Scheme) -> bool:
    """Whether a group names the part itself: output layers are quantised only on purpose."""
    names = part.modules or (part.name,)
    return any(listed is not None and any(map(listed.match, names)) for listed, _ in scheme.groups)


def _alike(scheme: Scheme, part: Part) -> dict[Format | None, float]:
    """Return the one format of all matrices where no list tells them apart, else nothing."""
    if scheme.skipped or len(scheme.groups) != 1 or scheme.groups[0][0] is not None:
        return {}
    stored = scheme.groups[0][1]
    is_output = part.name == "output layer" and scheme.output_format is not None
    return {scheme.output_format if is_output else stored: 1.0}


def _shares(
    matrices: tuple[Matrix, ...], scheme: Scheme, part: Part
) -> dict[Format | None, float]:
    shares: defaultdict[Format | None, float] = defaultdict(float)
    for matrix in matrices:
        stored = scheme.format_of(matrix.names)
        if stored is not None and part.name == "output layer" and scheme.output_format:
            stored = scheme.output_format
        shares[stored] += matrix.share
    return dict(shares)


def _part_bytes(
    part: Part,
    shares: Mapping[Format | None, float],
    plain: float,
    architecture: Architecture,
) -> PartBytes:
    total, terms = 0.0, []
    for stored, share in shares.items():
        params = part.params * share
        if stored is None:
            each, name = plain, architecture.dtype
        else:
            each, name = stored.bytes_per_weight(architecture.hidden), str(stored)
        total += params * each
        terms.append(f"{params:,.0f} x {each:.6g} B ({name})")
    return PartBytes(part, float(round(total)), " + ".join(terms))


def _plain_how(part: Part, plain: float, architecture: Architecture) -> str:
    return f"{part.params:,} x {plain:g} B ({architecture.dtype})"
