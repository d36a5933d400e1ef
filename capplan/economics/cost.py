"""Dollars in float, for searching: every argument broadcasts.

What is shown and stored is recomputed exactly by :mod:`capplan.economics.bill`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.units import HOURS_PER_MONTH, SECONDS_PER_HOUR, TOKENS_PER_MILLION

Floats = NDArray[np.float64]


def nodes_needed(
    replicas: ArrayLike, gpus_per_replica: ArrayLike, gpus_per_node: ArrayLike
) -> Floats:
    """Return whole nodes that hold the replicas; a replica never spans two nodes.

    Parameters
    ----------
    replicas
        Replicas, >= 1.
    gpus_per_replica
        Tensor-parallel size; infinity results where it exceeds the node.
    gpus_per_node
        GPUs of the offer.
    """
    per_node = np.asarray(gpus_per_node, dtype=int) // np.asarray(gpus_per_replica, dtype=int)
    with np.errstate(divide="ignore"):
        nodes: Floats = np.ceil(np.asarray(replicas, dtype=float) / per_node)
    return nodes


def usd_per_month(
    nodes: ArrayLike, usd_per_node_hour: ArrayLike, hours_per_month: ArrayLike = HOURS_PER_MONTH
) -> Floats:
    """Return the monthly bill; 730 hours a month unless others are paid for."""
    result: Floats = (
        np.asarray(nodes, dtype=float)
        * np.asarray(usd_per_node_hour, dtype=float)
        * np.asarray(hours_per_month, dtype=float)
    )
    return result


def usd_per_million_tokens(
    usd_month: ArrayLike, tokens_per_s: ArrayLike, hours_per_month: float = HOURS_PER_MONTH
) -> Floats:
    """Return dollars a million tokens when ``tokens_per_s`` is the mean rate of those hours.

    Idle time is in it: the bill is for the hours paid, the tokens are those planned, not those
    that the GPUs could make.
    """
    seconds = hours_per_month * SECONDS_PER_HOUR
    tokens = np.asarray(tokens_per_s, dtype=float) * seconds
    result: Floats = np.asarray(usd_month, dtype=float) * TOKENS_PER_MILLION / tokens
    return result


def replicas_for(
    tokens_per_s: ArrayLike, replica_tokens_per_s: ArrayLike, utilisation: float
) -> Floats:
    """Return replicas that carry the load while each is used to at most ``utilisation``."""
    needed = np.asarray(tokens_per_s, dtype=float) / (
        np.asarray(replica_tokens_per_s, dtype=float) * utilisation
    )
    # a load of exactly n replicas must not become n + 1 by rounding of the division
    return np.maximum(np.ceil(needed - 1e-9), 1.0)
