"""Loads the profile maker of tests/unit/estimate by path, as its own conftest does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def synthetic() -> Any:
    """The module that makes profiles with known coefficients."""
    path = Path(__file__).parents[1] / "estimate" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic_profiles_of_advice", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
