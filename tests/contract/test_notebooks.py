"""The notebooks run, and show what is committed.

After a change of figures: ``CAPPLAN_UPDATE_GOLDEN=1 pytest tests/contract/test_notebooks.py``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
LARGEST_BYTES = 300_000
_TODAY = "prices-of-today"
"""Cells with this tag show what the installed price lists know: run, not compared."""
_UPDATE = os.environ.get("CAPPLAN_UPDATE_GOLDEN") == "1"

# Jupyter's own packages, not ours, warn of each other's deprecations.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def shown(cell: Any) -> list[str]:
    """Return what a reader of the cell's text sees, and our own HTML; spaces do not count."""
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        texts.append(output.get("text") or data.get("text/plain", ""))
        html = data.get("text/html", "")
        if "capplan-plan" in html:
            texts.append(html)
    return [" ".join(text.split()) for text in texts]


def _executed(path: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    )
    return client.execute(env=environment)


def _code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_three_notebooks() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_is_small_whole_and_without_errors(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST_BYTES
    code = _code(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs
    assert not [one for one in outputs if one.output_type == "error"]
    assert not [one for one in outputs if one.get("name") == "stderr"]
    assert str(Path.home()) not in path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_is_committed(path: Path) -> None:
    committed = nbformat.read(path, as_version=4)
    executed = _executed(path)
    if _UPDATE:
        for cell in _code(executed):
            cell.metadata.pop("execution", None)  # times of this run
        nbformat.write(executed, path)
        return
    for before, after in zip(_code(committed), _code(executed), strict=True):
        if _TODAY not in before.metadata.get("tags", []):
            assert shown(after) == shown(before), before.source
