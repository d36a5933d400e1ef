"""What a notebook shows of a plan: short, whole, and text only."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from capplan.reporting.notebook_html import plan_html


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _tags(html: str) -> dict[str, int]:
    parser = _Tags()
    parser.feed(html)
    assert parser.open == []
    return parser.count


def test_it_has_the_sentence_and_a_row_an_option(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    html = plan_html(plan)
    assert plan.verdict.sentence in html
    assert _tags(html)["tr"] == 1 + len(plan.options)
    assert set(_tags(html)) == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert "412 candidates" in html


def test_a_long_list_is_cut_and_says_where_the_rest_is(sample_plans: Any) -> None:
    options = tuple(sample_plans.make_option(id=f"option-{index}") for index in range(30))
    html = plan_html(sample_plans.make_plan(options=options))
    assert _tags(html)["tr"] == 9
    assert "22 more options in to_frame()" in html


def test_where_nothing_fits_it_says_what_is_needed(sample_plans: Any) -> None:
    html = plan_html(sample_plans.infeasible_plan())
    assert "Needed: the cheapest that keeps the limits costs 9,870 USD" in html
    assert "table" not in _tags(html)


def test_names_from_files_are_text(sample_plans: Any) -> None:
    option = sample_plans.make_option(
        target="<img src=x onerror=alert(1)>", provider="\x1b[2Jacme&sons"
    )
    html = plan_html(sample_plans.make_plan(options=(option,)))
    assert "<img" not in html
    assert "acme&amp;sons" in html
    assert "\x1b" not in html
