"""Rows a second of reading traces: ``benchmarks/trace_reading.py [ROWS] [--format json]``.

Beside it, what JSON lines take that are only parsed: line by line by the standard library, and by
pandas and pyarrow where they are installed. None of these checks a row or says what is wrong.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from capplan.workloads.trace_file import read_trace

_REPEATS = 3
_PARSED = "own.jsonl"
"""The file that others parse, too."""
Line = Callable[[int], str]


def _layouts(rows: int) -> dict[str, tuple[str, Line]]:
    """Return header and lines of the same week of requests in every layout."""
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

    def own(i: int) -> str:
        return (
            f'{{"timestamp": {seconds[i]:.3f}, "prompt_tokens": {prompts[i]}, '
            f'"output_tokens": {outputs[i]}}}'
        )

    def usage(i: int) -> str:
        return (
            f'{{"created_at": "{iso[i]}+00:00", "model": "a", "usage": '
            f'{{"prompt_tokens": {prompts[i]}, "completion_tokens": {outputs[i]}}}}}'
        )

    def mooncake(i: int) -> str:
        blocks = list(range(i, i + int(prompts[i]) // 512 + 1))
        return (
            f'{{"timestamp": {int(seconds[i] * 1000)}, "input_length": {prompts[i]}, '
            f'"output_length": {outputs[i]}, "hash_ids": {blocks}}}'
        )

    def burstgpt(i: int) -> str:
        total = prompts[i] + outputs[i]
        return f"{int(seconds[i])},ChatGPT,{prompts[i]},{outputs[i]},{total},Conversation log"

    return {
        "azure-2023.csv": (azure, lambda i: f"{iso[i]}0,{prompts[i]},{outputs[i]}"),
        "azure-2024.csv": (azure, lambda i: f"{iso[i]}+00:00,{prompts[i]},{outputs[i]}"),
        "burstgpt.csv": (burst, burstgpt),
        "quoted.csv": (azure, lambda i: f'"{iso[i]}",{prompts[i]},{outputs[i]}'),
        _PARSED: ("", own),
        "usage.jsonl": ("", usage),
        "mooncake.jsonl": ("", mooncake),
        # keys in changing order: every line is parsed as an object
        "unlike.jsonl": ("", lambda i: own(i) if i % 2 else _turned_round(own(i))),
    }


def _turned_round(line: str) -> str:
    """Return the same object with its keys the other way round."""
    return json.dumps(dict(reversed(json.loads(line).items())))


def _write(folder: Path, rows: int) -> dict[str, Path]:
    paths = {}
    for name, (header, line) in _layouts(rows).items():
        paths[name] = folder / name
        body = "\n".join(map(line, range(rows)))
        paths[name].write_text((f"{header}\n" if header else "") + body + "\n")
    return paths


def _rows_per_cpu_s(work: Callable[[], int]) -> float:
    best = float("inf")
    rows = 0
    for _ in range(_REPEATS):
        begin = time.process_time()
        rows = work()
        best = min(best, time.process_time() - begin)
    return rows / best


def _parsers(path: Path) -> Mapping[str, Callable[[], int]]:
    def by_line() -> int:
        with path.open(encoding="utf-8") as lines:
            return sum(1 for _ in map(json.loads, lines))

    found: dict[str, Callable[[], int]] = {"json.loads of each line": by_line}
    try:
        pandas: Any = import_module("pandas")
        found["pandas.read_json(lines=True)"] = lambda: len(pandas.read_json(path, lines=True))
    except ImportError:
        pass
    try:
        arrow: Any = import_module("pyarrow.json")
        options: Any = arrow.ReadOptions(use_threads=False)
        found["pyarrow.json.read_json, one thread"] = lambda: int(
            arrow.read_json(path, read_options=options).num_rows
        )
    except ImportError:
        pass
    return found


def main() -> None:
    """Print a line, or a key, a layout."""
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    with tempfile.TemporaryDirectory() as folder:
        paths = _write(Path(folder), int(numbers[0]) if numbers else 300_000)
        found = {
            name: _rows_per_cpu_s(lambda path=path: read_trace(path).rows)
            for name, path in paths.items()
        }
        others = {name: _rows_per_cpu_s(work) for name, work in _parsers(paths[_PARSED]).items()}
    if "json" in sys.argv:
        both = {**found, **others}
        print(json.dumps({f"{name} rows_per_cpu_s": round(rate) for name, rate in both.items()}))
        return
    for name, rate in found.items():
        print(f"{name:<16}{rate:>12,.0f} rows a second of one core")
    print(f"\n{_PARSED}, only parsed by others:")
    for name, rate in others.items():
        print(f"{name:<36}{rate:>12,.0f}, {found[_PARSED] / rate:.2g} times as fast here")


if __name__ == "__main__":
    main()
