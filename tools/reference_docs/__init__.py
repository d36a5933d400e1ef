"""Reference pages made from the code: commands, public names, errors, file formats."""

from __future__ import annotations

from pathlib import Path

from reference_docs.cli_pages import cli_pages
from reference_docs.error_page import error_page
from reference_docs.python_pages import python_pages
from reference_docs.schema_page import schema_page

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
MADE = "*Made from the code by `python tools/write_reference.py`; a test compares.*\n"


def reference_pages() -> dict[str, str]:
    """Return every generated page: its path below ``docs/reference``, and its text."""
    bodies = {
        **cli_pages(),
        **python_pages(),
        "errors.md": error_page(),
        "schemas.md": schema_page(),
    }
    return {name: f"{text.rstrip()}\n\n{MADE}" for name, text in bodies.items()}
