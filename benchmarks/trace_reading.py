"""Rows a second of reading traces: ``benchmarks/trace_reading.py [ROWS] [--format json]``."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from capplan.workloads.trace_file import read_trace

_REPEATS = 3


def _write(folder: Path, rows: int) -> list[Path]:
    """Write the same week of requests in every layout."""
    rng = np.random.default_rng(0)
    seconds = np.sort(rng.random(rows)) * 7 * 86400
    prompts = rng.lognormal(7, 1, rows).astype(int) + 1
    outputs = rng.lognormal(5, 1, rows).astype(int) + 1
    moments = np.datetime64("2024-05-10T00:00:00") + (seconds * 1e6).astype("timedelta64[us]")
    iso = [str(moment).replace("T", " ") for moment in moments]
    azure, burst = (
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type",
    )
    lines: dict[str, tuple[str, Callable[[int], str]]] = {
        "azure-2023.csv": (azure, lambda i: f"{iso[i]}0,{prompts[i]},{outputs[i]}"),
        "azure-2024.csv": (azure, lambda i: f"{iso[i]}+00:00,{prompts[i]},{outputs[i]}"),
        "burstgpt.csv": (
            burst,
            lambda i: (
                f"{int(seconds[i])},ChatGPT,{prompts[i]},{outputs[i]},"
                f"{prompts[i] + outputs[i]},Conversation log"
            ),
        ),
        "quoted.csv": (azure, lambda i: f'"{iso[i]}",{prompts[i]},{outputs[i]}'),
        "own.jsonl": (
            "",
            lambda i: (
                f'{{"timestamp": {seconds[i]:.3f}, "prompt_tokens": {prompts[i]}, '
                f'"output_tokens": {outputs[i]}}}'
            ),
        ),
    }
    paths = []
    for name, (header, line) in lines.items():
        path = folder / name
        body = "\n".join(map(line, range(rows)))
        path.write_text((f"{header}\n" if header else "") + body + "\n")
        paths.append(path)
    return paths


def _rows_per_cpu_s(path: Path) -> float:
    best = float("inf")
    for _ in range(_REPEATS):
        begin = time.process_time()
        rows = read_trace(path).rows
        best = min(best, time.process_time() - begin)
    return rows / best


def main() -> None:
    """Print a line, or a key, a layout."""
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    with tempfile.TemporaryDirectory() as folder:
        paths = _write(Path(folder), int(numbers[0]) if numbers else 300_000)
        found = {path.name: _rows_per_cpu_s(path) for path in paths}
    if "json" in sys.argv:
        print(json.dumps({f"{name} rows_per_cpu_s": round(rate) for name, rate in found.items()}))
        return
    for name, rate in found.items():
        print(f"{name:<16}{rate:>12,.0f} rows a second of one core")


if __name__ == "__main__":
    main()
