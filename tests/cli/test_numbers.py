"""Numbers as people type them."""

from __future__ import annotations

import click
import pytest

from capplan.cli.numbers import TokenCount


@pytest.mark.parametrize(
    ("typed", "tokens"),
    [("32768", 32768), ("32,768", 32768), ("32k", 32000), ("32K", 32768), ("1.5k", 1500)],
)
def test_token_counts_are_read_as_vllm_reads_them(typed: str, tokens: int) -> None:
    assert TokenCount().convert(typed, None, None) == tokens


@pytest.mark.parametrize("typed", ["", "0", "-1", "1.5", "32 GB", "many", "nan"])
def test_anything_else_is_refused(typed: str) -> None:
    with pytest.raises(click.BadParameter, match="not a count of tokens"):
        TokenCount().convert(typed, None, None)
