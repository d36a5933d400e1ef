"""How many threads decode fastest on this CPU."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from capplan.schema.cells import Phase, Role
from profiler.protocol import PreparedPoint, TimingPoint

_PROBES = (
    TimingPoint(Role.TARGET, Phase.DECODE, 1, 1, 64),
    TimingPoint(Role.TARGET, Phase.VERIFY, 1, 5, 64),
)
_REPEATS = 3
_GAIN = 0.95
"""All threads must save 5 % over one, or one is taken: it suffers less from what else runs."""


def settle_threads(prepare: Callable[[TimingPoint], PreparedPoint]) -> None:
    """Choose between one thread and all by timing a decode and a verification step.

    Decoding reads memory more than it computes, so cores that share a memory channel (or are two
    halves of one) add waiting rather than speed, and waiting threads that spin make a step several
    times slower as soon as anything else runs. ``OMP_NUM_THREADS`` decides instead if it is set.
    """
    every = torch.get_num_threads()
    if every == 1 or os.environ.get("OMP_NUM_THREADS"):
        return
    all_s = _probe_s(prepare)
    torch.set_num_threads(1)
    if all_s < _GAIN * _probe_s(prepare):
        torch.set_num_threads(every)


def _probe_s(prepare: Callable[[TimingPoint], PreparedPoint]) -> float:
    total_s = 0.0
    for probe in _PROBES:
        prepared = prepare(probe)
        try:
            prepared.run_block(1)  # the first pass allocates
            total_s += min(prepared.run_block(1) for _ in range(_REPEATS))
        finally:
            prepared.close()
    return total_s
