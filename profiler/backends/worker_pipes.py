"""What comes out of a worker process, held within bounds: its answers and its log."""

from __future__ import annotations

import os
import queue
import threading
from typing import IO

MAX_ANSWER_BYTES = 64 * 2**20
"""A load of 64 requests with 1,000 tokens each, step by step, takes a few MB."""
KEPT_LOG_BYTES = 2**20
"""Of the beginning and of the end each; an engine that starts up well prints a tenth of it."""
_CHUNK_BYTES = 64 * 2**10
_WAITING_LINES = 64
_LOOK_S = 0.2


class TooMuchError(Exception):
    """A line that is longer than any answer."""


class Lines:
    """Reads lines in the background; only so many wait, so that a flood stops at its source.

    Parameters
    ----------
    stream
        The pipe; it is closed when it ends.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING_LINES)
        self._given_up = threading.Event()
        self._is_over = False
        self._is_too_long = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def next(self, timeout_s: float) -> bytes | None:
        """Return the next line; None once there is no more.

        Raises
        ------
        queue.Empty
            If none comes in time.
        TooMuchError
            If it is longer than any answer.
        """
        if self._is_over:
            return None
        line = self._queue.get(timeout=timeout_s)
        if line is None:
            self._is_over = True
            if self._is_too_long:
                raise TooMuchError
        return line

    def last(self, timeout_s: float) -> bytes | None:
        """Return what was written before the end, if anything was; then there is no more."""
        try:
            return self.next(timeout_s)
        except queue.Empty:
            self._is_over = True
            return None

    def close(self, timeout_s: float) -> None:
        """Stop reading; the other end should be gone by now."""
        self._given_up.set()
        self._thread.join(timeout_s)

    def _read(self) -> None:
        with self._stream:
            while line := self._stream.readline(MAX_ANSWER_BYTES + 1):
                if len(line) > MAX_ANSWER_BYTES:
                    self._is_too_long = True
                    break
                if not self._put(line):
                    return
            self._put(None)

    def _put(self, line: bytes | None) -> bool:
        while not self._given_up.is_set():
            try:
                self._queue.put(line, timeout=_LOOK_S)
            except queue.Full:
                continue
            return True
        return False


class Log:
    """The beginning and the end of what a process prints; what a flood has between is dropped.

    Parameters
    ----------
    stream
        The pipe; it is read at once and always, so that whoever prints never waits.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Return what is kept so far."""
        with self._lock:
            gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
            kept = bytes(self._head) + gap + bytes(self._tail)
        return kept.decode("utf-8", errors="replace")

    def close(self, timeout_s: float) -> None:
        """Wait until all is read; the other end should be gone by now."""
        self._thread.join(timeout_s)

    def _read(self) -> None:
        with self._stream:
            while chunk := os.read(self._stream.fileno(), _CHUNK_BYTES):
                self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        with self._lock:
            room = KEPT_LOG_BYTES - len(self._head)
            self._head += chunk[:room]
            self._tail += chunk[room:] if room > 0 else chunk
            excess = len(self._tail) - KEPT_LOG_BYTES
            if excess > 0:
                del self._tail[:excess]
                self._dropped += excess
