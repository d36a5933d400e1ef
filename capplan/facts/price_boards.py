"""Which GPU of the catalogue an offer of gpuhunt has. Certain, or none."""

from __future__ import annotations

import re
from typing import Any

from capplan.facts.gpu_names import GpuNames, Unresolved

_BOARD_WORDS = frozenset({"sxm", "pcie", "nvl", "server", "workstation"})

_BOARDS: dict[str, tuple[str, ...]] = {
    "A10/24": ("a10",),
    "A100/40": ("a100-sxm-40gb", "a100-pcie-40gb"),
    "A100/80": ("a100-sxm-80gb", "a100-pcie-80gb"),
    "A10G/24": ("a10g",),
    "A16/16": ("a16",),
    "A40/48": ("a40",),
    "A4000/16": ("rtx-a4000",),
    "A5000/24": ("rtx-a5000",),
    "A6000/48": ("rtx-a6000",),
    "B200/180": ("b200-sxm-180gb",),
    "GH200/96": ("gh200-96gb",),
    "H100/80": ("h100-sxm-80gb", "h100-pcie-80gb"),
    "H100NVL/94": ("h100-nvl-94gb",),
    "H200/141": ("h200-sxm-141gb",),
    "H200NVL/141": ("h200-nvl-141gb",),
    "L4/24": ("l4",),
    "L40/48": ("l40",),
    "L40S/48": ("l40s",),
    "MI300X/192": ("mi300x",),
    "MI325X/256": ("mi325x",),
    "RTX3090/24": ("rtx-3090",),
    "RTX3090Ti/24": ("rtx-3090-ti",),
    "RTX4090/24": ("rtx-4090",),
    "RTX5090/32": ("rtx-5090",),
    "RTX6000Ada/48": ("rtx-6000-ada",),
    "RTXPRO6000/96": (*("rtx-pro-6000-server", "rtx-pro-6000-workstation", "rtx-pro-6000-max-q"),),
    "T4/16": ("t4",),
    "V100/16": ("v100-sxm-16gb", "v100-pcie-16gb"),
    "V100/32": ("v100-sxm-32gb", "v100-pcie-32gb", "v100s-pcie-32gb"),
}
"""gpuhunt's name and GB to every GPU that it may mean (gpuhunt 0.1.34)."""


def candidates(offer: Any) -> tuple[str, ...]:
    """Return every GPU of the catalogue that gpuhunt may mean."""
    return _BOARDS.get(f"{offer.gpu_name}/{offer.gpu_memory or 0:.0f}", ())


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
    meant = candidates(offer)
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


def why_unclear(offer: Any) -> str:
    """Return why an offer has no certain GPU."""
    if candidates(offer):
        return "board not told apart (such as SXM and PCIe)"
    return "GPU is not in the catalogue"
