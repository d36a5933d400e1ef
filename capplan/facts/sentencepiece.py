"""The pieces of a SentencePiece model: as much of its protobuf as a vocabulary needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_SHIFT = 63
_PIECE_FIELD = 1
"""``repeated SentencePiece pieces = 1`` of ``ModelProto`` (sentencepiece_model.proto)."""
_TEXT_FIELD, _TYPE_FIELD = 1, 3
_ORDINARY_TYPES = frozenset({1, 6})
"""``NORMAL`` and ``BYTE``; unknown, control, user-defined and unused pieces are special."""


@dataclass(frozen=True)
class Piece:
    """One entry of the vocabulary; its place in the list is its id."""

    text: str
    special: bool


def read_pieces(raw: bytes) -> list[Piece]:
    """Return the vocabulary of a ``tokenizer.model``.

    Raises
    ------
    ValueError
        If the bytes are not such a model, or are cut.
    """
    pieces = [_piece(value) for field, value in _fields(raw) if field == _PIECE_FIELD]
    if not pieces:
        msg = "no SentencePiece vocabulary"
        raise ValueError(msg)
    return pieces


def _piece(value: bytes | int) -> Piece:
    if isinstance(value, int):
        msg = "a piece is not a message"
        raise ValueError(msg)  # noqa: TRY004 - malformed data, not a caller's mistake
    text, kind = "", 1
    for field, part in _fields(value):
        if field == _TEXT_FIELD and isinstance(part, bytes):
            text = part.decode("utf-8")
        elif field == _TYPE_FIELD and isinstance(part, int):
            kind = part
    return Piece(text, kind not in _ORDINARY_TYPES)


def _fields(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield (field number, value) of one protobuf message; fixed-width values stay bytes."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(raw, at)
            yield key >> 3, value
            continue
        if wire == _BYTES:
            length, at = _varint(raw, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            msg = f"wire type {wire} at byte {at}"
            raise ValueError(msg)
        if at + length > len(raw):
            msg = f"cut at byte {len(raw)}"
            raise ValueError(msg)
        yield key >> 3, raw[at : at + length]
        at += length


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw):
            msg = f"cut at byte {len(raw)}"
            raise ValueError(msg)
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if shift > _MOST_SHIFT:
            msg = f"a number of more than 64 bits at byte {at}"
            raise ValueError(msg)
        if byte < 0x80:
            return value, at
        shift += 7
