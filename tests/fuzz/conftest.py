"""The readers and the ways to break their files are those of ``tools/fuzz``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

TOOLS = Path(__file__).parents[2] / "tools" / "fuzz"


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def targets() -> Any:
    """The module with TARGETS and check."""
    return _tool("targets")


@pytest.fixture(scope="session")
def mutations() -> Any:
    """The module with mutated."""
    return _tool("mutations")
