"""The block that serving benchmarks print: ``Serving Benchmark Result``, of vLLM and of SGLang."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, as_number
from capplan.profiles.importers.reading import Reading
from capplan.profiles.importers.sglang_bench import SINCE_START, gap_of
from capplan.profiles.importers.vllm_bench import reading

FORMAT = "printed-serving-result"
_TITLE = re.compile(r"= *Serving Benchmark Result *=")
_LINE = re.compile(r"^[#\s>|]*(?P<name>[A-Za-z0-9][^:]*?):\s+(?P<value>[^\s#]+)")
_POSITION = re.compile(r"position \d+", re.IGNORECASE)
_RATES = "spec_decode_per_position_acceptance_rates"
_LATENCY = re.compile(r"(?P<statistic>Mean|Median|P\d+) (?P<name>TTFT|TPOT|ITL|E2EL|E2E Latency)")
_NAMES = {
    "successful requests": "completed",
    "failed requests": "failed",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "input token throughput (tok/s)": "input_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "request rate configured (rps)": "request_rate",
    "traffic request rate": "request_rate",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "peak concurrent requests": "max_concurrent_requests",
    "concurrency": "concurrency",
    "backend": "backend",
    "accept length": "accept_length",
    "acceptance rate (%)": "spec_decode_acceptance_rate",
    "acceptance length": "spec_decode_acceptance_length",
    "drafts": "spec_decode_num_drafts",
    "draft tokens": "spec_decode_draft_tokens",
    "accepted tokens": "spec_decode_accepted_tokens",
}
_ROUNDING = 0.005
"""Two decimals are printed."""


def detect(document: Document) -> bool:
    """Whether such a block stands in the text."""
    return document.mentions(_TITLE)


def read(document: Document) -> Iterator[Reading]:
    """Yield every block of the text."""
    blocks = list(_blocks(document))
    for index, block in enumerate(blocks):
        part = f"block {index + 1}" if len(blocks) > 1 else ""
        yield _reading(block, document.name, part)


def _blocks(document: Document) -> Iterator[dict[str, Any]]:
    block: dict[str, Any] | None = None
    for line in document.lines():
        if _TITLE.search(line):
            if block:
                yield block
            block = {}
        elif block is not None and (match := _LINE.match(line)):
            _add(block, match["name"].strip(), match["value"])
    if block:
        yield block


def _add(block: dict[str, Any], name: str, value: str) -> None:
    percent = as_number(value)
    if _POSITION.fullmatch(name) and percent is not None:
        block.setdefault(_RATES, []).append(percent / 100)
    elif (key := _key(name)) and key not in block:
        block[key] = value


def _key(name: str) -> str:
    latency = _LATENCY.match(name)
    if latency is not None:
        metric = {"E2E Latency": "e2el"}.get(latency["name"], latency["name"].lower())
        return f"{latency['statistic'].lower()}_{metric}_ms"
    return _NAMES.get(name.lower(), "")


def _reading(block: dict[str, Any], source: str, part: str) -> Reading:
    found = reading(Fields(block), source, part)
    observation = found.observation.model_copy(update={"format": FORMAT})
    length = Fields(block).count("accept_length")
    sglang = length is not None or observation.engine == "sglang"
    stated = replace(
        found.stated,
        rounding=_ROUNDING,
        requests_sent=None,
        gap_is=gap_of(str(block.get("backend", ""))) if sglang else "step",
        tokens_per_draft_round=length or found.stated.tokens_per_draft_round,
        flags=(*found.stated.flags, *((SINCE_START,) if length is not None else ())),
    )
    return Reading(observation, stated)
