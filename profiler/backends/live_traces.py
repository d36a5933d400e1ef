"""Acceptance traces out of what a server tells of each request's speculation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.schema.cells import AcceptanceCell, DraftSampling
from profiler.backends.live_http import Served

MAX_TRACED = 255
"""A trace holds drafted and accepted tokens as bytes."""


@dataclass(frozen=True)
class TraceSetting:
    """What the traced requests have in common."""

    temperature: float
    thinking: bool | None
    draft_sampling: DraftSampling | None
    prompts_sha256: str
    seed: int


@dataclass(frozen=True)
class ServedTrace:
    """A cell and its arrays."""

    cell: AcceptanceCell
    arrays: Mapping[str, NDArray[Any]]


def traces(served: Sequence[Served], setting: TraceSetting) -> list[ServedTrace]:
    """Return one trace a task, of the requests whose rounds the server lists one by one.

    Needs ``--per-request-spec-decode-metrics detailed`` on vLLM; without it there is none.
    """
    by_task: dict[str, list[tuple[Served, list[int], list[int]]]] = defaultdict(list)
    for one in served:
        rounds = _rounds(one)
        if rounds is not None:
            by_task[one.task].append((one, *rounds))
    return [_trace(task, rows, setting) for task, rows in sorted(by_task.items())]


def _trace(
    task: str, rows: Sequence[tuple[Served, list[int], list[int]]], setting: TraceSetting
) -> ServedTrace:
    drafted = [value for _, values, _ in rows for value in values]
    accepted = [value for _, _, values in rows for value in values]
    configured = [_count(one.speculation, "num_spec_tokens") for one, _, _ in rows]
    cell = AcceptanceCell(
        task=task or "served",
        temperature=setting.temperature,
        thinking=setting.thinking,
        trace_kind="per_round",
        draft_sampling=setting.draft_sampling,
        max_num_speculative_tokens=max([1, *drafted, *(n for n in configured if n is not None)]),
        prompts_sha256=setting.prompts_sha256,
        requests=len(rows),
        prompt_tokens=max(sum(one.prompt_tokens or 0 for one, _, _ in rows), 1),
        generated_tokens=max(sum(one.output_tokens or 0 for one, _, _ in rows), 1),
        seed=setting.seed,
    )
    offsets = np.cumsum([0, *(len(values) for _, values, _ in rows)], dtype=np.int64)
    return ServedTrace(
        cell,
        {
            "offsets": offsets,
            "prompt_tokens": np.array(
                [one.prompt_tokens or 0 for one, _, _ in rows], dtype=np.int32
            ),
            "drafted": np.array(drafted, dtype=np.uint8),
            "accepted": np.array(accepted, dtype=np.uint8),
        },
    )


def _rounds(one: Served) -> tuple[list[int], list[int]] | None:
    """Return (drafted, accepted) of each round of a request, or None if they are not usable."""
    if one.error or one.speculation is None:
        return None
    drafted = _counts(one.speculation.get("per_step_drafted"))
    accepted = _counts(one.speculation.get("per_step_accepted"))
    if not drafted or len(drafted) != len(accepted):
        return None
    if any(a > d for d, a in zip(drafted, accepted, strict=True)):
        return None
    without = _rounds_without_draft(one, accepted)
    return drafted + [0] * without, accepted + [0] * without


def _rounds_without_draft(one: Served, accepted: Sequence[int]) -> int:
    """Return how many rounds of a request had no draft: the server lists only the others.

    Chunks may be merged and a last round may be cut, so that chunks and tokens each give a lower
    bound; the larger one is taken. Where these rounds lie is not known: they are put last.
    """
    by_chunks = len(one.event_s) - 1 - len(accepted)
    emitted = sum(accepted) + len(accepted)
    by_tokens = (one.output_tokens or 0) - 1 - emitted
    return max(by_chunks, by_tokens, 0)


def _counts(values: Any) -> list[int]:
    """Return a list of small counts; an empty one where it is anything else."""
    if not isinstance(values, list):
        return []
    usable = all(isinstance(value, int) and 0 <= value <= MAX_TRACED for value in values)
    return list(values) if usable else []


def _count(values: Any, name: str) -> int | None:
    value = values.get(name) if isinstance(values, Mapping) else None
    return value if isinstance(value, int) and 0 <= value <= MAX_TRACED else None
