"""What would make an engine fit a GPU: every change is tried, and named only if it works."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from capplan.estimate.kvcache import uneven_heads
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest, MemoryUse
from capplan.schema.pairing import Method

_SIZES = (2, 4, 8, 16)
_MOST_UTILISATION = 0.97
"""More leaves no room for the context of CUDA, which lies outside the engine's share."""
_FEWER_SEQUENCES = (256, 64, 16)
_LENGTH_STEP = 1024

Try = Callable[[MemoryRequest], MemoryUse]


def remedies(
    request: MemoryRequest, found: MemoryUse, target: LlmSpec, use: Try
) -> tuple[str, ...]:
    """Return the changes that make it fit, mildest first; each alone is enough.

    Parameters
    ----------
    request, found
        What was asked, and how it does not fit.
    use
        Allots the memory of a changed request.
    """
    changes = (
        *_shorter(request, found, use),
        *_more_utilisation(request, found),
        *_fewer_sequences(request, found, use),
        *_fp8_kv(request),
        *_no_draft(request, found),
    )
    mild = [text for text, changed in changes if use(changed).fits]
    return (*mild, *_larger_group(request, target, use))


def _shorter(
    request: MemoryRequest, found: MemoryUse, use: Try
) -> Iterator[tuple[str, MemoryRequest]]:
    """Find the longest request that fits, by halving: what it takes grows with its length."""
    low, high = 0, found.max_model_len // _LENGTH_STEP
    while low < high:
        middle = (low + high + 1) // 2
        if use(_changed(request, max_model_len=middle * _LENGTH_STEP)).fits:
            low = middle
        else:
            high = middle - 1
    if low:
        longest = low * _LENGTH_STEP
        yield (
            f"--max-model-len {longest:,}".replace(",", ""),
            _changed(request, max_model_len=longest),
        )


def _more_utilisation(
    request: MemoryRequest, found: MemoryUse
) -> Iterator[tuple[str, MemoryRequest]]:
    if request.kv_cache_memory_bytes is not None:
        return
    needed = (found.usable_bytes + found.lacking_bytes) / found.capacity_bytes
    share = math.ceil(needed * 100 + 1e-9) / 100
    if share <= _MOST_UTILISATION:
        yield f"--utilisation {share:.2f}", _changed(request, utilisation=share)


def _fewer_sequences(
    request: MemoryRequest, found: MemoryUse, use: Try
) -> Iterator[tuple[str, MemoryRequest]]:
    """Fewer sequences make the sampler's trial run smaller; the most that fit are enough."""
    if request.activation_bytes is not None or request.kv_pool_bytes is not None:
        return
    for count in _FEWER_SEQUENCES:
        changed = _changed(request, max_num_seqs=count)
        if count < found.max_num_seqs and use(changed).fits:
            yield f"--max-num-seqs {count}", changed
            return


def _fp8_kv(request: MemoryRequest) -> Iterator[tuple[str, MemoryRequest]]:
    if not request.kv_dtype.startswith("fp8"):
        yield "--kv-dtype fp8", _changed(request, kv_dtype="fp8")


def _no_draft(request: MemoryRequest, found: MemoryUse) -> Iterator[tuple[str, MemoryRequest]]:
    if found.draft is not None:
        changed = _changed(request, draft=None, method=Method.NONE, num_speculative_tokens=0)
        # loading was measured with the draft
        changed = _changed(changed, weight_bytes=None)
        yield "no draft", changed


def _larger_group(request: MemoryRequest, target: LlmSpec, use: Try) -> tuple[str, ...]:
    """Return the next tensor-parallel size that fits."""
    for size in _SIZES:
        if size > request.tensor_parallel and not uneven_heads(target, size):
            # measured values hold for the size they were measured at
            changed = _changed(
                request,
                tensor_parallel=size,
                weight_bytes=None,
                activation_bytes=None,
                non_torch_bytes=None,
                kv_pool_bytes=None,
            )
            if use(changed).fits:
                return (f"--tp {size}",)
    return ()


def _changed(request: MemoryRequest, **values: object) -> MemoryRequest:
    return request.model_copy(update=values)
