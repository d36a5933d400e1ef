"""What a step has to do, in seconds at a data sheet's rates; every argument broadcasts.

An efficiency or a measured factor turns these into times (``datasheet_step``, ``decoding``,
``serving``): the arithmetic stands here once, so that a plan and a fit count the same work.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.schema.cache import CacheKind
from capplan.schema.llm import LlmSpec

Floats = NDArray[np.float64]

PCIE_BYTES_PER_S = 6.4e10
"""PCI Express 4.0 x16, both directions together: GPUs whose data sheet names no faster link."""

_ALL_REDUCES_PER_LAYER = 2.0
"""After attention and after the feed-forward part."""
_ACTIVATION_BYTES = 2.0


def flops_per_token(llm: LlmSpec) -> float:
    """Return multiply-adds of the weights, two a parameter read."""
    return 2.0 * llm.params_active


def query_width(llm: LlmSpec) -> float:
    """Return query heads times their size; the hidden size where that is not known."""
    full = next((group for group in llm.cache if group.kind is CacheKind.FULL), None)
    if full is None or llm.heads is None:
        return float(llm.hidden)
    return llm.heads * full.elements / 2.0


def attention_flops_per_prompt_token(llm: LlmSpec, prompt_tokens: ArrayLike) -> Floats:
    """Return mean attention FLOPs of a prompt token: it sees half of the prompt, in causal order.

    ``4 * query width * layers * prompt / 2``: scores and weighted values, two FLOPs each.
    """
    seen = np.asarray(prompt_tokens, dtype=float) / 2.0
    result: Floats = 4.0 * query_width(llm) * llm.layers * seen
    return result


def exchange_seconds_per_token(
    llm: LlmSpec, tensor_parallel: ArrayLike, link_bytes_per_s: ArrayLike
) -> Floats:
    """Return the time of one token's all-reduces at the link's rate in one direction.

    Two all-reduces a layer of ``hidden`` 16-bit elements; a ring moves ``2 (TP - 1) / TP`` of them
    over each GPU's link. 0 on one GPU.

    Parameters
    ----------
    link_bytes_per_s
        Both directions together, as data sheets print it.
    """
    tp = np.asarray(tensor_parallel, dtype=float)
    moved = _ALL_REDUCES_PER_LAYER * llm.layers * llm.hidden * _ACTIVATION_BYTES
    result: Floats = moved * 2.0 * (tp - 1.0) / tp / (np.asarray(link_bytes_per_s) / 2.0)
    return result


def link_bytes_per_s(stated: float | None) -> float:
    """Return a GPU's link rate, PCI Express where its data sheet names none."""
    return stated if stated is not None else PCIE_BYTES_PER_S
