"""The raw arrays of a profile: plain numbers in an archive whose sizes are checked first.

An archive may say that a hundred bytes unpack to a terabyte, and an array's header that it has
a trillion elements: both are compared with what is really there before memory is asked for.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from capplan.errors import UnreadableFileError
from capplan.inputs.limits import Limits, in_words

_SUFFIX = ".npy"
_NUMBERS = "biuf"
"""Kinds of plain numbers: booleans, integers and floats."""
_MOST_DIMENSIONS = 8
_BROKEN = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, SyntaxError, OverflowError),
    *(RuntimeError, NotImplementedError, UnicodeError, RecursionError, MemoryError),
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error),
)
"""What zipfile and numpy answer to bytes that are no archive of arrays."""


def parse_arrays(content: bytes, name: str, limits: Limits) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` archive by name.

    Raises
    ------
    UnreadableFileError
        If it is no such archive, holds anything but finite plain numbers, or unpacks to more than
        the limit.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            _check_members(members, name, limits)
            return {one.filename.removesuffix(_SUFFIX): _array(archive, one) for one in members}
    except UnreadableFileError:
        raise
    except _BROKEN as error:
        text = " ".join(str(error).split())[:120] or type(error).__name__
        raise UnreadableFileError(name, f"it holds no plain arrays ({text})") from error


def _check_members(members: list[zipfile.ZipInfo], name: str, limits: Limits) -> None:
    if len(members) > limits.most_groups:
        raise UnreadableFileError(
            name, f"it holds {len(members):,} arrays, at most {limits.most_groups:,} are read"
        )
    total = sum(one.file_size for one in members)
    if total > limits.most_bytes:
        raise UnreadableFileError(
            name,
            f"it unpacks to {in_words(total)}, at most {in_words(limits.most_bytes)} are read",
        )
    names = [one.filename for one in members]
    if len(set(names)) < len(names):
        raise UnreadableFileError(name, "it holds two arrays of one name")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """Read one array; no more than the archive says of it is ever unpacked."""
    if not member.filename.endswith(_SUFFIX):
        raise ValueError(f"{member.filename[:60]!r} is no array")
    with archive.open(member) as stream:
        raw = stream.read(member.file_size)
    source = io.BytesIO(raw)
    shape, in_columns, kind = _header(source)
    if kind.kind not in _NUMBERS or kind.hasobject or kind.subdtype is not None:
        raise ValueError(f"{member.filename[:60]!r} holds {kind}, no plain numbers")
    left = len(raw) - source.tell()
    if len(shape) > _MOST_DIMENSIONS or math.prod(shape) * kind.itemsize != left:
        raise ValueError(f"{member.filename[:60]!r} has {left:,} bytes for the shape {shape}")
    array = np.frombuffer(raw, dtype=kind, offset=source.tell())
    if kind.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{member.filename[:60]!r} holds numbers that are not finite")
    return array.reshape(shape, order="F" if in_columns else "C").copy()


def _header(source: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = npy.read_magic(source)
    if version == (1, 0):
        return npy.read_array_header_1_0(source)
    if version == (2, 0):
        return npy.read_array_header_2_0(source)
    raise ValueError(f"version {version} of the format")
