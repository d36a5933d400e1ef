"""Text files in blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_BLOCK_BYTES = 2 * 2**20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def line_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield whole lines, a few megabytes at a time; the last one gets the line end it lacks."""
    parts: list[bytes] = []
    while data := stream.read(_BLOCK_BYTES):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join([*parts, data[:cut]])
            parts = []
        parts.append(data[cut:])
    if rest := b"".join(parts):
        yield rest if rest.endswith(b"\n") else rest + b"\n"
