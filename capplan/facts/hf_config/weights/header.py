"""The header of a safetensors file: names, types and shapes of its tensors, without the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from capplan.errors import UnreadableFileError
from capplan.inputs.safetensors import TensorEntry, read_tensors

_BITS: Mapping[str, float] = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
}
_WEIGHTS = frozenset({"F64", "F32", "F16", "BF16", "F8_E5M2", "F8_E4M3"})


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def is_plain(self) -> bool:
        """Whether each element is one weight; packed integers hold several."""
        return self.dtype in _WEIGHTS


@dataclass(frozen=True)
class Header:
    """Tensors of one file."""

    tensors: tuple[Tensor, ...]
    header_bytes: int
    """Length of the header with the eight bytes that state it."""

    @property
    def data_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)


def read_header(path: Path) -> Header | str:
    """Return the header of a file, or why it cannot be read."""
    try:
        found = read_tensors(path)
    except UnreadableFileError as error:
        return error.reason
    tensors = []
    for name, entry in found.tensors.items():
        size = _size_bytes(entry)
        if size is None:
            return f"its header describes tensor {name!r} in an unknown way"
        tensors.append(Tensor(name, entry.dtype, entry.shape, size))
    return Header(tuple(tensors), found.header_bytes)


def _size_bytes(entry: TensorEntry) -> int | None:
    """Return the bytes of a tensor by its place, else by its type; None for an unknown type."""
    if entry.offsets is not None:
        return entry.offsets[1] - entry.offsets[0]
    if entry.dtype not in _BITS:
        return None
    return math.ceil(math.prod(entry.shape) * _BITS[entry.dtype] / 8)
