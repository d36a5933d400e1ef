"""Memory of one GPU, as rows and as a bar: what takes it, what is left for the KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.reporting import formatting as fmt
from capplan.schema.plan import MemoryFigure, PlanOption

_LEAST_SHARE = 0.002
"""Of the GPU; parts below it are in the table alone."""


@dataclass(frozen=True)
class BarPart:
    """One stretch of a bar."""

    label: str
    size: str
    share: str
    percent: float
    """Of the whole bar: its width."""
    style: str


@dataclass(frozen=True)
class MemoryBar:
    """The bar of one GPU, and how full its KV pool is at the planned load."""

    parts: tuple[BarPart, ...]
    total: str
    spoken: str
    """The bar as a sentence, for who does not see it."""
    pool_used: str
    """Of the KV pool at the planned load; empty where it is not known."""


def build_memory_bar(option: PlanOption) -> MemoryBar | None:
    """Return the bar; None where the parts exceed the GPU, as in no plan that fits."""
    memory = option.memory
    listed = list(_parts(memory))
    if any(size < 0 for _, size, _ in listed) or memory.gpu_bytes <= 0:
        return None
    parts = tuple(
        BarPart(
            label,
            fmt.gigabytes(size),
            fmt.percent(size / memory.gpu_bytes),
            round(100 * size / memory.gpu_bytes, 2),
            style,
        )
        for label, size, style in listed
        if size >= _LEAST_SHARE * memory.gpu_bytes
    )
    total = fmt.gigabytes(memory.gpu_bytes)
    said = ", ".join(f"{part.label.lower()} {part.size}" for part in parts)
    return MemoryBar(parts, total, f"Of {total}: {said}.", _pool_used(option))


def _parts(memory: MemoryFigure) -> Iterator[tuple[str, float, str]]:
    weights = memory.target_weight_bytes + memory.draft_weight_bytes
    pool = _pool_bytes(memory)
    yield "Target weights", memory.target_weight_bytes, "target"
    yield "Draft weights", memory.draft_weight_bytes, "draft"
    yield "Activations, graphs, runtime", memory.overhead_bytes, "overhead"
    yield "KV pool", pool, "pool"
    rest = memory.gpu_bytes - weights - memory.overhead_bytes - pool
    yield "Not given to the engine", max(rest, 0.0), "rest"


def _pool_used(option: PlanOption) -> str:
    """Return the share of the pool that the planned requests hold, each of whole length."""
    most = option.memory.max_concurrency
    return fmt.percent(option.concurrency / most) if most else ""


@dataclass(frozen=True)
class Pair:
    """A label and its text."""

    label: str
    text: str


def memory_rows(option: PlanOption) -> tuple[Pair, ...]:
    """Return every part of the memory of one GPU, and what the KV pool holds."""
    memory = option.memory
    share = memory.usable_bytes / memory.gpu_bytes
    return (
        Pair(option.unit, fmt.gigabytes(memory.gpu_bytes)),
        Pair("Engine may use", f"{fmt.gigabytes(memory.usable_bytes)} ({fmt.percent(share)})"),
        Pair("Target weights", fmt.gigabytes(memory.target_weight_bytes)),
        Pair("Draft weights", fmt.gigabytes(memory.draft_weight_bytes)),
        *_overhead_rows(memory),
        Pair("Left for the KV pool", fmt.gigabytes(max(0.0, _pool_bytes(memory)))),
        Pair("KV a token", f"{memory.kv_bytes_per_token:,.0f} bytes"),
        Pair("KV pool of a replica", f"{fmt.number(memory.kv_tokens)} tokens"),
        *_concurrency_rows(memory),
    )


def _pool_bytes(memory: MemoryFigure) -> float:
    """Return what is left for KV; plans of older versions do not say it themselves."""
    if memory.kv_pool_bytes is not None:
        return memory.kv_pool_bytes
    weights = memory.target_weight_bytes + memory.draft_weight_bytes
    return memory.usable_bytes - weights - memory.overhead_bytes


def _overhead_rows(memory: MemoryFigure) -> tuple[Pair, ...]:
    """Return the parts of the overhead; plans of older versions know the sum alone."""
    parts = (
        ("Activation peak", memory.activation_bytes),
        ("CUDA graphs", memory.cuda_graph_bytes),
        ("Outside torch", memory.non_torch_bytes),
        ("Sampling buffers", memory.buffer_bytes),
    )
    known = tuple(Pair(label, fmt.gigabytes(size)) for label, size in parts if size is not None)
    return known or (Pair("Activations, graphs, runtime", fmt.gigabytes(memory.overhead_bytes)),)


def _concurrency_rows(memory: MemoryFigure) -> tuple[Pair, ...]:
    if memory.max_concurrency is None or memory.request_tokens is None:
        return ()
    most = fmt.count(int(memory.max_concurrency))
    return (Pair("Requests it holds", f"{most} of {fmt.count(memory.request_tokens)} tokens"),)
