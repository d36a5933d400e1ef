"""The page's table of lengths by batch and context."""

from __future__ import annotations

import re
from typing import Any

import pytest

from capplan.reporting import render
from capplan.reporting.schedule_view import ScheduleView, build_schedule
from capplan.schema.quantity import Quantity


@pytest.fixture
def view(sample_plans: Any) -> ScheduleView:
    found = build_schedule(sample_plans.length_schedule())
    assert found is not None
    return found


def section(plan: Any) -> str:
    """The section as it stands in the page, without the scripts."""
    found = re.search(
        r'<section aria-labelledby="lengths-\d+">.*?</section>', render(plan, "html"), re.DOTALL
    )
    return found[0] if found else ""


def fact(view: ScheduleView, start: str) -> str:
    (text,) = (text for label, text in view.facts if label.startswith(start))
    return text


def test_the_planned_context_is_the_first_column_and_the_others_follow_by_length(
    view: ScheduleView,
) -> None:
    assert view.contexts == ("1,700", "425", "6,800")
    assert [[cell.text for cell in row.lengths] for row in view.rows] == [
        ["3", "3", "4"],
        ["3", "0", "4"],
        ["1", "0", "4"],
        ["0", "0", ""],
        ["0", "0", ""],
    ]


def test_no_speculation_and_what_does_not_fit_are_told_apart(view: ScheduleView) -> None:
    last = view.rows[-1].lengths
    assert [cell.is_off for cell in last] == [True, True, False]
    assert [cell.beyond for cell in last] == [False, False, True]


def test_gain_tax_load_and_graphs_stand_beside_the_table(view: ScheduleView) -> None:
    assert view.advice == "Run the schedule: the gain over N = 2 is larger than its interval."
    assert fact(view, "Gain over N = 2") == "+3.1 % (+1.2 to +5.0) tokens/s, 95 % interval"
    assert fact(view, "Before the tax") == "+4.4 % tokens/s"
    assert fact(view, "Tax of leaving").startswith("TPOT +12.0 % (4.0 to 35.0) at this load")
    assert fact(view, "CUDA graphs reach").startswith(
        "128 tokens a step: no speculation to 128 at once, N = 1 to 64 at once"
    )


def test_without_graphs_nothing_is_said_of_their_edge(sample_plans: Any) -> None:
    found = build_schedule(sample_plans.length_schedule(captured_tokens=None, graph_edges=()))
    assert found is not None
    assert not [label for label, _ in found.facts if "graphs" in label]


def test_the_least_time_of_each_row_is_marked(view: ScheduleView) -> None:
    assert [[least for _, least in row.times] for row in view.rows] == [
        [True, False, False],
        [True, False, False],
        [True, False, False],
        [False, True, False],
        [False, True, False],
    ]


def test_a_share_too_small_to_show_is_not_shown_as_none(view: ScheduleView) -> None:
    shares = [row.share for row in view.rows]
    assert shares == ["under 0.1 %", "37 %", "61 %", "2 %", "under 0.1 %"]


def test_the_page_holds_it_without_scripts_and_print_needs_nothing_else(sample_plans: Any) -> None:
    text = section(sample_plans.make_plan())
    assert "<script" not in text
    assert "data-figure" not in text
    assert text.count("<tr>") == 2 + 5
    assert "&#34;num_speculative_tokens_per_batch_size&#34;:[[1,16,3],[17,40,1],[41,56,0]]" in text
    assert text.count("does not fit") == 2


def test_a_plan_of_an_older_version_has_no_such_section(sample_plans: Any) -> None:
    assert section(sample_plans.make_plan(schedules=())) == ""


def test_where_a_plain_option_wins_the_one_that_was_scheduled_is_named(sample_plans: Any) -> None:
    plain, drafting = sample_plans.make_baseline(), sample_plans.make_option()
    text = section(sample_plans.make_plan(options=(plain, drafting)))
    assert "Length by batch and context: Qwen3-32B + Qwen3-0.6B, N\u00a0=\u00a03" in text


def test_a_fixed_length_is_told_from_the_plans_own(sample_plans: Any) -> None:
    nothing = Quantity(low=-1e-9, mid=0.0, high=1e-9)
    fixed = sample_plans.length_schedule(recommended="fixed", gain=nothing)
    same, other = build_schedule(fixed, 2), build_schedule(fixed, 3)
    assert same is not None
    assert other is not None
    assert same.advice == "Run N = 2: a schedule gains nothing over it at this load."
    assert other.advice.startswith(f"{same.advice} The plan's N = 3 is the best at its one load")


def test_a_schedule_that_never_drafts_sets_nothing(sample_plans: Any) -> None:
    off = sample_plans.length_schedule(
        ranges=((1, 56, 0),), num_speculative_tokens=0, best_fixed=0, at_context=(),
        recommended="fixed", reason="no speculation is best at every batch of the load",
    )  # fmt: skip
    found = build_schedule(off)
    assert found is not None
    assert found.setting == ""
    assert found.advice.startswith("Run no speculation: ")
    assert found.contexts == ("1,700",)
