"""Names that drivers and schedulers report, to ids of the catalogue. Never a guess."""

from __future__ import annotations

import re
from functools import lru_cache

from capplan.facts.gpus import GPU_COLUMNS
from capplan.facts.rows import read_family
from capplan.resources import models_db_dir

_SEPARATORS = re.compile(r"[\s_-]+")
_ALTERNATIVES = "|"


def _normal(name: str) -> str:
    """Return the name in lower case with one blank between words (``A100-SXM4-80GB`` too)."""
    return _SEPARATORS.sub(" ", name.strip().lower())


@lru_cache(maxsize=1)
def _ids_by_name() -> dict[str, str]:
    rows = read_family(models_db_dir() / "gpus", GPU_COLUMNS)
    return {
        _normal(name): row.cells["id"]
        for row in rows
        for name in row.cells["device_names"].split(_ALTERNATIVES)
        if name
    }


def gpu_id_from_device_name(name: str) -> str | None:
    """Return the catalogue's id of the GPU that NVML, PyTorch or a node label names.

    The whole name must match: boards that share a chip differ in bandwidth and memory
    (A100 PCIe and SXM, RTX 4090 and 4090 Laptop, an H100 and a MIG slice of it), so an
    unknown variant is None rather than its nearest relative.

    Examples
    --------
    >>> gpu_id_from_device_name("NVIDIA H100 80GB HBM3")
    'h100-sxm-80gb'
    >>> gpu_id_from_device_name("NVIDIA L40") is None
    True
    """
    return _ids_by_name().get(_normal(name))
