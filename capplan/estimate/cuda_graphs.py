"""Where the captured CUDA graphs of vLLM end, and what a step costs beyond them.

A decode step with speculation takes B * (N + 1) tokens. Up to the captured size the whole step is
replayed as one graph; beyond it the host launches every kernel, and the step takes as long as
that does. docs/method/cuda-graphs.md
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.schema.quantity import Quantity

Floats = NDArray[np.float64]

DEFAULT_CEILING = 512
"""Most tokens that vLLM 0.33 captures by default, whatever the batch."""
SM100_CEILING = 1024
"""The same on data-centre Blackwell (sm100), not on its consumer boards (sm120)."""
_SM100 = "10."

_HEADROOM = 2
"""Captured tokens over those of a full decode step, below the ceiling."""
_SMALL_SIZES = (1, 2, 4)
_FINE_STEP, _FINE_END = 8, 256
_COARSE_STEP = 16

UNCAPTURED_OVER_EDGE = Quantity(low=1.1, mid=5.2, high=15.0)
"""Least time of a step without graphs, in steps at the edge of the captured sizes.

DeepSeek-V4-Flash on four B300: 104.5 ms at 1,537 tokens over 20.6 ms at 1,025 (vLLM blog
2026-08-14) is 5.1; six requests on DGX Spark, 133.3 against 25.3 tokens/s (vLLM issue 54933) 5.3.
Low end: 6,139 against 5,453 tokens/s where a large batch hides most launches (SGLang, 48 requests,
mit-han-lab/fastrl pull request 4); high end: from 15 or more tokens/s to under 1 (DeepSeek-V4 on
two DGX Spark, sizes cut to 4).
"""


def captured_tokens(
    max_num_seqs: int, num_speculative_tokens: int, compute_capability: str = ""
) -> int:
    """Return the tokens of a step that vLLM 0.33 captures by default.

    Parameters
    ----------
    max_num_seqs
        The engine's batch limit.
    num_speculative_tokens
        N; 0 without speculation.
    compute_capability
        Of the GPU, such as ``9.0``; left out, the smaller ceiling is taken.

    Notes
    -----
    ``min(max_num_seqs * (N + 1) * 2, 512)``, or 1,024 on sm100 (``config/vllm.py`` of 0.33).
    """
    ceiling = SM100_CEILING if compute_capability.startswith(_SM100) else DEFAULT_CEILING
    return min(max_num_seqs * (num_speculative_tokens + 1) * _HEADROOM, ceiling)


def size_kept(stated: int) -> int:
    """Return what vLLM makes of a stated largest size: the next size of its grid DOWNWARDS.

    42 becomes 40, and a step of 42 tokens runs without graphs (vLLM issue 54933).
    """
    for step, start in ((_COARSE_STEP, _FINE_END), (_FINE_STEP, _FINE_STEP)):
        if stated >= start:
            return stated // step * step
    return max((size for size in _SMALL_SIZES if size <= stated), default=0)


def size_to_state(tokens: int) -> int:
    """Return the smallest size of the grid that holds so many tokens: the one to ask for.

    The grid is 1, 2, 4, then steps of 8 below 256 and of 16 from there on.
    """
    for small in _SMALL_SIZES:
        if tokens <= small:
            return small
    step = _FINE_STEP if tokens <= _FINE_END - _FINE_STEP else _COARSE_STEP
    return math.ceil(tokens / step) * step


def largest_captured_batch(tokens: int, num_speculative_tokens: int) -> int:
    """Return the largest batch whose verification is captured: 512 tokens hold 128 at N = 3."""
    return tokens // (num_speculative_tokens + 1)


def step_seconds(
    graph_s: ArrayLike, edge_s: ArrayLike, tokens: ArrayLike, captured: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Return (low, mid, high) of a step's time, graphs where they reach.

    Parameters
    ----------
    graph_s
        Time of the step if it were captured.
    edge_s
        Time of a step of ``captured`` tokens, in which launches are hidden.
    tokens, captured
        Tokens of the step, and the largest captured size.

    Notes
    -----
    Kernels run while the host launches the next, so the longer of the two counts:
    ``max(graph_s, factor * edge_s)``. On the five sizes of DeepSeek-V4-Flash beyond its edge the
    middle is 3 % high near the edge and 29 % low at 16 times its tokens, within the interval.
    """
    graph = np.asarray(graph_s, dtype=float)
    edge = np.asarray(edge_s, dtype=float)
    beyond = np.asarray(tokens, dtype=float) > np.asarray(captured, dtype=float)

    def at(factor: float) -> Floats:
        return np.where(beyond, np.maximum(graph, factor * edge), graph)

    ends = UNCAPTURED_OVER_EDGE
    return at(ends.low), at(ends.mid), at(ends.high)
