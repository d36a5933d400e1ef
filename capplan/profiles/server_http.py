"""What is read of a server by GET: its metrics, its model, its version.

See :mod:`capplan.profiles.http_exchange` for the limits that hold for every exchange.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from capplan.errors import ServerError
from capplan.profiles.http_exchange import Incoming, checked_key, exchange
from capplan.profiles.server_address import ServerAddress, parse_address, redirected

__all__ = [
    "ANSWER_TIMEOUT_S",
    "MAX_ANSWER_BYTES",
    "METRICS_PATHS",
    "Answer",
    "Incoming",
    "ServerAddress",
    "asked_to_wait",
    "checked_key",
    "exchange",
    "get",
    "get_metrics",
    "parse_address",
]

MAX_ANSWER_BYTES = 32 * 2**20
"""A scrape of an engine is below 1 MB; a server with hundreds of models stays below this."""
ANSWER_TIMEOUT_S = 10.0
METRICS_PATHS = ("/metrics", "/prometheus/metrics")
"""Where engines show their metrics; the second is TensorRT-LLM's."""
_SAME_PLACE_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_LONGEST_WAIT_S = 86_400


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    content_type: str = ""
    wait: str = ""
    """What the server asks for where it is overloaded: `` and asks to wait 30 s``."""

    @property
    def text(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.body.decode("utf-8", errors="replace")


def get_metrics(
    address: ServerAddress, *, api_key: str | None = None, timeout_s: float = ANSWER_TIMEOUT_S
) -> str:
    """Return the server's metrics text.

    Raises
    ------
    ServerError
        If it does not answer in time, or with something else.
    """
    refused, status = [], 0
    for path in METRICS_PATHS:
        answer = get(address, path, api_key=api_key, timeout_s=timeout_s)
        if answer.status == 200:
            return answer.text
        status = answer.status
        refused.append(f"{path} {status}{answer.wait}")
        if status not in (404, 405):
            break
    raise ServerError(
        f"{address} does not show its metrics ({', '.join(refused)}).",
        _metrics_remedy(status),
    )


def _metrics_remedy(status: int) -> str:
    if status in (401, 403):
        return "Give the key in the environment variable CAPPLAN_API_KEY."
    if status == 429:
        return "Ask less often (--interval)."
    if status >= 500:
        return "Look at the server's log."
    return "vLLM shows them by itself; SGLang needs --enable-metrics, llama.cpp needs --metrics."


def get(
    address: ServerAddress,
    path: str,
    *,
    api_key: str | None = None,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> Answer:
    """Ask for a path of the server; redirects are followed to the same host and port only.

    Raises
    ------
    ServerError
        If the server does not answer in time, answers too much, or points elsewhere.
    """
    target = address.prefix + path
    deadline_s = time.monotonic() + timeout_s
    for _ in range(_SAME_PLACE_REDIRECTS + 1):
        with exchange(address, "GET", target, api_key=api_key, deadline_s=deadline_s) as answer:
            if answer.status not in _REDIRECTS:
                body = answer.whole(MAX_ANSWER_BYTES)
                kind = answer.header("Content-Type")
                return Answer(answer.status, body, kind, asked_to_wait(answer))
            target = redirected(address, target, answer.header("Location"))
    raise ServerError(
        f"{address} redirects in circles.", "Give the address that the server finally has."
    )


def asked_to_wait(answer: Incoming) -> str:
    """Return what an overloaded server asks for, as a clause; it is told, never obeyed.

    Waiting as long as a server says would let it hold a run for as long as it likes, and under a
    load of our own an overload is what was to be found out.
    """
    seconds = answer.header("Retry-After").strip()
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) <= 5):
        return ""
    known = answer.status in (429, 500, 502, 503) and int(seconds) <= _LONGEST_WAIT_S
    return f" and asks to wait {int(seconds)} s" if known else ""
