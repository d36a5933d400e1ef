"""Everything in this folder needs a CUDA device."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the folder's tests and skip them where torch sees no CUDA device."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if not here:
        return
    try:
        import torch
    except ImportError:
        reason = "needs torch"
    else:
        reason = "" if torch.cuda.is_available() else "needs a CUDA device"
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
