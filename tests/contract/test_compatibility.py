"""The page of versions says what the code says."""

from __future__ import annotations

import csv
import re
import tomllib
from pathlib import Path

import pytest

from capplan.deploy.fields import SPECULATIVE_KEYS
from capplan.deploy.versions import CHECKED, REMOVED_METHODS
from profiler.backends.vllm_versions import KNOWN, METHODS, OLDEST, REMOVED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
WORDS = ("run", "parsed", "read", "no", "not known", "not run", "tried")


def test_the_versions_in_the_table_are_those_that_the_adapters_know() -> None:
    (heads,) = re.findall(r"^\| what capplan does \|(.*)\|$", PAGE, re.MULTILINE)
    named = {tuple(map(int, version.split("."))) for version in re.findall(r"\d+\.\d+", heads)}
    assert named == set(KNOWN) == set(CHECKED)
    assert f"refused below {OLDEST[0]}.{OLDEST[1]}" in PAGE


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.value)
def test_every_way_to_draft_has_a_row(method: object) -> None:
    said = {"draft_model": "draft LLM", "ngram": "n-gram"}
    name = getattr(method, "value", "")
    assert said.get(name, f"`{name}`") in PAGE


def test_what_the_newer_version_lost_and_gained_is_told() -> None:
    for name in {*REMOVED_METHODS, *(method.value for method in REMOVED)}:
        assert re.search(rf"`{name}`.*removed", PAGE), name
    for key, (since, _) in SPECULATIVE_KEYS.items():
        if since is not None:
            assert f"`{key}`" in PAGE or f"`{key.partition('_')[0]}_*`" in PAGE, key


def test_the_count_of_flags_is_that_of_the_table() -> None:
    with (ROOT / "capplan" / "deploy" / "flags.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    old = sum(not row["since"] for row in rows)
    assert f"| {old} | the same, and {len(rows) - old} more |" in PAGE


def test_every_cell_of_what_is_done_begins_with_one_of_the_words() -> None:
    table = PAGE.partition("| what capplan does |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) > 10
    for line in table:
        for cell in line.strip("|").split("|")[1:]:
            assert cell.strip().startswith((*WORDS, "held", "the same", "commands", "counted"))


def test_the_versions_of_python_are_those_that_the_package_claims() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = set(re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"])))
    (heads,) = re.findall(r"^\| \| Linux, (.*)\| newer \|$", PAGE, re.MULTILINE)
    assert set(re.findall(r"3\.\d+", heads)) == claimed
