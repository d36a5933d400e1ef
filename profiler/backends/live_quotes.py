"""What a server said, as far as it may stand in a message or a file.

Anything may come back from a server: control characters, halves of surrogate pairs that no file
can hold, and the prompt that was just sent to it. A prompt belongs to the user and is written
nowhere, so words that repeat it are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

SHOWN_CHARS = 200
LEFT_OUT = "(its words repeat the prompt and are left out)"
_RUN = 16
"""Letters and digits in a row that two texts hardly share by chance."""
_MESSAGE_KEYS = ("message", "detail", "error", "msg")
_DEEPEST = 4


def one_line(text: str, limit: int = SHOWN_CHARS) -> str:
    """Return a text as one line of printable characters, cut to a length."""
    line = " ".join(text.split())
    plain = "".join(char if char.isprintable() else "?" for char in line[: limit + 1])
    return plain if len(plain) <= limit else f"{plain[:limit]}..."


def quoted(text: str, *prompts: str) -> str:
    """Return what can be shown of a server's words; nothing of what repeats a prompt."""
    line = one_line(text)
    return LEFT_OUT if any(repeats(line, prompt) for prompt in prompts) else line


def quoted_body(content: bytes, *prompts: str) -> str:
    """Return what can be shown of an answer's body: the message of an error in JSON, else all."""
    text = content.decode("utf-8", errors="replace")
    try:
        said = _message(json.loads(text), _DEEPEST)
    except (ValueError, RecursionError):
        said = ""
    return quoted(said or text, *prompts)


def repeats(text: str, prompt: str) -> bool:
    """Whether a text holds a passage of a prompt, however it is spaced or punctuated."""
    needle, haystack = _letters(text), _letters(prompt)
    if not needle or not haystack:
        return False
    if len(haystack) <= _RUN:
        return len(haystack) >= _RUN // 2 and haystack in needle
    passages = (needle[at : at + _RUN] for at in range(len(needle) - _RUN + 1))
    return any(passage in haystack for passage in passages)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _message(document: Any, depth: int) -> str:
    if isinstance(document, str):
        return document
    if not isinstance(document, Mapping) or depth == 0:
        return ""
    found = (_message(document[key], depth - 1) for key in _MESSAGE_KEYS if key in document)
    return next(filter(None, found), "")
