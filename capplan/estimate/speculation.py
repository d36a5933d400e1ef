"""From tokens per round and step times to speedup.

``speedup = tokens_per_round / round_ratio``: the two halves separate. What the round costs depends
on LLMs, GPU, engine and batch; what it yields on the text, the temperature and the draft.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def guide_speedup(
    acceptance_rate: ArrayLike, num_speculative_tokens: ArrayLike, cost_ratio: ArrayLike
) -> Floats:
    """Return ``acceptance_rate * N / (1 + N * cost_ratio)``, the guide's formula.

    ``acceptance_rate * N`` is exactly the accepted tokens a round, so what the formula leaves out
    is the bonus token that verification itself yields (+1), and the cost of verifying N+1 tokens
    at batch B. It is shown beside the calibrated estimate, never used for a recommendation.

    Parameters
    ----------
    acceptance_rate
        Accepted over drafted tokens at this N, 0 to 1.
    num_speculative_tokens
        N >= 1.
    cost_ratio
        One draft pass over one target decode step, same batch and context, >= 0.

    Notes
    -----
    docs/method/speculation.md quotes the guide and its own worked figure (alpha=0.8, N=5,
    cost ratio 0.05: it prints 3.2, which is what the formula gives).
    """
    n = np.asarray(num_speculative_tokens, dtype=float)
    result: Floats = np.asarray(acceptance_rate) * n / (1.0 + n * np.asarray(cost_ratio))
    return result


def round_ratio(
    num_speculative_tokens: ArrayLike,
    draft_pass_s: ArrayLike,
    verify_s: ArrayLike,
    decode_s: ArrayLike,
    round_overhead_s: ArrayLike,
) -> Floats:
    """Return the time of a whole round over one plain decode step.

    ``(N * draft pass + verification of N+1 tokens + overhead) / decode step``; 1 where N = 0.

    Notes
    -----
    MagicDec eq. 2 (arXiv:2408.11049); with measured parts 2.8 % error (89 rows).
    """
    n = np.asarray(num_speculative_tokens, dtype=float)
    spent = n * np.asarray(draft_pass_s) + np.asarray(verify_s) + np.asarray(round_overhead_s)
    return np.where(n > 0, spent / np.asarray(decode_s), 1.0)
