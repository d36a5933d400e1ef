"""Streams that go wrong after a good head, and what servers may say of a request's tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

FAULTS: dict[str, Callable[[Any], None]] = {}
"""Name -> what writes to the socket of a handler of ``hostile_server``."""


def _fault(function: Callable[[Any], None]) -> Callable[[Any], None]:
    FAULTS[function.__name__] = function
    return function


@_fault
def stream_without_end(handler: Any) -> None:
    handler.events()
    event = json.dumps({"choices": [{"delta": {"content": "a"}, "text": "a"}]}).encode()
    handler.repeat(b"data: " + event + b"\n\n")


@_fault
def stream_of_comments(handler: Any) -> None:
    handler.events()
    handler.repeat(b": ping\n\n" * 500)


@_fault
def stream_of_one_line(handler: Any) -> None:
    handler.events()
    handler.repeat(b"data: " + b"a" * 65_536)


@_fault
def stream_that_falls_silent(handler: Any) -> None:
    handler.events({"choices": [{"delta": {"content": "a"}, "text": "a"}]})
    time.sleep(handler.longest_s)


@_fault
def stream_that_drips(handler: Any) -> None:
    handler.events({"choices": [{"delta": {"content": "a"}, "text": "a"}]})
    handler.repeat(b"d", handler.pause_s)


@_fault
def stream_that_breaks_off(handler: Any) -> None:
    handler.events({"choices": [{"delta": {"content": "a"}, "text": "a"}]}, b'{"choi')


@_fault
def stream_of_other_types(handler: Any) -> None:
    handler.events(
        *({"choices": odd, "usage": odd, "error": None, "metrics": odd} for odd in _odd()),
        *({"choices": [odd]} for odd in _odd()),
        *({"choices": [{"delta": odd, "text": odd, "finish_reason": odd}]} for odd in _odd()),
        *_odd(),
        b"[DONE]",
    )


@_fault
def stream_of_errors(handler: Any) -> None:
    handler.events({"error": {"message": "the \ud800 engine\r\n\x1b[2J died", "code": 500}})


@_fault
def stream_that_is_no_utf8(handler: Any) -> None:
    handler.events(b"\xff\xfe{\x80}", b"[DONE]")


@_fault
def stream_of_deep_json(handler: Any) -> None:
    handler.events(b"[" * 300_000)


def _odd() -> Iterator[Any]:
    yield from (7, -1.5, True, "text", [], [[1]], {}, {"a": [None]}, None)


USAGES: dict[str, Any] = {
    "negative": {"completion_tokens": -5, "prompt_tokens": -1},
    "huge": {"completion_tokens": 10**400, "prompt_tokens": 10**30},
    "no number": {"completion_tokens": "many", "prompt_tokens": True},
    "a fraction": {"completion_tokens": 3.5, "prompt_tokens": 1.5},
    "not a number": {"completion_tokens": float("nan"), "prompt_tokens": float("inf")},
    "too many": {"completion_tokens": 100_000, "prompt_tokens": 7},
    "more cached than asked": {
        "completion_tokens": 2,
        "prompt_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 900},
    },
}
"""What servers may say of the tokens of one request; only the last counts its output."""

for _name, _usage in USAGES.items():
    FAULTS[f"usage_{_name.replace(' ', '_')}"] = lambda handler, usage=_usage: handler.told(usage)
