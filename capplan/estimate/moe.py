"""How many experts a pass of a mixture-of-experts LLM reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.schema.llm import LlmSpec


def distinct_experts(
    tokens: ArrayLike, experts: ArrayLike, experts_per_token: ArrayLike, correlation: ArrayLike
) -> NDArray[np.float64]:
    """Return the expected number of distinct experts that ``tokens`` tokens touch.

    ``E * (1 - (1 - k/E)^t)`` with ``t = 1 + correlation * (tokens - 1)``.

    Parameters
    ----------
    tokens
        Tokens in the pass, >= 1.
    experts, experts_per_token
        E and k of the router.
    correlation
        1: tokens route independently; less: real routing, which is correlated.

    Notes
    -----
    Independent form: MoESD, arXiv:2505.19645. See docs/method/steptime.md.
    """
    experts = np.asarray(experts, dtype=float)
    share = np.asarray(experts_per_token, dtype=float) / experts
    effective = 1.0 + np.asarray(correlation) * (np.asarray(tokens, dtype=float) - 1.0)
    touched: NDArray[np.float64] = experts * (1.0 - (1.0 - share) ** np.maximum(effective, 1.0))
    return touched


def params_read(llm: LlmSpec, tokens: ArrayLike, correlation: ArrayLike) -> NDArray[np.float64]:
    """Return the parameters that a pass over ``tokens`` tokens reads.

    All active ones of a dense LLM; of a mixture of experts the shared ones and every expert that
    some token is routed to.

    Parameters
    ----------
    tokens, correlation
        As in :func:`distinct_experts`.
    """
    count = np.asarray(tokens, dtype=float)
    if llm.experts is None or llm.experts_per_token is None:
        return np.full_like(count, llm.params_active)
    routed = llm.experts - llm.experts_per_token
    expert = (llm.params_total - llm.params_active) / routed
    touched = distinct_experts(count, llm.experts, llm.experts_per_token, correlation)
    result: NDArray[np.float64] = llm.params_active + (touched - llm.experts_per_token) * expert
    return result
