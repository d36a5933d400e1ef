"""Pages about beliefs: their figures are printed there, or stand in the audit or the method."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools"))

from published_figures import TOPICS  # noqa: E402 - found through the line above

from capplan.facts.published import load_published_runs  # noqa: E402 - the same
from capplan.resources import models_db_dir  # noqa: E402 - the same

BELIEFS = [path for path in sorted((DOCS / "beliefs").glob("*.md")) if path.name != "README.md"]
_SOURCES = (DOCS / "guide-audit.md", DOCS / "profiling-vllm.md", *(DOCS / "method").glob("*.md"))
_FIGURE = re.compile(r"(?<![\w.,/])\d[\d,]*(?:\.\d+)?(?=x\b| %| ms\b)")


def figures(text: str) -> set[str]:
    """Return the multiples, percentages and times of a text."""
    return set(_FIGURE.findall(" ".join(text.split())))


def without_source(page: str, sources: str) -> set[str]:
    """Return figures of a page's sentences that neither its outputs nor the sources hold."""
    lines = page.splitlines()
    code = "\n".join(line for line in lines if line.startswith("    "))
    prose = "\n".join(line for line in lines if not line.startswith("    "))
    return figures(prose) - figures(sources) - figures(code)


@pytest.fixture(scope="module")
def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in _SOURCES)


def test_there_is_a_page_for_each_of_six_beliefs() -> None:
    assert len(BELIEFS) == 6


@pytest.mark.parametrize("path", BELIEFS, ids=lambda path: path.stem)
def test_a_page_says_who_says_so_what_was_measured_and_what_to_ask(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "**Said" in text
    assert "**Measured.**" in text
    assert re.search(r"capplan claims|tools/published_figures\.py", text)
    assert re.search(r"^    (\$ )?capplan (recommend|profile|pair|schedule)", text, re.MULTILINE)


@pytest.mark.parametrize("path", BELIEFS, ids=lambda path: path.stem)
def test_every_figure_of_a_sentence_has_a_source(path: Path, sources: str) -> None:
    assert not without_source(path.read_text(encoding="utf-8"), sources)


def test_a_figure_without_a_source_is_found(sources: str) -> None:
    assert without_source("It is 4.217x faster, or 93.7 %.", sources) == {"4.217", "93.7"}


# ---- the figures that are printed


@pytest.fixture(scope="module")
def runs() -> tuple[object, ...]:
    return load_published_runs(models_db_dir() / "published")


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_prints_lines_that_fit_a_page(topic: str, runs: tuple[object, ...]) -> None:
    lines = list(TOPICS[topic](runs))  # type: ignore[arg-type] - runs, as the loader gives them
    assert len(lines) > 3
    assert all(len(line) < 160 for line in lines)


def test_every_run_is_counted_at_one_load(runs: tuple[object, ...]) -> None:
    lines = list(TOPICS["load"](runs))[1:]  # type: ignore[arg-type] - the same
    counted = [int(re.split(r" {2,}", line)[1]) for line in lines]
    assert counted[0] == sum(counted[1:])


def test_the_sweeps_are_those_of_the_audit(runs: tuple[object, ...], sources: str) -> None:
    (first, *_) = TOPICS["lengths"](runs)  # type: ignore[arg-type] - the same
    told = first.partition("Fastest: ")[2].rstrip(".")
    assert told in " ".join(sources.split())


def test_mixtures_are_told_from_dense_llms(runs: tuple[object, ...]) -> None:
    lines = list(TOPICS["experts"](runs))  # type: ignore[arg-type] - the same
    kinds = {line.split()[0]: line.split()[1] for line in lines[2 : lines.index("")]}
    assert kinds["Llama-3.3-70B-Instruct"] == "no"
    assert kinds["Qwen3-30B-A3B-Instruct-2507"] == "yes"
