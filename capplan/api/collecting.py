"""Python's search for reference cycles, paused while a plan is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_IMMORTALS = 1_000
"""CPython 3.12 keeps its own immortal objects, some hundreds, among the frozen ones."""


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause the cycle collector; values without cycles are freed as ever.

    A plan of the whole catalogue is half a million small values that refer to no one in a circle:
    the collector walks over all of them again and again, for a third of the time, and frees none.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _call_old()
        gc.enable()


def _call_old() -> None:
    """Put all values among the old ones, which are looked at last, instead of walking over them.

    What the caller has frozen himself (before a fork, say) stays so: then nothing is moved.
    """
    if gc.get_freeze_count() < _IMMORTALS:
        gc.freeze()
        gc.unfreeze()
