"""Several services on the page: the terminal's figures, as tables."""

from __future__ import annotations

from typing import Any

import pytest

import capplan
from capplan.reporting import formatting as fmt
from capplan.reporting.render import render
from capplan.reporting.services_view import services_section
from capplan.reporting.tables import Section
from capplan.schema.fleet import ServiceFleet, SharingCause, Unplaced


@pytest.fixture(scope="module")
def plan(sample_plans: Any) -> capplan.Plan:
    return capplan.recommend(sample_plans.two_services("chat", "<extract>"))


@pytest.fixture(scope="module")
def fleet(plan: capplan.Plan) -> ServiceFleet:
    assert plan.fleet is not None
    return plan.fleet


def section_of(fleet: ServiceFleet, **changes: object) -> Section:
    found = services_section(fleet.model_copy(update=changes))
    assert found is not None
    return found


def test_a_plan_of_one_service_has_no_such_section() -> None:
    assert services_section(None) is None


def test_every_way_is_a_table_with_a_row_a_part(fleet: ServiceFleet) -> None:
    tables = section_of(fleet).tables[: len(fleet.ways)]
    assert [len(table.rows) for table in tables] == [len(way.parts) for way in fleet.ways]
    assert tables[0].label.endswith("a month, the cheapest")
    assert all("cheapest" not in table.label for table in tables[1:])
    for table, way in zip(tables, fleet.ways, strict=True):
        assert fmt.usd_interval(way.usd_per_month) in table.label
        for row, part in zip(table.rows, way.parts, strict=True):
            assert len(row) == len(table.head)
            assert row[0] == part.label
            assert row[3].startswith(f"{fmt.usd(part.usd_per_month.mid)} (")
            assert row[4] == fmt.usd(part.usd_per_month_unused)
            assert ("limit 12" in row[6]) == ("chat" in part.services)
            assert row[7] == f"{fmt.number(part.ttft_ms.mid)} ms"


def test_why_shared_replicas_cost_more_or_less_adds_up_in_its_table(fleet: ServiceFleet) -> None:
    causes = fleet.causes
    why = section_of(fleet).tables[-1]
    assert len(why.rows) == len(causes) > 0
    total = sum(cause.usd_per_month for cause in causes)
    assert f"{fmt.usd(abs(total))} USD {'more' if total > 0 else 'less'}" in why.label
    assert [row[2][0] for row in why.rows] == [
        "+" if cause.usd_per_month > 0 else "-" for cause in causes
    ]


@pytest.mark.parametrize(
    ("usd", "said"),
    [((5.0, -7.0), "costs 2.00 USD less than apart"), ((5.0, -5.0), "as much as apart")],
)
def test_what_shared_replicas_save_is_said_as_such(
    fleet: ServiceFleet, usd: tuple[float, ...], said: str
) -> None:
    causes = tuple(
        SharingCause(cause="mix of requests", usd_per_month=one, said="s") for one in usd
    )
    assert said in section_of(fleet, causes=causes).tables[-1].label


def test_one_way_alone_is_not_called_the_cheapest_and_a_dear_one_is_above_the_budget(
    fleet: ServiceFleet,
) -> None:
    dear = fleet.ways[0].model_copy(update={"within_budget": False})
    (table,) = section_of(fleet, ways=(dear,), causes=()).tables
    assert table.label.endswith("a month, above the budget")


def test_services_that_cannot_be_placed_and_notes_are_sentences(fleet: ServiceFleet) -> None:
    lost = Unplaced(services=("a", "b"), why="two LLMs", remedy="r")
    alone = Unplaced(services=("c",), why="no memory", remedy="r")
    says = section_of(fleet, unplaced=(lost, alone), notes=("every service is alone",)).says
    assert says[0] == "90,000 USD a month are there for all of them."
    assert says[1:] == (
        "Not together: a + b: two LLMs",
        "Not at all: c: no memory",
        "Every service is alone.",
    )


def test_the_page_shows_the_tables_and_no_markup_of_a_name(plan: capplan.Plan) -> None:
    page = render(plan, "html")
    assert "Several services, apart and together" in page
    assert "&lt;extract&gt;" in page
    assert "<extract>" not in page.partition("<script")[0]
