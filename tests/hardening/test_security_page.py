"""Every claim of SECURITY.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_is_named_is_there(file: str, test: str) -> None:
    path = ROOT / file
    assert path.is_file()
    assert re.search(rf"def {test}\(", path.read_text(encoding="utf-8"))


def test_every_claim_of_a_table_names_one() -> None:
    claims = [line for line in PAGE.splitlines() if line.startswith("| ") and "why" not in line]
    trusted = [line for line in claims if "tests/" not in line]
    heads = [line for line in trusted if line in ("| claim | test |", "| trusted | why |")]
    assert len(NAMED) > 30
    assert len(trusted) - len(heads) == 3  # what is trusted needs no test
