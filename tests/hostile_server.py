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


FAULTS: dict[str, Fault] = {}


def _fault(function: Fault) -> Fault:
    FAULTS[function.__name__] = function
    return function


@_fault
def never_answers(handler: Handler) -> None:
    time.sleep(LONGEST_S)


@_fault
def closes_at_once(handler: Handler) -> None:
    return


@_fault
def closes_in_its_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Len")


@_fault
def speaks_no_http(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")


@_fault
def speaks_garbage(handler: Handler) -> None:
    handler.wfile.write(bytes(range(256)) * 64)


@_fault
def answers_garbage(handler: Handler) -> None:
    handler.body(bytes(range(256)) * 64)


@_fault
def answers_text_that_is_no_utf8(handler: Handler) -> None:
    handler.body(b"\xff\xfe\x80vllm:num_requests_running 1 \xc3\x28\n" * 20)


@_fault
def drips_its_head(handler: Handler) -> None:
    handler.repeat(b"X", PAUSE_S)


@_fault
def drips_its_body(handler: Handler) -> None:
    handler.head("Content-Length: 1000000")
    handler.repeat(b" ", PAUSE_S)


@_fault
def drips_to_the_close(handler: Handler) -> None:
    handler.head("Connection: close")
    handler.repeat(b" ", PAUSE_S)


@_fault
def drips_chunks(handler: Handler) -> None:
    handler.head("Transfer-Encoding: chunked")
    handler.repeat(b"1\r\n \r\n", PAUSE_S)


@_fault
def falls_silent(handler: Handler) -> None:
    handler.head("Content-Length: 1000000")
    handler.wfile.write(b"{")
    handler.wfile.flush()
    time.sleep(LONGEST_S)


@_fault
def closes_in_the_middle(handler: Handler) -> None:
    handler.head("Content-Length: 1000000")
    handler.wfile.write(b'{"data": [')


@_fault
def closes_in_a_chunk(handler: Handler) -> None:
    handler.head("Transfer-Encoding: chunked")
    handler.wfile.write(b"64\r\nvllm:num_requests_running 1\n")


@_fault
def says_too_short_a_length(handler: Handler) -> None:
    handler.head("Content-Length: 4")
    handler.wfile.write(b'{"data": [{"id": "m"}]}')


@_fault
def says_a_negative_length(handler: Handler) -> None:
    handler.head("Content-Length: -5")
    handler.wfile.write(b'{"data": ')


@_fault
def says_no_chunk_size(handler: Handler) -> None:
    handler.head("Transfer-Encoding: chunked")
    handler.wfile.write(b"zz\r\nabc\r\n")


@_fault
def says_a_huge_chunk(handler: Handler) -> None:
    handler.head("Transfer-Encoding: chunked")
    handler.wfile.write(b"ffffffffffffffff\r\n")
    handler.repeat(b" ", PAUSE_S)


@_fault
def sends_a_huge_header(handler: Handler) -> None:
    handler.head(f"X-Big: {'a' * 200_000}", "Content-Length: 0")


@_fault
def sends_many_headers(handler: Handler) -> None:
    handler.head(*(f"X-{n}: y" for n in range(5_000)), "Content-Length: 0")


@_fault
def sends_headers_without_end(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    handler.repeat(b"X-More: y\r\n" * 100)


@_fault
def says_continue_without_end(handler: Handler) -> None:
    handler.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


@_fault
def sends_trailers_without_end(handler: Handler) -> None:
    handler.head("Transfer-Encoding: chunked")
    handler.wfile.write(b"0\r\n")
    handler.repeat(b"X-More: y\r\n" * 100)


@_fault
def answers_without_end(handler: Handler) -> None:
    handler.head("Connection: close")
    handler.repeat(b"vllm:num_requests_running 1\n" * 10_000)


@_fault
def sends_a_gzip_bomb(handler: Handler) -> None:
    handler.body(base.BOMB, "Content-Encoding: gzip")


@_fault
def sends_a_bomb_as_transfer(handler: Handler) -> None:
    handler.head("Transfer-Encoding: gzip", "Connection: close")
    handler.wfile.write(gzip.compress(bytes(10_000_000), compresslevel=1))


FAULTS |= _sibling("hostile_answers").FAULTS
FAULTS |= _sibling("hostile_streams").FAULTS
FAULTS["echoes_what_was_sent"] = lambda handler: handler.echo("400 Bad Request")
FAULTS["echoes_as_success"] = lambda handler: handler.echo("200 OK")
