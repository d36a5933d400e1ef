"""Sizes of step that are captured as CUDA graphs, written out instead of left to a default.

The engine rounds a stated largest size DOWN to its grid, and stating one turns off the sizes that
it derives from the draft length; a list has neither trouble. A verification of B requests takes
B * (N + 1) tokens and runs captured only where such a multiple is in the list.
docs/method/cuda-graphs.md
"""

from __future__ import annotations

from functools import cache, lru_cache

from capplan.deploy.lengths import Lengths, widest_batches
from capplan.estimate.cuda_graphs import (
    SM100_CEILING,
    captured_tokens,
    size_kept,
    size_to_state,
)

_COUNTS = (1, 2, 4, *range(8, 256, 8))
_COARSE_STEP = 16


@lru_cache(1024)
def graph_sizes(
    max_num_seqs: int,
    num_speculative_tokens: int,
    lengths: Lengths = (),
    *,
    drafts_vary: bool = False,
) -> tuple[int, ...]:
    """Return the sizes to capture, in tokens of a step, in ascending order.

    Every length in use gets its multiples up to the widest batch that runs with it. Above them
    come sizes of the engine's grid, for steps that also hold prompts, up to the ceiling.

    Parameters
    ----------
    max_num_seqs
        The engine's batch limit.
    num_speculative_tokens, lengths
        N, and the table of lengths by batch where there is one.
    drafts_vary
        Whether rounds have fewer than N drafts at will, as lookups do: then the whole grid is
        captured, as steps are of any size.
    """
    ceiling = _ceiling(max_num_seqs, num_speculative_tokens, lengths)
    widest = widest_batches(lengths, num_speculative_tokens, max_num_seqs)
    decode = {
        requests * (length + 1)
        for length, batch in widest.items()
        for requests in _request_counts(batch)
        if requests * (length + 1) <= ceiling
    }
    above = 0 if drafts_vary else max(decode, default=0)
    mixed = {size for size in _grid(ceiling) if size > above}
    return tuple(sorted(decode | mixed))


def _ceiling(max_num_seqs: int, num_speculative_tokens: int, lengths: Lengths) -> int:
    """Return the largest size: the default one, or wider where a full batch would miss it."""
    widest = widest_batches(lengths, num_speculative_tokens, max_num_seqs)
    tokens = max(batch * (length + 1) for length, batch in widest.items())
    default = captured_tokens(max_num_seqs, num_speculative_tokens)
    # more than any GPU gets by default takes memory that the plan gave to KV
    return max(size_kept(default), default, min(size_to_state(tokens), SM100_CEILING))


def _request_counts(most: int) -> list[int]:
    counts = [count for count in _COUNTS if count <= most]
    counts += range(_COUNTS[-1] + 8, most + 1, _COARSE_STEP)
    return sorted({*counts, most})


@cache
def _grid(ceiling: int) -> tuple[int, ...]:
    return tuple(size for size in _request_counts(ceiling) if size == size_kept(size))
