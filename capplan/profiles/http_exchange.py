"""One exchange over HTTP with a server that may be anything: bounded in time and in size.

The standard library does it: ``http.client`` follows no redirect, unpacks nothing and knows no
proxy, which is just what is wanted here. What it lacks is added: a deadline that holds whatever
the server does, name resolution and the TLS handshake included; a limit of silence; limits of
size; and the key is struck out of whatever comes back, so that no server can echo it into a file.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from capplan.errors import RequestError, ServerError
from capplan.profiles.http_connection import SHORTEST_S, Connection, Line
from capplan.profiles.server_address import ServerAddress, is_plain

MAX_LINE_BYTES = 2**20
_CHUNK_BYTES = 64 * 2**10
_SHORTEST_KEY = 6
"""A shorter key than this would be found in half of all answers by chance."""
_STRUCK_OUT = b"***"


class Incoming:
    """The head of an answer, and its body in bounded pieces."""

    def __init__(
        self,
        address: ServerAddress,
        response: http.client.HTTPResponse,
        deadline_s: float,
        key: str | None,
        limit_silence: Callable[[], None],
    ) -> None:
        self._address = address
        self._response = response
        self._deadline_s = deadline_s
        self._limit_silence = limit_silence
        self._key = key.encode() if key and len(key) >= _SHORTEST_KEY else None
        self.status = response.status

    def header(self, name: str) -> str:
        """Return a header's value; empty where there is none."""
        value = self._response.headers.get(name, "")
        return self._without_key(value.encode("utf-8", "replace")).decode("utf-8", "replace")

    def whole(self, limit_bytes: int) -> bytes:
        """Return the body.

        Raises
        ------
        ServerError
            If it is larger than allowed, or ended before its end.
        """
        self._limit_silence()
        parts, size = [], 0
        while part := self._response.read1(_CHUNK_BYTES):
            size += len(part)
            if size > limit_bytes:
                raise ServerError(
                    f"{self._address} answers with more than {_in_words(limit_bytes)}.",
                    "Check the address: an engine answers with far less.",
                )
            self._check_time()
            parts.append(part)
        if self._response.length:
            raise ServerError(
                f"{self._address} broke off {self._response.length} bytes before the end of its "
                "answer.",
                "Try again; if it stays so, look at the server's log.",
            )
        return self._without_key(b"".join(parts))

    def beginning(self, size_bytes: int) -> bytes:
        """Return the first bytes of the body: enough to say what it is."""
        return self._without_key(self._response.read(size_bytes))

    def lines(self, limit_bytes: int) -> Iterator[bytes]:
        """Yield the body line by line as it arrives; the first may keep a queue's time waiting.

        Raises
        ------
        ServerError
            If a line or all of them together are larger than allowed.
        """
        size = 0
        while line := self._response.readline(MAX_LINE_BYTES + 1):
            size += len(line)
            if len(line) > MAX_LINE_BYTES or size > limit_bytes:
                raise ServerError(
                    f"{self._address} streams more than a text can be.",
                    "Check the address: it should be an inference server's.",
                )
            self._check_time()
            self._limit_silence()
            yield self._without_key(line.strip())

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline_s:
            raise too_slow(self._address)

    def _without_key(self, content: bytes) -> bytes:
        return content.replace(self._key, _STRUCK_OUT) if self._key else content


@contextmanager
def exchange(
    address: ServerAddress,
    method: str,
    target: str,
    *,
    deadline_s: float,
    idle_s: float | None = None,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    api_key: str | None = None,
) -> Iterator[Incoming]:
    """Open one exchange and yield the answer's head; closed, come what may, at the deadline.

    A time-out of the socket alone would not do: it starts anew with every byte, so that a server
    could drip an answer for ever. The deadline shuts the connection down from outside.

    Parameters
    ----------
    address, method, target, body, headers
        What is asked of whom.
    deadline_s
        Of the monotonic clock; everything is over by then.
    idle_s
        Longest silence within a body that has begun; None: up to the deadline.
    api_key
        Sent as a bearer token.

    Raises
    ------
    ServerError
        If the server does not answer, or not in time, or not in HTTP.
    RequestError
        If the key cannot stand in a header.
    """
    key = checked_key(api_key)
    line = Line()
    connection = Connection(address, line, deadline_s)
    watchdog = threading.Timer(max(deadline_s - time.monotonic(), SHORTEST_S), line.cut)
    watchdog.daemon = True
    watchdog.start()
    try:
        connection.request(method, target, body=body, headers=_headers(headers, key))
        # Closed by itself: a connection that the server wants to end hands its socket over to it.
        with connection.getresponse() as response:
            _check_coding(address, response)
            yield Incoming(address, response, deadline_s, key, lambda: line.limit_silence(idle_s))
        if line.is_cut:
            raise too_slow(address)
    except ServerError as error:
        if line.is_cut:  # what looks like a broken answer was cut by the watchdog
            raise too_slow(address) from error
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _explained(address, error, line, idle_s) from error
    finally:
        watchdog.cancel()
        connection.close()


def checked_key(api_key: str | None) -> str | None:
    """Return a key as it can be sent; blanks around it, such as a file's last line feed, go.

    Raises
    ------
    RequestError
        If it cannot stand in a header. The key itself is never repeated.
    """
    key = (api_key or "").strip()
    if key and not is_plain(key):
        raise RequestError(
            "The key holds characters that no HTTP header can carry.",
            "Put the key alone, without quotes or line feeds, into CAPPLAN_API_KEY.",
        )
    return key or None


def too_slow(address: ServerAddress) -> ServerError:
    """Return the error of an answer that was not whole at the deadline."""
    return ServerError(
        f"{address} did not finish its answer in time.",
        "Look at the server's load, or at what stands between.",
    )


def _headers(extra: Mapping[str, str] | None, key: str | None) -> dict[str, str]:
    headers = {"User-Agent": "capplan", "Accept-Encoding": "identity", **(extra or {})}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _check_coding(address: ServerAddress, response: http.client.HTTPResponse) -> None:
    """Refuse a packed answer: a few bytes may unpack to any size."""
    coding = response.headers.get("Content-Encoding", "identity").lower()
    if coding not in ("identity", ""):
        raise ServerError(
            f"{address} answers in the coding {coding[:40]!r}, although none was allowed.",
            "Ask the server itself, not a proxy that packs answers.",
        )


def _explained(
    address: ServerAddress, error: Exception, line: Line, idle_s: float | None
) -> ServerError:
    if line.is_cut or (isinstance(error, TimeoutError) and idle_s is None):
        return too_slow(address)
    if isinstance(error, TimeoutError):
        return ServerError(
            f"{address} sent nothing for {idle_s:g} s in the middle of its answer.",
            "Look at the server's load, or at what stands between.",
        )
    if isinstance(error, http.client.IncompleteRead):
        return ServerError(
            f"{address} broke off in the middle of its answer.",
            "Try again; if it stays so, look at the server's log.",
        )
    return ServerError(
        f"{address} does not answer: {_reason(error)}.",
        "Check the address and that the server is up.",
    )


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return "the encrypted connection failed"
    if isinstance(error, ConnectionError):
        return "it closed the connection"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"this is not HTTP ({type(error).__name__})"


def _in_words(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.0f} MiB"
