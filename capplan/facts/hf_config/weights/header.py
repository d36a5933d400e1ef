"""The header of a safetensors file: names, types and shapes of its tensors, without the data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_LENGTH_BYTES = 8
_LARGEST_HEADER = 100_000_000
"""The format's own limit; more means that the file is something else."""

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
        with path.open("rb") as file:
            prefix = file.read(_LENGTH_BYTES)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < _LENGTH_BYTES or length > _LARGEST_HEADER:
                return "it does not begin with the length of a header"
            text = file.read(length)
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if len(text) < length:
        return f"its header is cut off: {len(text):,} of {length:,} bytes"
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return "its header is not JSON"
    return _header(content, _LENGTH_BYTES + length)


def _header(content: object, header_bytes: int) -> Header | str:
    if not isinstance(content, Mapping):
        return "its header is no JSON object"
    tensors = []
    for name, entry in content.items():
        if name == "__metadata__":
            continue
        tensor = _tensor(str(name), entry)
        if tensor is None:
            return f"its header describes tensor {name!r} in an unknown way"
        tensors.append(tensor)
    return Header(tuple(tensors), header_bytes)


def _tensor(name: str, entry: object) -> Tensor | None:
    if not isinstance(entry, Mapping):
        return None
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, list):
        return None
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        return None
    offsets = entry.get("data_offsets")
    if (
        isinstance(offsets, list)
        and len(offsets) == 2
        and all(isinstance(offset, int) for offset in offsets)
    ):
        size = offsets[1] - offsets[0]
    elif dtype in _BITS:
        size = math.ceil(math.prod(shape) * _BITS[dtype] / 8)
    else:
        return None
    return Tensor(name, dtype, tuple(shape), size) if size >= 0 else None
