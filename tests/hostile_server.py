"""An HTTP server on loopback that goes wrong on purpose, in every way that one can.

It answers well until told to misbehave; a fault is a function that writes to the socket.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONGEST_S = 150.0
"""After this the server stops by itself; a client must have gone long before."""
PAUSE_S = 0.05


def _sibling(name: str) -> Any:
    """Return a module of this folder, which is on no path (import-mode=importlib)."""
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


base = _sibling("stand_in_server")
Fault = Callable[["Handler"], None]


@dataclass
class Hostile(base.StandIn):
    """A stand-in with a fault for each method, from its n-th request on."""

    faults: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Method -> (name of the fault, number of the first request that meets it)."""

    def __enter__(self) -> Hostile:
        super().__enter__()
        self.server.RequestHandlerClass = type("Handler", (Handler,), {"owner": self})
        self.server.handle_error = lambda *_: None  # clients hang up on it: that is the point
        return self

    def fault(self, method: str) -> str:
        """Return the fault that the present request meets, or nothing."""
        name, first = self.faults.get(method, ("", 0))
        with self.lock:
            count = sum(one[0] == method for one in self.seen)
        return name if name and count >= first else ""


class Handler(base._Handler):
    """Answers well, or with a fault."""

    owner: Hostile
    longest_s = LONGEST_S
    pause_s = PAUSE_S

    def do_GET(self) -> None:  # noqa: N802 - named so by http.server
        self.owner.note("GET", self.path, self.headers.get("Authorization", ""))
        name = self.owner.fault("GET")
        if name:
            self.misbehave(name)
        elif self.path == "/metrics":
            self.answer(self.owner.counters.text(self.owner.model).encode(), base.METRICS)
        elif self.path == "/v1/models":
            rows = [{"id": self.owner.model, "max_model_len": 1024}]
            self.answer(json.dumps({"data": rows}).encode())
        else:
            self.answer(b'{"version": "0.33.0"}')

    def do_POST(self) -> None:  # noqa: N802 - named so by http.server
        self.owner.note("POST", self.path, self.headers.get("Authorization", ""))
        self.question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = self.owner.fault("POST")
        if name:
            self.misbehave(name)
        elif self.question.get("stream"):
            self.stream(self.question)
        else:
            self.answer(b'{"choices": [{"text": "no ids here"}]}')

    def misbehave(self, name: str) -> None:
        self.close_connection = True
        FAULTS[name](self)

    def head(self, *lines: str, status: str = "200 OK") -> None:
        text = "\r\n".join((f"HTTP/1.1 {status}", *lines, "", ""))
        self.wfile.write(text.encode("latin-1"))
        self.wfile.flush()

    def body(self, content: bytes, *lines: str, status: str = "200 OK") -> None:
        self.head(f"Content-Length: {len(content)}", *lines, status=status)
        self.wfile.write(content)

    def repeat(self, content: bytes, pause_s: float = 0.0) -> None:
        end_s = time.monotonic() + LONGEST_S
        while time.monotonic() < end_s:
            self.wfile.write(content)
            self.wfile.flush()
            time.sleep(pause_s)

    def events(self, *documents: Any) -> None:
        self.head("Content-Type: text/event-stream", "Connection: close")
        for document in documents:
            raw = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.wfile.write(b"data: " + raw + b"\n\n")
        self.wfile.flush()

    def told(self, usage: Any) -> None:
        """Stream a text of two chunks with somebody's idea of its usage."""
        text = {"choices": [{"delta": {"content": "ab"}, "text": "ab", "finish_reason": "stop"}]}
        self.events(text, text, {"choices": [], "usage": usage}, b"[DONE]")

    def echo(self, status: str) -> None:
        """Give back everything that was sent, the key and the prompt included."""
        sent = {"error": {"message": json.dumps(getattr(self, "question", {}))}}
        key = self.headers.get("Authorization", "")
        self.body(json.dumps({**sent, "key": key}).encode(), f"X-Key: {key}", status=status)


LONG, CHUNKED = "Content-Length: 1000000", "Transfer-Encoding: chunked"
TO_THE_CLOSE = "Connection: close"


def _sends(content: bytes, *head: str) -> Fault:
    """Return a fault that writes a head, if it has lines, and raw bytes; then it hangs up."""

    def fault(handler: Handler) -> None:
        if head:
            handler.head(*head)
        handler.wfile.write(content)

    return fault


def _repeats(content: bytes, *head: str, first: bytes = b"", pause_s: float = 0.0) -> Fault:
    """Return a fault that goes on writing the same after what :func:`_sends` would write."""
    begin = _sends(first, *head)

    def fault(handler: Handler) -> None:
        begin(handler)
        handler.repeat(content, pause_s)

    return fault


def _falls_silent(handler: Handler) -> None:
    handler.head(LONG)
    handler.wfile.write(b"{")
    handler.wfile.flush()
    time.sleep(LONGEST_S)


FAULTS: dict[str, Fault] = {
    "never_answers": lambda handler: time.sleep(LONGEST_S),
    "closes_at_once": lambda handler: None,
    "closes_in_its_head": _sends(b"HTTP/1.1 200 OK\r\nContent-Len"),
    "speaks_no_http": _sends(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "speaks_garbage": _sends(bytes(range(256)) * 64),
    "answers_garbage": lambda handler: handler.body(bytes(range(256)) * 64),
    "answers_text_that_is_no_utf8": lambda handler: handler.body(
        b"\xff\xfe\x80vllm:num_requests_running 1 \xc3\x28\n" * 20
    ),
    "drips_its_head": _repeats(b"X", pause_s=PAUSE_S),
    "drips_its_body": _repeats(b" ", LONG, pause_s=PAUSE_S),
    "drips_to_the_close": _repeats(b" ", TO_THE_CLOSE, pause_s=PAUSE_S),
    "drips_chunks": _repeats(b"1\r\n \r\n", CHUNKED, pause_s=PAUSE_S),
    "falls_silent": _falls_silent,
    "closes_in_the_middle": _sends(b'{"data": [', LONG),
    "closes_in_a_chunk": _sends(b"64\r\nvllm:num_requests_running 1\n", CHUNKED),
    "says_too_short_a_length": _sends(b'{"data": [{"id": "m"}]}', "Content-Length: 4"),
    "says_a_negative_length": _sends(b'{"data": ', "Content-Length: -5"),
    "says_no_chunk_size": _sends(b"zz\r\nabc\r\n", CHUNKED),
    "says_a_huge_chunk": _repeats(b" ", CHUNKED, first=b"f" * 16 + b"\r\n", pause_s=PAUSE_S),
    "sends_a_huge_header": _sends(b"", f"X-Big: {'a' * 200_000}", "Content-Length: 0"),
    "sends_many_headers": _sends(b"", *(f"X-{n}: y" for n in range(5_000)), "Content-Length: 0"),
    "sends_headers_without_end": _repeats(b"X-More: y\r\n" * 100, first=b"HTTP/1.1 200 OK\r\n"),
    "says_continue_without_end": _repeats(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "sends_trailers_without_end": _repeats(b"X-More: y\r\n" * 100, CHUNKED, first=b"0\r\n"),
    "answers_without_end": _repeats(b"vllm:num_requests_running 1\n" * 10_000, TO_THE_CLOSE),
    "sends_a_gzip_bomb": lambda handler: handler.body(base.BOMB, "Content-Encoding: gzip"),
    "sends_a_bomb_as_transfer": _sends(
        gzip.compress(bytes(10_000_000), compresslevel=1),
        "Transfer-Encoding: gzip", TO_THE_CLOSE,
    ),
    "echoes_what_was_sent": lambda handler: handler.echo("400 Bad Request"),
    "echoes_as_success": lambda handler: handler.echo("200 OK"),
}  # fmt: skip
FAULTS |= _sibling("hostile_answers").FAULTS
FAULTS |= _sibling("hostile_streams").FAULTS
