"""The arguments of an old command: flags with their values, as written and as meant."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from capplan.deploy.known_flags import values_taken
from capplan.deploy.old_flags import OLD_FLAGS, SHORT_FORMS
from capplan.deploy.shell_words import Piece
from capplan.deploy.versions import EngineVersion
from capplan.errors import RequestError

_CONFIG = ("--speculative-config", "-sc")
_DOTTED = "--speculative-config."
_FLAG = re.compile(r"-{1,2}[A-Za-z]")


class Dynamic(str):
    """A word whose value only the shell knows, as it was written."""

    __slots__ = ()


@dataclass(frozen=True)
class Item:
    """A flag with its values, or a word without a flag."""

    flag: str
    """With hyphens, as the parser knows it; empty for a word without a flag."""
    raw: str
    values: tuple[Piece, ...] = ()
    known: bool = True

    @property
    def speculative(self) -> bool:
        """Whether it says how to speculate."""
        old = OLD_FLAGS.get(self.flag)
        dotted = self.flag.startswith(_DOTTED)
        return bool(old and old.key) or self.flag in (*SHORT_FORMS, *_CONFIG) or dotted

    @property
    def number(self) -> int | None:
        """Return its value as a whole number; None if it is none, or the shell's."""
        text = self.values[0].value if self.values else None
        return int(text) if text is not None and text.isdecimal() else None


def read_items(pieces: Sequence[Piece], version: EngineVersion) -> list[Item]:
    """Return the arguments in their order."""
    items: list[Item] = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if not _FLAG.match(piece.raw):
            items.append(Item("", piece.raw, (piece,)))
            at += 1
            continue
        item, taken = _flagged(pieces, at, version)
        items.append(item)
        at += taken
    return items


def _flagged(pieces: Sequence[Piece], at: int, version: EngineVersion) -> tuple[Item, int]:
    written, equals, inline = pieces[at].raw.partition("=")
    flag = _hyphens(written)
    old = OLD_FLAGS.get(flag)
    takes = old.values if old is not None else values_taken(flag, version)
    known = takes is not None
    if equals:
        value = pieces[at].value
        meant = value.partition("=")[2] if value is not None else None
        return Item(flag, pieces[at].raw, (Piece(inline, value=meant),), known), 1
    most = {"0": 0, "1": 1, "+": len(pieces)}.get(takes or "?", 1)
    values: list[Piece] = []
    for piece in pieces[at + 1 :]:
        if len(values) == most or _FLAG.match(piece.raw):
            break
        values.append(piece)
    raw = " ".join((pieces[at].raw, *(piece.raw for piece in values)))
    return Item(flag, raw, tuple(values), known), 1 + len(values)


def _hyphens(written: str) -> str:
    """Return a flag with hyphens; the keys after a point are those of JSON."""
    base, point, key = written.partition(".")
    return base.replace("_", "-") + point + key.replace("-", "_")


def as_speculative(items: Sequence[Item]) -> tuple[dict[str, object], Item | None]:
    """Return the keys that the items set, and the first whose JSON only the shell knows.

    Raises
    ------
    RequestError
        If JSON is written there and cannot be read.
    """
    given: dict[str, object] = {}
    for item in items:
        value = _value(item)
        if item.flag not in _CONFIG:
            given[_key(item.flag)] = value
        elif isinstance(value, Dynamic):
            return {}, item
        else:
            given.update(_json(item, str(value)))
    return given, None


def _key(flag: str) -> str:
    if flag in OLD_FLAGS:
        return OLD_FLAGS[flag].key
    return SHORT_FORMS.get(flag) or flag.removeprefix(_DOTTED)


def _value(item: Item) -> object:
    if not item.values:
        return True
    piece = item.values[0]
    if piece.value is None:
        return Dynamic(piece.raw)
    return _plain_json(piece.value) if item.flag.startswith(_DOTTED) else piece.value


def _plain_json(text: str) -> object:
    """Return a dotted value as the engine reads it: JSON where it is, else a text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _json(item: Item, text: str) -> dict[str, object]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"{item.flag} holds no JSON: {error}.",
            "Put it in single quotes, with double quotes inside: "
            """--speculative-config '{"method":"ngram","num_speculative_tokens":3}'""",
        ) from error
    if not isinstance(read, dict):
        raise RequestError(
            f"{item.flag} holds a {type(read).__name__}, expected an object.",
            "Write keys and values in braces.",
        )
    return {str(key).replace("-", "_"): value for key, value in read.items()}
