"""Answers that are whole and wrong: errors, requests to wait, redirects, JSON of other shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FAULTS: dict[str, Callable[[Any], None]] = {}
"""Name -> what writes to the socket of a handler of ``hostile_server``."""


def _fault(function: Callable[[Any], None]) -> Callable[[Any], None]:
    FAULTS[function.__name__] = function
    return function


@_fault
def answers_500(handler: Any) -> None:
    handler.body(b'{"error": {"message": "out of luck"}}', status="500 Internal Server Error")


@_fault
def answers_429(handler: Any) -> None:
    handler.body(b"slow down", "Retry-After: 30", status="429 Too Many Requests")


@_fault
def asks_to_wait_for_ever(handler: Any) -> None:
    handler.body(b"slow down", f"Retry-After: {'9' * 40}", status="503 Service Unavailable")


@_fault
def points_to_another_host(handler: Any) -> None:
    handler.head("Location: http://127.0.0.1:1/metrics", "Content-Length: 0", status="302 Found")


@_fault
def points_away_with_the_key(handler: Any) -> None:
    key = handler.headers.get("Authorization", "").removeprefix("Bearer ")
    place = f"http://{key}:{key}@127.0.0.1:1/{key}?k={key}"
    handler.head(f"Location: {place}", "Content-Length: 0", status="302 Found")


@_fault
def points_to_a_file(handler: Any) -> None:
    handler.head("Location: file:///etc/passwd", "Content-Length: 0", status="302 Found")


@_fault
def points_to_nonsense(handler: Any) -> None:
    handler.head("Location: http://[::1:99999/", "Content-Length: 0", status="301 Moved")


@_fault
def points_to_itself(handler: Any) -> None:
    handler.head(f"Location: {handler.path}", "Content-Length: 0", status="307 Temporary")


@_fault
def answers_deep_json(handler: Any) -> None:
    handler.body(b"[" * 500_000)


@_fault
def answers_null(handler: Any) -> None:
    handler.body(b"null")


@_fault
def answers_a_list(handler: Any) -> None:
    handler.body(b'[{"data": 1}]')


@_fault
def answers_other_types(handler: Any) -> None:
    handler.body(b'{"data": {"id": 5}, "choices": 7, "version": [1], "usage": "many"}')


@_fault
def answers_numbers_that_are_none(handler: Any) -> None:
    handler.body(b'{"data": [NaN, Infinity, -1e999, ' + b"9" * 5_000 + b"]}")
