"""A connection that ends by a deadline at every stage: resolving, connecting, shaking hands."""

from __future__ import annotations

import http.client
import queue
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import Any

from capplan.profiles.server_address import ServerAddress

SHORTEST_S = 0.001
"""Of a time-out: 0 would mean none, and below 0 is an error."""


class Line:
    """The socket of one exchange, which the watchdog may cut at any moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_cut = False

    def hold(self, opened: socket.socket) -> None:
        """Take the socket that is cut when time is up; it may be up already."""
        with self._lock:
            self._socket = opened
            if self.is_cut:
                _shut(opened)

    def cut(self) -> None:
        """End the exchange: whoever reads or writes gets an end or an error."""
        with self._lock:
            self.is_cut = True
            if self._socket is not None:
                _shut(self._socket)

    def limit_silence(self, idle_s: float | None) -> None:
        """Let a read fail after so long without a byte."""
        with self._lock, suppress(OSError):  # closed already: the next read says so
            if self._socket is not None and idle_s is not None:
                self._socket.settimeout(idle_s)


class Connection(http.client.HTTPConnection):
    """A connection whose every stage ends by the deadline."""

    def __init__(self, address: ServerAddress, line: Line, deadline_s: float) -> None:
        super().__init__(address.host, address.port)
        self.default_port = 443 if address.scheme == "https" else 80
        self._address, self._line, self._deadline_s = address, line, deadline_s

    def connect(self) -> None:
        """Resolve the name, connect and, for https, shake hands."""
        self.sock = self._connected()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._address.scheme == "https":
            self._encrypt()

    def _connected(self) -> socket.socket:
        failure: OSError = ConnectionError("its name has no address")
        for family, kind, protocol, _, place in _resolved(self._address, self._left_s()):
            opened = socket.socket(family, kind, protocol)
            opened.settimeout(self._left_s())
            self._line.hold(opened)
            try:
                opened.connect(place)
            except OSError as error:
                failure = error
                opened.close()
            else:
                return opened
        raise failure

    def _encrypt(self) -> None:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        wrapped = context.wrap_socket(
            self.sock, server_hostname=self._address.host, do_handshake_on_connect=False
        )
        self.sock = wrapped
        self._line.hold(wrapped)  # a handshake can be dripped too
        wrapped.do_handshake()

    def _left_s(self) -> float:
        return max(self._deadline_s - time.monotonic(), SHORTEST_S)


def _resolved(address: ServerAddress, timeout_s: float) -> list[Any]:
    """Return the addresses of a name; a resolver may take minutes, so it is not waited for."""
    place = address.host, address.port
    with suppress(OSError):
        return socket.getaddrinfo(*place, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    found: queue.SimpleQueue[list[Any] | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found.put(list(socket.getaddrinfo(*place, type=socket.SOCK_STREAM)))
        except (OSError, UnicodeError) as error:
            found.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = found.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _shut(opened: socket.socket) -> None:
    with suppress(OSError):  # not connected yet, or closed already
        # Not the method of a TLS socket: it drops what another thread is reading from.
        socket.socket.shutdown(opened, socket.SHUT_RDWR)
