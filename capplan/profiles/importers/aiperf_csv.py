"""The CSV of AIPerf and genai-perf: a table of distributions, then a table of single values.

The unit stands in the metric's name. Nothing says how the load was driven.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from capplan.profiles.importers.aiperf import metrics_reading
from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields
from capplan.profiles.importers.reading import Reading

_HEADER = re.compile(r"^Metric,(avg|mean),", re.IGNORECASE)
_NAME = re.compile(r"^(?P<name>[^()]+?)\s*(?:\((?P<unit>[^()]*)\))?$")
_METRICS = {
    "time to first token": "time_to_first_token",
    "inter token latency": "inter_token_latency",
    "inter chunk latency": "inter_chunk_latency",
    "request latency": "request_latency",
    "output sequence length": "output_sequence_length",
    "input sequence length": "input_sequence_length",
    "output token throughput": "output_token_throughput",
    "total token throughput": "total_token_throughput",
    "request throughput": "request_throughput",
    "request count": "request_count",
    "error request count": "error_request_count",
    "benchmark duration": "benchmark_duration",
}
_ROUNDING = 0.005


def detect(document: Document) -> bool:
    """Whether the text begins with such a table."""
    return document.kind == "text" and bool(_HEADER.match(document.head.lstrip()))


def read(document: Document) -> Iterator[Reading]:
    """Yield the one run of the file."""
    sections: dict[str, Any] = {}
    try:
        _fill(sections, csv.reader(document.lines()))
    except csv.Error:
        return
    if not sections:
        return
    written_by = "aiperf-csv" if "benchmark_duration" in sections else "genai-perf-csv"
    found = metrics_reading(Fields(sections), document.name, written_by)
    yield replace(found, stated=replace(found.stated, rounding=_ROUNDING))


def _fill(sections: dict[str, Any], rows: Iterator[list[str]]) -> None:
    header: list[str] = []
    for row in rows:
        if row and row[0].strip() == "Metric":
            header = [cell.strip().lower() for cell in row]
            continue
        match = _NAME.match(row[0].strip()) if row else None
        name = _METRICS.get(match["name"].strip().lower()) if match is not None else None
        if match is None or name is None or name in sections:
            continue
        values = dict(zip(header[1:], row[1:], strict=False))
        values["avg"] = values.get("avg") or values.pop("value", "")
        sections[name] = {**values, "unit": (match["unit"] or "").lower()}
