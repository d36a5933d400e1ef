"""Which GPU of the catalogue an offer of gpuhunt has. Certain, or none."""

from __future__ import annotations

import re
from typing import Any

from capplan.facts.gpu_names import GpuNames, Reason, Unresolved

_BOARD_WORDS = frozenset({"sxm", "pcie", "nvl", "server", "workstation"})


def candidates(offer: Any, names: GpuNames) -> tuple[str, ...]:
    """Return every GPU of the catalogue that gpuhunt may mean: it names chip and memory only."""
    answer = names.look_up(f"{offer.gpu_name} {offer.gpu_memory or 0:.0f}GB")
    if not isinstance(answer, Unresolved):
        return (answer.gpu,)
    return answer.choices if answer.reason is Reason.AMBIGUOUS else ()


def board_of(offer: Any, names: GpuNames, catalogued: str | None) -> str | None:
    """Return the GPU of an offer where its instance tells it, never by likelihood.

    Parameters
    ----------
    offer
        What gpuhunt lists.
    names
        What clouds and drivers call GPUs.
    catalogued
        The GPU of a shipped offer of the same instance, where there is one.
    """
    meant = candidates(offer, names)
    named = names.look_up(offer.instance_name)
    known = None if isinstance(named, Unresolved) or named.slice is not None else named.gpu
    for told in (catalogued, known):
        if told is not None:
            return told if told in meant else None
    if len(meant) > 1:
        meant = tuple(gpu for gpu in meant if _spells_out(offer.instance_name, gpu))
    return meant[0] if len(meant) == 1 else None


def _spells_out(instance: str, gpu: str) -> bool:
    """Whether the instance's name spells out the board: ``gpu_1x_h100_pcie``."""
    words = re.findall(r"[a-z]+", instance.lower())
    boards = _BOARD_WORDS.intersection(words)
    return boards == _BOARD_WORDS.intersection(gpu.split("-")) and bool(boards)


def why_unclear(offer: Any, names: GpuNames) -> str:
    """Return why an offer has no certain GPU."""
    if candidates(offer, names):
        return "board not told apart (such as SXM and PCIe)"
    return "GPU is not in the catalogue"
