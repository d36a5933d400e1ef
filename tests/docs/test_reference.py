"""The reference pages are what the code says today."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import capplan
from capplan.cli.main import cli

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from reference_docs import FOLDER, reference_pages  # noqa: E402 - found through the line above
from reference_docs.python_pages import GROUPS  # noqa: E402 - the same
from write_reference import stale  # noqa: E402 - the same


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


def test_the_committed_pages_are_the_codes_own(pages: dict[str, str]) -> None:
    if os.environ.get("CAPPLAN_UPDATE_GOLDEN") == "1":
        for name in stale(pages):
            if name in pages:
                (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
                (FOLDER / name).write_text(pages[name], encoding="utf-8")
    assert not stale(pages), "python tools/write_reference.py"


def test_every_public_name_is_on_one_page() -> None:
    listed = [name for _, *names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(capplan.__all__)


def test_every_command_has_a_page_with_its_options(pages: dict[str, str]) -> None:
    for name in cli.list_commands(None):  # type: ignore[arg-type] - our group ignores it
        assert f"capplan {name}" in pages[f"cli/{name}.md"]
        assert "Examples:" in pages[f"cli/{name}.md"]
    assert "`--fail-over PERCENT" in pages["cli/diff.md"]


def test_every_parameter_of_a_function_is_explained_where_the_docstring_does(
    pages: dict[str, str],
) -> None:
    assert "- `request`: Targets, traffic" in pages["library/planning.md"]
    assert "| `budget_usd_per_month` |" in pages["library/planning.md"]


def test_every_exit_code_is_told(pages: dict[str, str]) -> None:
    for code in (0, 1, 2, 3, 130):
        assert f"| {code} |" in pages["errors.md"]
    assert "`ProfileInvalidError`" in pages["errors.md"]


def test_no_page_names_a_machine_or_an_address(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert " at 0x" not in text, name
        assert str(ROOT) not in text, name
