"""The reader of pages and the comparison of outputs: what they find, and what they let pass."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from docs_outputs import agrees, can_be_renewed, renewed
from docs_pages import blocks, commands, files
from docs_shell import missing_things, parse


def test_a_page_is_read_as_its_reader_does(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\nSee `capplan cost --usd-per-hour 2`.\n\n"
        "    $ capplan recommend --rate 2 \\\n          --budget 3   # remark\n    An answer\n\n"
        "    more\n    $ capplan report plan.json\n\nText.\n\n"
        "    capplan facts gpus      what there is\n    not a command\n\n"
        "```yaml\n# load.yaml\nrequests_per_s: 2\n```\n\n"
        "```yaml\non: push\njobs: {a: {steps: [{run: capplan doctor}]}}\n```\n"
    )
    found = {c.text: c for c in commands(page, tmp_path)}
    assert list(found) == [
        "capplan cost --usd-per-hour 2",
        "capplan recommend --rate 2 --budget 3",
        "capplan report plan.json",
        "capplan facts gpus",
        "capplan doctor",
    ]
    assert found["capplan recommend --rate 2 --budget 3"].output == ("An answer", "", "more")
    assert found["capplan cost --usd-per-hour 2"].is_partial
    assert files(page) == {"load.yaml": "# load.yaml\nrequests_per_s: 2\n"}
    assert [block.language for block in blocks(page.read_text())] == ["", "", "yaml", "yaml"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("capplan recomend --budget 3", "no command"),
        ("capplan recommend --budget 3 --rat 2", "--rat"),
        ("capplan recommend --rate 2", "--budget"),
        ("capplan facts shew x", "no command"),
        ("capplan diff a.json b.json --format xml", "xml"),
    ],
)
def test_what_would_not_parse_is_found(text: str, reason: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parse(text)
    assert reason in caught.value.format_message()


@pytest.mark.parametrize(
    "text",
    ["make no-such-thing", "pip install 'capplan[nothing]'", "python tools/gone.py"],
)
def test_what_the_repository_lacks_is_found(text: str) -> None:
    assert missing_things(text)


def test_an_output_agrees_but_for_what_is_left_out() -> None:
    printed = "first 1.23 x\nsecond\nthird   4,567 USD\n"
    assert agrees(["first 1.23 x", "...", "third   4,567 USD"], printed)
    assert agrees(["first 1.23 x", "...nd", "third   4,567 USD"], printed)
    assert not agrees(["first 1.24 x", "...", "third   4,567 USD"], printed)
    assert agrees(["first 9 x", "second", "third 1 USD"], printed, numbers=True)
    assert not agrees(["first 9 y", "second", "third 1 USD"], printed, numbers=True)


def test_an_output_is_renewed_where_it_stands() -> None:
    page = "Text.\n\n    $ a\n    old\n\n      older\n    ...\n\nMore.\n"
    pasted = ["old", "", "  older", "..."]
    assert can_be_renewed(pasted)
    assert not can_be_renewed(["old", "...", "older"])
    again = renewed(page, 4, pasted, "new\nnewer\n\n  newest\n\nand more\n")
    assert again == "Text.\n\n    $ a\n    new\n    newer\n\n      newest\n    ...\n\nMore.\n"
