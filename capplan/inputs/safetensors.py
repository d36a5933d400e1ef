"""The header of a safetensors file: names, types and shapes of its tensors, without the data.

Layout: eight bytes with the length of the header (little-endian), the header as a JSON object, the
data. Sizes and places are checked here, for a header may claim anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from capplan.errors import UnreadableFileError
from capplan.inputs.documents import parse_json
from capplan.inputs.limits import SAFETENSORS_HEADER
from capplan.inputs.reading import as_text, why

LENGTH_BYTES = 8
_METADATA = "__metadata__"
_LARGEST = 2**62
_MOST_DIMENSIONS = 16


@dataclass(frozen=True)
class TensorEntry:
    """What a header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    offsets: tuple[int, int] | None
    """Begin and end in the data; None where the header does not say."""


@dataclass(frozen=True)
class TensorHeader:
    """The tensors of one file by name."""

    tensors: Mapping[str, TensorEntry]
    header_bytes: int
    """With the eight bytes of its length."""

    @property
    def end(self) -> int:
        """Length that the file must have."""
        ends = (one.offsets[1] for one in self.tensors.values() if one.offsets is not None)
        return self.header_bytes + max(ends, default=0)


def read_tensors(path: Path) -> TensorHeader:
    """Return the header of a file.

    Raises
    ------
    UnreadableFileError
        If it cannot be read, or is no header of this format.
    """
    try:
        with path.open("rb") as file:
            prefix = file.read(LENGTH_BYTES)
            length = int.from_bytes(prefix, "little")
            if len(prefix) < LENGTH_BYTES or length > SAFETENSORS_HEADER.most_bytes:
                raise _no(path, "it does not begin with the length of a header")
            content = file.read(length)
    except (OSError, ValueError) as error:
        raise UnreadableFileError(str(path), why(error)) from error
    if len(content) < length:
        raise _no(path, f"its header is cut off: {len(content):,} of {length:,} bytes")
    try:
        value = parse_json(as_text(content, str(path)), str(path), SAFETENSORS_HEADER)
    except UnreadableFileError as error:
        raise _no(path, f"its header is not JSON: {error.reason}") from error
    if not isinstance(value, dict):
        raise _no(path, "its header is no JSON object")
    found = {name: _entry(path, name, one) for name, one in value.items() if name != _METADATA}
    return TensorHeader(found, LENGTH_BYTES + length)


def _entry(path: Path, name: str, value: Any) -> TensorEntry:
    if isinstance(value, dict):
        dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
        if isinstance(dtype, str) and _are_sizes(shape):
            if offsets is None:
                return TensorEntry(dtype, tuple(shape), None)
            if _are_places(offsets):
                return TensorEntry(dtype, tuple(shape), (offsets[0], offsets[1]))
    raise _no(path, f"its header describes tensor {name[:80]!r} in an unknown way")


def _are_places(value: Any) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(type(one) is int for one in value)
        and 0 <= value[0] <= value[1] < _LARGEST
    )


def _are_sizes(value: Any) -> TypeGuard[list[int]]:
    if not isinstance(value, list) or len(value) > _MOST_DIMENSIONS:
        return False
    if not all(type(one) is int and 0 <= one < _LARGEST for one in value):
        return False
    return math.prod(value) < _LARGEST


def _no(path: Path, reason: str) -> UnreadableFileError:
    return UnreadableFileError(str(path), reason, "Download the file again.")
