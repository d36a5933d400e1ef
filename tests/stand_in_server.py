"""An HTTP server on loopback that stands in for an inference engine, well behaved or not.

It speaks real HTTP and keeps vLLM's counters; what it writes is made up. It serves to test how
capplan behaves towards servers that a real engine would not be: slow, broken, hostile.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

METRICS = "text/plain; version=0.0.4"
SSE = "text/event-stream"
BOMB = gzip.compress(bytes(50_000_000), compresslevel=1)


@dataclass
class Counters:
    """What the engine counted since it started."""

    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    output: int = 0
    prompt: int = 0
    requests: int = 0
    steps: int = 0
    step_s: float = 0.0

    def text(self, model: str) -> str:
        """Return the metrics text."""
        label = f'engine="0",model_name="{model}"'
        return "\n".join(
            [
                f"vllm:spec_decode_num_drafts_total{{{label}}} {self.drafts}",
                f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {self.drafted}",
                f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {self.accepted}",
                f"vllm:generation_tokens_total{{{label}}} {self.output}",
                f"vllm:prompt_tokens_total{{{label}}} {self.prompt}",
                f'vllm:request_success_total{{{label},finished_reason="stop"}} {self.requests}',
                f"vllm:num_requests_running{{{label}}} 1",
                f"vllm:num_requests_waiting{{{label}}} 0",
                f"vllm:kv_cache_usage_perc{{{label}}} 0.5",
                f"vllm:time_to_first_token_seconds_count{{{label}}} {self.requests}",
                f"vllm:time_to_first_token_seconds_sum{{{label}}} {self.requests * 0.01}",
                f"vllm:inter_token_latency_seconds_count{{{label}}} {self.steps}",
                f"vllm:inter_token_latency_seconds_sum{{{label}}} {self.step_s}",
                'vllm:cache_config_info{block_size="16",kv_cache_size_tokens="4096"} 1.0',
                "",
            ]
        )


@dataclass
class StandIn:
    """One server; change ``mode`` or ``counters`` while it runs."""

    mode: str = "good"
    model: str = "Qwen/Qwen3-8B"
    rounds: int = 5
    """Rounds a request: each drafts 3 tokens and accepts 1, so that 2 come out."""
    step_s: float = 0.002
    counters: Counters = field(default_factory=Counters)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    """(method, path, authorization) of every request."""
    redirect_to: str = ""
    hooks: dict[tuple[str, int], Callable[[], object]] = field(default_factory=dict)
    """What happens before the n-th request with a method is answered."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> StandIn:
        self.server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self})
        )
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_port}"

    def note(self, method: str, path: str, key: str) -> None:
        """Remember a request and do what is to happen before it is answered."""
        with self.lock:
            self.seen.append((method, path, key))
            count = sum(one[0] == method for one in self.seen)
        self.hooks.get((method, count), lambda: None)()

    def set_mode(self, mode: str) -> Callable[[], None]:
        """Return what changes the mode when it is called."""
        return lambda: setattr(self, "mode", mode)

    def serve_one(self) -> None:
        """Count one request as an engine would."""
        with self.lock:
            done, n = self.counters, self.rounds
            done.drafts += n
            done.drafted += 3 * n
            done.accepted += n
            done.steps += n
            done.step_s += n * self.step_s
            done.output += 1 + 2 * n
            done.prompt += 7
            done.requests += 1

    def restart(self) -> None:
        """Begin to count anew."""
        with self.lock:
            self.counters = Counters()


class _Handler(BaseHTTPRequestHandler):
    owner: StandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.owner.note("GET", self.path, self.headers.get("Authorization", ""))
        odd = getattr(self, f"odd_{self.owner.mode.replace('-', '_')}", None)
        if odd is not None:
            odd()
        elif self.path == "/metrics":
            self.answer(self.owner.counters.text(self.owner.model).encode(), METRICS)
        elif self.path == "/v1/models":
            rows = [{"id": self.owner.model, "max_model_len": 1024}]
            self.answer(json.dumps({"data": rows}).encode())
        elif self.path == "/version":
            self.answer(b'{"version": "0.33.0"}')
        else:
            self.answer(b"{}", status=404)

    def do_POST(self) -> None:
        self.owner.note("POST", self.path, self.headers.get("Authorization", ""))
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.owner.mode == "refuses":
            self.answer(b'{"error": "overloaded"}', status=503)
        elif body.get("stream"):
            self.stream(body)
        else:
            self.answer(b'{"choices": [{"text": "no ids here"}]}')

    def answer(self, body: bytes, kind: str = "application/json", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, body: dict) -> None:
        self.send_response(200)
        self.send_header("Content-Type", SSE)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        key = "delta" if "messages" in body else "text"
        for number in range(self.owner.rounds + 1):
            text = {"content": "ab "} if key == "delta" else "ab "
            reason = "stop" if number == self.owner.rounds else None
            self.event({"choices": [{key: text, "finish_reason": reason}]})
            time.sleep(self.owner.step_s)
            if self.owner.mode == "breaks-off" and number == 1:
                return
        self.owner.serve_one()
        tokens = 1 + 2 * self.owner.rounds
        usage = {"prompt_tokens": 7, "completion_tokens": tokens}
        told = {
            "per_step_drafted": [3] * self.owner.rounds,
            "per_step_accepted": [1] * self.owner.rounds,
            "num_spec_tokens": 3,
        }
        if self.owner.mode != "no-usage":
            last = {"choices": [], "usage": usage, "metrics": {"speculative_decoding": told}}
            self.event(last)
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, document: dict) -> None:
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")
        self.wfile.flush()

    def odd_garbage(self) -> None:
        self.answer(bytes(range(256)) * 40, METRICS)

    def odd_no_http(self) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")
        self.close_connection = True

    def odd_html(self) -> None:
        self.answer(b"<html><body>Welcome</body></html>", "text/html")

    def odd_error(self) -> None:
        self.answer(b"oops", status=500)

    def odd_locked(self) -> None:
        self.answer(b"who are you?", status=401)

    def odd_missing(self) -> None:
        self.answer(b"", status=404)

    def odd_redirects(self) -> None:
        if self.path.endswith("/there"):
            self.answer(self.owner.counters.text(self.owner.model).encode(), METRICS)
            return
        self.send_response(307)
        self.send_header("Location", self.owner.redirect_to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def odd_drips(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.drip(b"a")

    def odd_drips_to_the_close(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.drip(b"a")

    def odd_drips_its_head(self) -> None:
        self.drip(b"X")

    def drip(self, byte: bytes) -> None:
        self.close_connection = True
        try:
            for _ in range(400):
                self.wfile.write(byte)
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    def odd_hangs(self) -> None:
        self.close_connection = True
        time.sleep(3)

    def odd_endless(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        line = b"vllm:num_requests_running 1\n" * 40_000
        try:
            while True:
                self.wfile.write(line)
        except OSError:
            return

    def odd_gzip_bomb(self) -> None:
        body = BOMB
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = True
        try:
            self.wfile.write(body)
        except OSError:
            return

    def odd_cut_short(self) -> None:
        body = self.owner.counters.text(self.owner.model).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = True
        self.wfile.write(body[: len(body) // 2])
