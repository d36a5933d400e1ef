"""GuideLLM's CSV: one benchmark a row, with one line of headers (to 0.3) or three (from 0.4)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, as_number, spread
from capplan.profiles.importers.reading import Reading, Stated
from capplan.schema.observation import Load, Observation, Spread

FORMAT = "guidellm-csv"
_MS = 1e-3
_OLD = "Successful Requests per second mean"
_GROUPS = ("Run Info", "Benchmark", "Timings", "Request Counts")
_HEADER_ROWS = 3
_QUANTILES = ("min", "p0.1", "p1", "p5", "p10", "p25", "p75", "p90", "p95", "p99", "max")
_PARTS: Mapping[str, Sequence[str]] = {
    "mean": ("mean",),
    "p50": ("median",),
    "p90": ("p90",),
    "p95": ("p95",),
    "p99": ("p99",),
}
_COLUMNS = {
    "rate": ("Requests per second", "Server Throughput Requests/Sec"),
    "concurrency": ("Request concurrency", "Server Throughput Concurrency"),
    "prompt": ("Prompt token count", "Token Metrics Input Tokens"),
    "output": ("Output token count", "Token Metrics Output Tokens"),
    "output_rate": ("Output tokens per second", "Token Throughput Output Tokens/Sec"),
    "e2e": ("Request latency", "Request Latency Sec"),
    "ttft": ("Time to first token ms", "Time to First Token ms"),
    "itl": ("Inter token latency ms", "Inter Token Latency ms"),
    "tpot": ("Time per output token ms", "Time per Output Token ms"),
}


def detect(document: Document) -> bool:
    """Whether the text has the headers of either layout."""
    if document.kind != "text":
        return False
    first = document.head.partition("\n")[0]
    return _OLD in document.head[:20_000] or all(group in first for group in _GROUPS)


def read(document: Document) -> Iterator[Reading]:
    """Yield each row."""
    rows = csv.reader(document.lines())
    try:
        first = next(rows, [])
        old = any(_OLD in cell for cell in first)
        headers = first if old else _joined([first, *islice(rows, _HEADER_ROWS - 1)])
        for index, row in enumerate(rows):
            if any(cell.strip() for cell in row):
                cells = dict(zip(headers, row, strict=False))
                yield _reading(cells, document.name, f"row {index + 1}")
    except csv.Error:
        return


def _joined(rows: Sequence[Sequence[str]]) -> list[str]:
    """Join the lines of a header; a group's name may stand over its first column only."""
    width = max((len(row) for row in rows), default=0)
    headers, group = [], ""
    for column in range(width):
        cells = [row[column].strip() if column < len(row) else "" for row in rows]
        group = cells[0] or group
        headers.append(" ".join(cell for cell in (group, *cells[1:]) if cell))
    return headers


def _statistics(cells: Mapping[str, str], name: str) -> Fields:
    """Return the statistics of one metric under either layout's headers."""
    found: dict[str, Any] = {}
    for header, cell in cells.items():
        plain = header.replace("Successful ", "")
        for title in _COLUMNS[name]:
            if plain.startswith(f"{title} "):
                found |= _statistic(plain.removeprefix(f"{title} "), cell, found)
    return Fields(found, f"{name}.")


def _statistic(label: str, cell: str, so_far: Mapping[str, Any]) -> dict[str, Any]:
    lowered = label.strip().lower()
    if lowered in {"mean", "median"} and lowered not in so_far:
        return {lowered: cell}
    if (lowered.startswith("[") or "percentile" in lowered) and "p90" not in so_far:
        values = [as_number(value) for value in cell.strip("[] ").split(",")]
        if len(values) == len(_QUANTILES):
            return dict(zip(_QUANTILES, values, strict=True))
    return {}


def _cell(cells: Mapping[str, str], *titles: str) -> str:
    return next((cells[title] for title in titles if cells.get(title)), "")


def _reading(cells: Mapping[str, str], source: str, row: str) -> Reading:
    numbers = Fields(cells)
    means = {name: _statistics(cells, name).count("mean") for name in _COLUMNS}
    name = _cell(cells, "Name", "Benchmark Strategy")
    completed = numbers.count("Successful Requests", "Request Counts Successful")
    prompt, output, with_first = means["prompt"], means["output"], means["tpot"]
    observation = Observation(
        source=source,
        format=FORMAT,
        part=name or row,
        duration_s=numbers.positive("Duration", "Timings Duration Sec", "Timings Duration"),
        load=_load(name, means),
        completed=completed,
        failed=numbers.count("Errored Requests", "Request Counts Errored"),
        prompt_tokens=prompt * completed if prompt is not None and completed else None,
        output_tokens=output * completed if output is not None and completed else None,
        output_tokens_per_s=means["output_rate"],
        ttft_s=_latency(cells, "ttft", _MS),
        tpot_s=_latency(cells, "itl", _MS),
        e2e_s=_latency(cells, "e2e", 1.0),
    )
    stated = Stated(
        requests_per_s=means["rate"],
        mean_prompt_tokens=prompt,
        mean_output_tokens=output,
        tpot_with_first_s=with_first * _MS if with_first is not None else None,
        tolerance=0.05,
        odd=tuple(numbers.odd),
    )
    return Reading(observation, stated)


def _latency(cells: Mapping[str, str], name: str, seconds: float) -> Spread | None:
    return spread(_statistics(cells, name), _PARTS, seconds)


def _load(name: str, means: Mapping[str, float | None]) -> Load:
    arrivals: dict[str, Literal["rate", "all_at_once", "closed_loop", "unknown"]] = {
        "throughput": "all_at_once",
        "synchronous": "closed_loop",
        "concurrent": "closed_loop",
    }
    kind, _, asked = name.partition("@")
    rate = as_number(asked)
    open_loop = kind.strip() in {"constant", "poisson", "async"} and bool(rate)
    stream = int(rate) if rate and rate >= 1 and kind.strip() == "concurrent" else None
    return Load(
        arrival="rate" if open_loop else arrivals.get(kind.strip(), "unknown"),
        requested_rate_per_s=rate if open_loop else None,
        achieved_rate_per_s=means["rate"],
        max_concurrency=1 if kind.strip() == "synchronous" else stream,
        mean_concurrency=means["concurrency"],
    )
