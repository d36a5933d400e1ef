"""Asking one server over HTTP, within limits of time and size.

The standard library does it: ``http.client`` follows no redirect and unpacks nothing, which is
just what is wanted towards an address that may turn out to be anything, and ``capplan watch``
then needs no further package.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from capplan.errors import RequestError, ServerError

MAX_ANSWER_BYTES = 32 * 2**20
"""A scrape of an engine is below 1 MB; a server with hundreds of models stays below this."""
ANSWER_TIMEOUT_S = 10.0
_SAME_PLACE_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_SUFFIXES = ("/metrics", "/v1/chat/completions", "/v1/completions", "/v1/models", "/v1")
METRICS_PATHS = ("/metrics", "/prometheus/metrics")
"""Where engines show their metrics; the second is TensorRT-LLM's."""
_CHUNK_BYTES = 64 * 2**10


@dataclass(frozen=True)
class ServerAddress:
    """Where a server listens; what is asked of it starts with this and goes nowhere else."""

    scheme: str
    host: str
    port: int
    prefix: str = ""
    """Path before ``/metrics`` and ``/v1``, without a closing slash."""

    def __str__(self) -> str:
        """Return the address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme] == self.port
        return f"{self.scheme}://{host}{'' if usual else f':{self.port}'}{self.prefix}"


@dataclass(frozen=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes
    content_type: str = ""

    @property
    def text(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.body.decode("utf-8", errors="replace")


def parse_address(url: str) -> ServerAddress:
    """Read a server's address.

    Raises
    ------
    RequestError
        For another scheme than http and https, credentials in the URL, or no host.
    """
    spelled = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(spelled)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise RequestError(f"{url!r} is no address of a server: {error}.", _EXAMPLE) from error
    if parts.scheme not in ("http", "https"):
        raise RequestError(f"Only http and https are spoken, not {parts.scheme!r}.", _EXAMPLE)
    if parts.username is not None or parts.password is not None:
        raise RequestError(
            "The address holds credentials, which would end up in files.",
            "Put the key into the environment variable CAPPLAN_API_KEY.",
        )
    if not host or parts.query or parts.fragment or not _is_plain(host + parts.path):
        raise RequestError(f"{url!r} is no address of a server.", _EXAMPLE)
    path = parts.path.rstrip("/")
    for suffix in _SUFFIXES:
        path = path.removesuffix(suffix)
    return ServerAddress(
        parts.scheme, host, port or {"http": 80, "https": 443}[parts.scheme], path.rstrip("/")
    )


_EXAMPLE = "Give it as http://localhost:8000."


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def get_metrics(
    address: ServerAddress, *, api_key: str | None = None, timeout_s: float = ANSWER_TIMEOUT_S
) -> str:
    """Return the server's metrics text.

    Raises
    ------
    ServerError
        If it does not answer in time, or with something else.
    """
    refused = []
    for path in METRICS_PATHS:
        answer = get(address, path, api_key=api_key, timeout_s=timeout_s)
        if answer.status == 200:
            return answer.text
        refused.append(f"{path} {answer.status}")
        if answer.status not in (404, 405):
            break
    raise ServerError(
        f"{address} does not show its metrics ({', '.join(refused)}).",
        _metrics_remedy(int(refused[-1].split()[-1])),
    )


def _metrics_remedy(status: int) -> str:
    if status in (401, 403):
        return "Give the key in the environment variable CAPPLAN_API_KEY."
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
                body = _whole_body(address, answer, deadline_s)
                return Answer(answer.status, body, answer.headers.get("Content-Type", ""))
            target = _redirected(address, target, answer.headers.get("Location", ""))
    raise ServerError(f"{address} redirects in circles.", _GIVE_FINAL)


_GIVE_FINAL = "Give the address that the server finally has."


@contextmanager
def exchange(
    address: ServerAddress,
    method: str,
    target: str,
    *,
    deadline_s: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    api_key: str | None = None,
) -> Iterator[http.client.HTTPResponse]:
    """Open one exchange and yield the answer's head; closed, come what may, at the deadline.

    A time-out of the socket alone would not do: it starts anew with every byte, so that a server
    could drip an answer for ever. The deadline shuts the connection down from outside.
    """
    remaining_s = max(deadline_s - time.monotonic(), 0.001)
    connection = _connection(address, remaining_s)
    ended = threading.Event()
    sockets: list[socket.socket] = []

    def end() -> None:
        ended.set()
        # The connection forgets its socket once the head of a last answer is read.
        for open_socket in sockets:
            _shut(open_socket)

    watchdog = threading.Timer(remaining_s, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.connect()
        sockets.append(connection.sock)
        connection.request(method, target, body=body, headers=_headers(headers, api_key))
        answer = connection.getresponse()
        _check_coding(address, answer)
        yield answer
        if ended.is_set():
            raise _too_slow(address)
    except ServerError as error:
        if ended.is_set():  # what looks like a broken answer was cut by the watchdog
            raise _too_slow(address) from error
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        if ended.is_set() or isinstance(error, TimeoutError):
            raise _too_slow(address) from error
        raise ServerError(
            f"{address} does not answer: {_reason(error)}.",
            "Check the address and that the server is up.",
        ) from error
    finally:
        watchdog.cancel()
        connection.close()


def _check_coding(address: ServerAddress, answer: http.client.HTTPResponse) -> None:
    """Refuse a packed answer: a few bytes may unpack to any size."""
    coding = answer.headers.get("Content-Encoding", "identity").lower()
    if coding not in ("identity", ""):
        raise ServerError(
            f"{address} answers in the coding {coding!r}, although none was allowed.",
            "Ask the server itself, not a proxy that packs answers.",
        )


def _connection(address: ServerAddress, timeout_s: float) -> http.client.HTTPConnection:
    if address.scheme == "https":
        return http.client.HTTPSConnection(
            address.host,
            address.port,
            timeout=timeout_s,
            context=ssl.create_default_context(),
        )
    return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s)


def _headers(extra: Mapping[str, str] | None, api_key: str | None) -> dict[str, str]:
    headers = {"User-Agent": "capplan", "Accept-Encoding": "identity", **(extra or {})}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return headers


def _shut(open_socket: socket.socket) -> None:
    try:
        open_socket.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already


def _whole_body(
    address: ServerAddress, answer: http.client.HTTPResponse, deadline_s: float
) -> bytes:
    parts, size = [], 0
    while part := answer.read1(_CHUNK_BYTES):
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise ServerError(
                f"{address} answers with more than {MAX_ANSWER_BYTES / 2**20:.0f} MiB.",
                "Check the address: an engine's metrics are far smaller.",
            )
        if time.monotonic() > deadline_s:
            raise _too_slow(address)
        parts.append(part)
    if answer.length:
        raise ServerError(
            f"{address} broke off {answer.length} bytes before the end of its answer.",
            "Try again; if it stays so, look at the server's log.",
        )
    return b"".join(parts)


def _redirected(address: ServerAddress, target: str, location: str) -> str:
    here = f"{address.scheme}://{address.host}:{address.port}{target}"
    there = urlsplit(urljoin(here, location))
    port = there.port or {"http": 80, "https": 443}.get(there.scheme, 0)
    if (there.scheme, there.hostname, port) != (address.scheme, address.host, address.port):
        raise ServerError(
            f"{address} points to another server: {there.scheme}://{there.netloc}.",
            "Nothing is sent anywhere but to the address given; give that one if you mean it.",
        )
    return there.path or "/"


def _too_slow(address: ServerAddress) -> ServerError:
    return ServerError(
        f"{address} did not finish its answer in time.",
        "Look at the server's load, or at what stands between.",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, ConnectionError):
        return "it closed the connection"
    if isinstance(error, http.client.HTTPException):
        return f"this is not HTTP ({type(error).__name__})"
    return str(error) or type(error).__name__
