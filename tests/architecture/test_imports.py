"""capplan is light to import, and its public names are exactly those it lists."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import capplan

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "transformers", "vllm", "pynvml", "pandas", "plotly"}
MAX_IMPORT_S = 0.200
PACKAGES = ("capplan", "profiler")


def python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def top_level_modules_after(statement: str) -> set[str]:
    code = f"import sys, json\n{statement}\n"
    code += "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    return set(json.loads(python(code).stdout))


@pytest.mark.parametrize(
    "statement",
    [
        "import capplan",
        "from capplan import recommend, load_catalog, load_profile, render",
        "import capplan.api.plans",
        "import capplan.cli",
        "import profiler.session",
        "import profiler.registry",
        "from capplan import *",
    ],
)
def test_import_loads_nothing_heavy(statement: str) -> None:
    assert top_level_modules_after(statement) & HEAVY == set()


def test_facts_load_without_anything_heavy() -> None:
    statement = "import capplan; capplan.load_catalog()"
    assert top_level_modules_after(statement) & HEAVY == set()


def test_bare_import_loads_no_dependency_at_all() -> None:
    before = top_level_modules_after("pass")
    after = top_level_modules_after("import capplan")
    assert after - before - set(sys.stdlib_module_names) == {"capplan"}


def test_import_costs_at_most_200_ms() -> None:
    # CPU time of the statement itself, best of five: other work on the machine cannot add to it.
    code = (
        "import time; start = time.process_time(); import capplan; "
        "print(time.process_time() - start)"
    )
    spent_s = min(float(python(code).stdout) for _ in range(5))
    assert spent_s <= MAX_IMPORT_S


def test_every_public_name_resolves() -> None:
    assert len(set(capplan.__all__)) == len(capplan.__all__)
    for name in capplan.__all__:
        assert getattr(capplan, name) is not None


def test_no_public_name_is_missing_from_all() -> None:
    assert set(capplan.__all__) == {"__version__", *capplan._PUBLIC}
    assert set(dir(capplan)) == set(capplan.__all__)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = capplan.no_such_thing


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring
    assert docstring.splitlines()[0].strip()


def test_public_functions_and_classes_are_documented() -> None:
    bare = []
    for path in sources():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if is_definition and not node.name.startswith("_") and not ast.get_docstring(node):
                bare.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert bare == []
