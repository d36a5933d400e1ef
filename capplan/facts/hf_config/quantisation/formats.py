"""How a quantised matrix is stored: bytes of one weight with its share of scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_BITS_PER_BYTE = 8
_HALF_BYTES = 2.0
"""Scales are stored in 16 bit unless a format says otherwise."""
_FLOAT_BYTES = 4.0

DTYPE_BYTES: Mapping[str, float] = {
    **dict.fromkeys(("float32", "fp32", "float"), 4.0),
    **dict.fromkeys(("bfloat16", "bf16", "float16", "fp16", "half"), 2.0),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3", "fp8", "int8"), 1.0),
}
"""Bytes of an unquantised element."""


@dataclass(frozen=True)
class Format:
    """One way to store a matrix."""

    name: str
    """In words: ``fp8``, ``int4``."""
    detail: str
    """How its scales are laid out: ``groups of 128``; empty for one scale a matrix."""
    weight_bytes: float
    """Bytes of a weight without scales."""
    scale_bytes: float = 0.0
    """Bytes of scales and zero points, spread over the weights they serve."""
    row_bytes: float = 0.0
    """Bytes of scales for each row of a matrix, spread over the hidden size."""

    def bytes_per_weight(self, hidden: int) -> float:
        """Return bytes of a weight with its share of scales; rows are about ``hidden`` long."""
        return self.weight_bytes + self.scale_bytes + self.row_bytes / hidden

    def __str__(self) -> str:
        """Name with the layout of scales."""
        return f"{self.name}, {self.detail}" if self.detail else self.name


def grouped(
    bits: float,
    group: int | None,
    *,
    name: str = "",
    scale_bytes: float = _HALF_BYTES,
    zero_points: bool = False,
    row_bytes: float = 0.0,
) -> Format:
    """Return integers in groups along a row, each group with a scale and perhaps a zero point.

    Parameters
    ----------
    bits
        Bits of a weight; zero points are packed in as many.
    group
        Weights a group; None: one scale a row.
    name
        What to call it; ``int4`` by its bits if empty.
    scale_bytes
        Bytes of one scale.
    zero_points
        Whether each group stores one.
    row_bytes
        Further bytes a row, such as the group index of each input.
    """
    weight = bits / _BITS_PER_BYTE
    label = name or f"int{bits:g}"
    group_bytes = scale_bytes + (weight if zero_points else 0.0)
    if group is None:
        return Format(label, "a scale a row", weight, row_bytes=group_bytes + row_bytes)
    return Format(label, f"groups of {group}", weight, group_bytes / group, row_bytes)


def fp8_per_tensor() -> Format:
    """Return 8-bit floats with one scale a matrix."""
    return Format("fp8", "", 1.0)


def fp8_per_row(scale_bytes: float = _HALF_BYTES) -> Format:
    """Return 8-bit floats with one scale a row."""
    return Format("fp8", "a scale a row", 1.0, row_bytes=scale_bytes)


def fp8_blocks(rows: int, columns: int) -> Format:
    """Return 8-bit floats with a 32-bit scale a block."""
    detail = f"blocks of {rows} x {columns}"
    return Format("fp8", detail, 1.0, _FLOAT_BYTES / (rows * columns))


def mxfp8() -> Format:
    """Return 8-bit floats with a one-byte exponent for every 32."""
    return Format("mxfp8", "groups of 32", 1.0, 1 / 32)


def mxfp4() -> Format:
    """Return 4-bit floats with a one-byte exponent for every 32: 4.25 bits a weight."""
    return Format("mxfp4", "groups of 32", 0.5, 1 / 32)


def nvfp4(group: int = 16) -> Format:
    """Return 4-bit floats with an 8-bit scale a group: 4.5 bits a weight at groups of 16."""
    return Format("nvfp4", f"groups of {group}", 0.5, 1 / group)


def nf4(block: int = 64, *, double: bool = False) -> Format:
    """Return bitsandbytes' 4-bit floats; doubly quantised scales take one byte, not four."""
    second = 256  # blocks that share one 32-bit scale of scales
    scale = 1 + _FLOAT_BYTES / second if double else _FLOAT_BYTES
    detail = f"blocks of {block}" + (", scales quantised too" if double else "")
    return Format("nf4", detail, 0.5, scale / block)


def plain(bits: float, name: str) -> Format:
    """Return a format of which only the average bits of a weight are known."""
    return Format(name, f"{bits:g} bits a weight", bits / _BITS_PER_BYTE)
