"""The scripts of benchmarks/, imported as they import each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def benchmark_script() -> Iterator[Callable[[str], ModuleType]]:
    """Import a script by its name; the folder is on the path as for a script that is run."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
        yield import_module
