"""Answers of Prometheus' query API, as small as a test can check by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MONDAY_S = 1_790_553_600
"""2026-09-28, 00:00 UTC: a Monday."""


def series(
    name: str,
    values: Sequence[float | None],
    seconds: Sequence[float] | None = None,
    **labels: str,
) -> dict[str, Any]:
    """Return one series; None is a look at which it was not there. Looks are a minute apart."""
    times = seconds if seconds is not None else every(60, len(values))
    named = {"__name__": name, "model_name": "m", "engine": "0", "instance": "a:8000", **labels}
    pairs = zip(times, values, strict=True)
    points = [[float(time), f"{value:.12g}"] for time, value in pairs if value is not None]
    return {"metric": named, "values": points}


def every(step_s: float, looks: int) -> list[float]:
    """Return the times of looks from a Monday on."""
    return [MONDAY_S + i * step_s for i in range(looks)]


def matrix(*found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a range query."""
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}


def engine(
    requests: Sequence[float | None],
    *,
    prompt: float = 100,
    output: float = 20,
    step_s: float = 60,
    **labels: str,
) -> list[dict[str, Any]]:
    """Return the series of an engine whose requests are all alike, by how many have ended."""

    def times(factor: float) -> list[float | None]:
        return [None if count is None else count * factor for count in requests]

    named = {
        "vllm:request_success_total": requests,
        "vllm:prompt_tokens_total": times(prompt),
        "vllm:generation_tokens_total": times(output),
    }
    looks = every(step_s, len(requests))
    return [series(name, values, looks, **labels) for name, values in named.items()]
