"""Cells that no spreadsheet runs, and words that no comment on a pull request obeys."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from capplan.api.plans import render
from capplan.economics.focus import focus_rows
from capplan.facts.catalog import load_catalog
from capplan.facts.listing import price_listing
from capplan.facts.price_file import load_price_file, price_file_text
from capplan.facts.rendering import to_csv
from capplan.files.spreadsheets import inert
from capplan.reporting.diff_page import TextPage
from capplan.reporting.markdown import inline, sentence

FORMULAS = (
    *("=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0", "\uff1d1"),
    *('=HYPERLINK("http://x")', "+", "-", "@"),
)
STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def runs(cell: str) -> bool:
    """Whether a spreadsheet may take a cell for a formula."""
    return cell.startswith(STARTS) and not re.fullmatch(r"[+-]?[\d.]+([eE][+-]?\d+)?", cell)


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_text(text: str) -> None:
    assert not runs(inert(text))
    assert inert(text) == f"'{text}"


@pytest.mark.parametrize("text", ["-2.5", "+1", "-1e-9", "-.5", "", "Qwen/Qwen3-8B", "a=b", "1"])
def test_numbers_and_names_stay_as_they_are(text: str) -> None:
    assert inert(text) == text


@given(st.text())
@settings(deadline=None)
def test_no_text_at_all_is_run(text: str) -> None:
    assert not runs(inert(text))


@pytest.fixture(scope="module", params=["=cmd|' /C calc'!A0", "@SUM(1)", "\t=1"])
def evil_plan(request: Any, sample_plans: Any) -> Any:
    evil = request.param
    named = ("id", "target", "draft", "gpu", "gpu_name", "provider", "instance", "region")
    option = sample_plans.make_option(**dict.fromkeys(named, evil), warnings=(evil, evil))
    return sample_plans.make_plan(options=(option,))


@pytest.mark.parametrize("fmt", ["csv", "focus"])
def test_no_cell_of_an_export_is_a_formula(evil_plan: Any, fmt: str) -> None:
    rows = list(csv.reader(io.StringIO(render(evil_plan, fmt), newline="")))
    assert len(rows) > 1
    assert [cell for row in rows for cell in row if runs(cell)] == []
    assert any("'" in cell for cell in rows[1])


def test_rows_of_focus_in_parquet_are_the_names_themselves(evil_plan: Any) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    from capplan.reporting.focus_file import focus_parquet

    found = focus_rows(evil_plan)
    table = pq.read_table(io.BytesIO(focus_parquet(found))).to_pylist()
    evil = evil_plan.options[0].provider
    assert evil in table[0].values()


def test_prices_with_formulas_are_listed_and_written_as_text(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    evil = "=HYPERLINK(1)"
    text = f"gpu,usd_per_gpu_hour,provider,region,note\nh100-sxm-80gb,1.5,{evil},{evil},-1+1\n"
    file.write_text(text, encoding="utf-8")
    prices = load_price_file(file, load_catalog())
    for written in (to_csv(price_listing(prices)), price_file_text(prices)):
        rows = list(csv.reader(io.StringIO(written)))
        assert [cell for row in rows for cell in row if runs(cell)] == []
        assert any(cell == f"'{evil}" for cell in rows[1])


MARKUP = (
    *("**bold**", "_it_", "`code`", "<script>alert(1)</script>", "<img src=x onerror=y>", "a|b"),
    *("[x](http://e.org)", "![x](http://e.org/p.png)", "~~gone~~", "&lt;", "\\", "[^1]"),
)
LINKS = ("@octocat", "see #12", "http://e.org", "www.e.org", "a@e.org", "GH-7", "org/repo#9")


@pytest.fixture(scope="module")
def parsed() -> Any:
    """Markdown by a parser of CommonMark with the tables and links of GitHub."""
    markdown_it = pytest.importorskip("markdown_it")
    return markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])


@pytest.mark.parametrize("text", [*MARKUP, *LINKS, "# head", "> quote", "- item", "1. one", "==="])
def test_words_render_as_themselves_and_as_nothing_else(parsed: Any, text: str) -> None:
    html = parsed.render(sentence(text))
    shown = re.sub(r"<!-- -->", "", html)
    assert re.sub(r"</?p>", "", shown).strip() == _escaped(text)


@pytest.mark.parametrize("text", LINKS)
def test_what_a_forge_would_link_is_broken_by_a_comment(text: str) -> None:
    assert "<!-- -->" in inline(text)
    assert not re.search(r"@\w|#\d|://|www\.|GH-\d", inline(text))


@given(st.text())
@settings(deadline=None)
def test_no_text_leaves_its_cell_or_its_line(text: str) -> None:
    line = inline(text)
    assert "\n" not in line
    assert line.isprintable()
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<`](?!!-- -->)", line)


def test_names_in_a_difference_are_inert_in_both_notations() -> None:
    evil = "a|b\n## @octocat <b> \x1b[2J\u202e"
    for markdown in (True, False):
        page = TextPage(markdown=markdown)
        page.heading(evil)
        page.say(evil)
        page.table(("what", ""), [(evil, "1")])
        text = page.text()
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert not any(line.startswith("## @") for line in text.splitlines())
        if markdown:
            (row,) = [line for line in text.splitlines() if line.endswith("| 1 |")]
            assert len(re.findall(r"(?<!\\)\|", row)) == 3
            assert "<b>" not in text.replace("\\<", "")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
