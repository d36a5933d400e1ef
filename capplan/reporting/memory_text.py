"""Memory of one GPU as text."""

from __future__ import annotations

from capplan.schema.memory import MemoryUse
from capplan.units import BYTES_PER_GIB


def render_memory(use: MemoryUse) -> str:
    """Return the breakdown, what it holds, and what would help where it does not fit."""
    lines = [_title(use), "", *_parts(use), "", *_holds(use), "", _sentence(use.verdict)]
    if use.remedies:
        lines.append("Each of these alone makes it fit: " + "; ".join(use.remedies))
    elif not use.fits:
        lines.append(
            "No single change makes it fit: take GPUs with more memory, or a smaller checkpoint."
        )
    lines.extend(f"Note: {note}" for note in use.notes)
    return "\n".join(lines) + "\n"


def _title(use: MemoryUse) -> str:
    draft = f" + {use.draft}" if use.draft is not None else ""
    length = f", N = {use.num_speculative_tokens}" if use.num_speculative_tokens else ""
    return (
        f"{use.target}{draft}{length} on {use.tensor_parallel} x {use.gpu_name}, "
        f"{use.engine} {use.engine_version}"
    )


def _parts(use: MemoryUse) -> list[str]:
    rows = (
        ("GPU memory", use.capacity_bytes, "what CUDA hands out"),
        ("Engine may use", use.usable_bytes, f"utilisation {use.utilisation:.2f}"),
        ("- target weights", use.target_weight_bytes, ""),
        ("- draft weights", use.draft_weight_bytes, ""),
        ("- activation peak", use.activation_bytes, _limits(use)),
        ("- CUDA graphs", use.cuda_graph_bytes, ""),
        ("- outside torch", use.non_torch_bytes, ""),
        ("- sampling buffers", use.buffer_bytes, ""),
        ("= KV pool", use.kv_pool_bytes, "a GPU"),
    )
    return [
        f"  {label:<20}{size / BYTES_PER_GIB:>9.2f} GiB  {note}".rstrip()
        for label, size, note in rows
        # what is not there is not listed; a part that is there and small is
        if size or label[0] != "-"
    ]


def _limits(use: MemoryUse) -> str:
    return f"{use.max_num_seqs:,} sequences, {use.max_num_batched_tokens:,} tokens a step"


def _holds(use: MemoryUse) -> list[str]:
    lines = [
        f"  KV a token          {use.kv_bytes_per_token:>9,.0f} bytes a GPU",
        f"  GPU KV cache size   {use.kv_tokens:>9,} tokens  (at --max-model-len "
        f"{use.max_model_len})",
        f"  Requests at once    {use.max_concurrency:>9.2f}  of {use.max_model_len:,} tokens",
    ]
    if use.workload_tokens is not None and use.workload_concurrency is not None:
        lines.append(
            f"  Requests at once    {use.workload_concurrency:>9.2f}  of {use.workload_tokens:,} "
            f"tokens (the workload's), {use.max_num_seqs:,} at most"
        )
    return lines


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
