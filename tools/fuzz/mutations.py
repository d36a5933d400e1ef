"""Ways to break a file that its format invites: values, keys, cells and lines, then bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Random = random.Random
Place = tuple[Any, ...]

STRANGE_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", " ", "x", "NaN", "-1", "1e999", "\x00", "\x1b[2J", "=1+1", "a\nb"),
    *(0, 1, -1, 2**31, 2**53, 2**64, 10**30, -(10**25), 10**400, -0.0, 1e-320, 1e308, -1e308),
    *(
        float("nan"),
        float("inf"),
        float("-inf"),
        [],
        {},
        [[]],
        [None],
        {"": None},
        "\u202e",
        "é" * 300,
    ),
    *(
        "../../etc/passwd",
        "/etc/passwd",
        "~nobody/x",
        "C:\\x",
        "a" * 5000,
        "\ud800",
        0.1,
        1.5,
        "1,5",
    ),
)
STRANGE_WORDS: tuple[bytes, ...] = (
    *(b"", b" ", b"nan", b"-inf", b"1e999", b"9" * 400, b"-1", b"0", b"0x10", b"1_000", b"\xff"),
    *(
        b"&a [*a]",
        b"*a",
        b"<<: *a",
        b"!!python/object/apply:os.system [x]",
        b"2026-13-45",
        b"1:99",
    ),
    *(
        b".nan",
        b"? [a]",
        b"!!binary x",
        b"!!timestamp x",
        b"!!int ''",
        b"|",
        b"- - -",
        b"{a: {a: {a",
    ),
    *(
        b'"',
        b"'",
        b"\x00",
        b"a" * 3000,
        b"\xef\xbb\xbf",
        b"..",
        b"../x",
        b"{}",
        b"[]",
        b"#",
        b"true",
    ),
)
_INSERTED = (
    *STRANGE_WORDS,
    *(b"[" * 2000, b'{"a":' * 500, b"\\ud800", b"\r", b"\r\n", b"\x1c", b"\xe2\x80\xa8", b"NaN"),
)


def mutated(content: bytes, rng: Random) -> bytes:
    """Return the content with one to four things wrong with it."""
    for _ in range(rng.randint(1, 4)):
        content = rng.choice(_ALL)(content, rng)
    return content


def _json(content: bytes, rng: Random) -> bytes:
    """Change a value, a key or an entry of a JSON document, or of one line of JSON lines."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _json_line(content, rng)
    return _dumped(_changed(value, rng))


def _json_line(content: bytes, rng: Random) -> bytes:
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _words(content, rng)
    lines[at] = _dumped(_changed(value, rng))
    return b"\n".join(lines)


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError, TypeError):
        return b"{}"


def _changed(value: Any, rng: Random) -> Any:
    places = list(_places(value)) if isinstance(value, dict | list) else []
    if not places:
        return rng.choice(STRANGE_VALUES)
    value = copy.deepcopy(value)
    place = rng.choice(places)
    parent = value
    for key in place[:-1]:
        parent = parent[key]
    rng.choice((_replace, _replace, _drop, _rename, _nest, _scale, _repeat))(
        parent, place[-1], rng
    )
    return value


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    if len(place) > 12:
        return
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in list(children)[:200]:
        yield (*place, key)
        if isinstance(child, dict | list):
            yield from _places(child, (*place, key))


def _replace(parent: Any, key: Any, rng: Random) -> None:
    parent[key] = rng.choice(STRANGE_VALUES)


def _drop(parent: Any, key: Any, rng: Random) -> None:
    del rng
    del parent[key]


def _rename(parent: Any, key: Any, rng: Random) -> None:
    if isinstance(parent, dict):
        parent[str(rng.choice(STRANGE_VALUES))[:50]] = parent.pop(key)


def _nest(parent: Any, key: Any, rng: Random) -> None:
    for _ in range(rng.choice((1, 3, 100))):
        parent[key] = {"a": parent[key]} if rng.random() < 0.5 else [parent[key]]


def _scale(parent: Any, key: Any, rng: Random) -> None:
    if isinstance(parent[key], int | float):
        try:
            parent[key] = parent[key] * rng.choice((0, -1, 1e-9, 1e9, 1e300, 10**30))
        except OverflowError:
            parent[key] = 0


def _repeat(parent: Any, key: Any, rng: Random) -> None:
    if isinstance(parent[key], list | str):
        parent[key] = parent[key] * rng.choice((0, 2, 3))


def _twice(content: bytes, rng: Random) -> bytes:
    """Let the first key of some object stand there twice."""
    at = content.find(b"{", rng.randrange(len(content) + 1))
    end = content.find(b",", at)
    return content if at < 0 or end < 0 else content[: end + 1] + content[at + 1 :]


def _words(content: bytes, rng: Random) -> bytes:
    """Replace a cell, a word or the value after a colon."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    sign = rng.choice((b",", b": ", b" ", b"=", b"\t"))
    cells = lines[at].split(sign)
    cells[rng.randrange(len(cells))] = rng.choice(STRANGE_WORDS)
    lines[at] = sign.join(cells)
    return b"\n".join(lines)


def _lines(content: bytes, rng: Random) -> bytes:
    """Drop, repeat or swap lines."""
    lines = content.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(3)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(other, lines[at])
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def _bytes(content: bytes, rng: Random) -> bytes:
    """Cut, insert, overwrite or repeat a few bytes."""
    at = rng.randrange(len(content) + 1)
    length = rng.choice((1, 1, 4, 8, 100, 10_000))
    how = rng.randrange(4)
    if how == 0:
        return content[:at] + content[at + length :]
    if how == 1:
        return content[:at] + rng.choice(_INSERTED) + content[at:]
    if how == 2:
        noise = bytes(rng.randrange(256) for _ in range(min(length, 8)))
        return content[:at] + noise + content[at + len(noise) :]
    return content[:at] + content[at : at + length] * 2 + content[at + length :]


def _whole(content: bytes, rng: Random) -> bytes:
    """Change what holds for all of a text: its end, line ends, encoding, mark at its begin."""
    ways: tuple[Callable[[bytes], bytes], ...] = (
        lambda text: text[: rng.randrange(len(text) + 1)],
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.replace(b"\n", b"\r"),
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.decode("utf-8", "replace").encode("utf-16"),
        lambda text: text + b"\x00" * 16,
        lambda text: text.replace(b" ", b""),
        lambda text: text + text,
    )
    return rng.choice(ways)(content)


_ALL = (_json, _json, _json, _words, _words, _lines, _bytes, _bytes, _whole, _twice)
