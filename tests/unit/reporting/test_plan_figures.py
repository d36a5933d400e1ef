"""Figures of a notebook: well-formed SVG that shows each option once, where its figures put it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from capplan.errors import RequestError
from capplan.reporting import svg_chart
from capplan.reporting.plan_figures import plan_figure
from capplan.schema.quantity import Quantity

_SVG = "{http://www.w3.org/2000/svg}"


def _hovers(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [title.text or "" for title in root.iter(f"{_SVG}title")]


def _dots(svg: str) -> Iterator[tuple[float, float, str]]:
    for circle in ElementTree.fromstring(svg).iter(f"{_SVG}circle"):
        title = circle.find(f"{_SVG}title")
        if title is not None:
            yield float(circle.attrib["cx"]), float(circle.attrib["cy"]), title.text or ""


def test_every_option_is_one_symbol_which_says_what_it_is(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    hovers = _hovers(plan_figure(plan).svg)
    assert len(hovers) == len(plan.options) == 5
    assert all("per million output tokens" in hover for hover in hovers)
    assert sum("Qwen3-0.6B" in hover for hover in hovers) == sum(
        option.draft == sample_plans.DRAFT for option in plan.options
    )


def test_a_faster_option_stands_further_left_and_a_dearer_one_higher(sample_plans: Any) -> None:
    fast = sample_plans.make_option(
        id="fast",
        tpot_ms=Quantity(low=4, mid=5, high=6),
        usd_per_million_output_tokens=Quantity(low=8, mid=9, high=10),
    )
    plan = sample_plans.make_plan(options=(sample_plans.make_option(), fast))
    at = {"TPOT 5" in hover: (x, y) for x, y, hover in _dots(plan_figure(plan).svg)}
    assert at[True][0] < at[False][0]
    assert at[True][1] < at[False][1]  # pixels count from the top


def test_the_limit_of_the_request_is_drawn_and_only_then(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    assert "limit 40 ms" in plan_figure(plan).svg
    free = plan.request.model_copy(
        update={"slo": plan.request.slo.model_copy(update={"tpot_ms": None})}
    )
    assert "limit" not in plan_figure(sample_plans.make_plan(request=free)).svg


def test_names_from_files_are_text_in_it(sample_plans: Any) -> None:
    option = sample_plans.make_option(target="<script>x</script>\x1b[2J\x00", provider='"&<b>')
    svg = plan_figure(sample_plans.make_plan(options=(option,))).svg
    assert "<script" not in svg
    assert "\x1b" not in svg
    (hover,) = _hovers(svg)
    assert "script>" in hover
    assert '"&<b>' in hover


def test_what_costs_nothing_can_be_drawn(sample_plans: Any) -> None:
    nothing = Quantity(low=0, mid=0, high=0)
    option = sample_plans.make_option(usd_per_million_output_tokens=nothing)
    assert len(_hovers(plan_figure(sample_plans.make_plan(options=(option,))).svg)) == 1


def test_the_load_figure_has_a_point_a_load_and_the_best_length_there(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    curve = plan.options[0].load_curve
    svg = plan_figure(plan, "load").svg
    assert len(list(_dots(svg))) == len(curve)
    assert sum("best at" in hover for hover in _hovers(svg)) == len(curve)
    assert f"N = {plan.options[0].num_speculative_tokens}, calibrated" in svg


def test_the_band_holds_the_curve(sample_plans: Any) -> None:
    svg = plan_figure(sample_plans.make_plan(), "load").svg
    (points,) = re.findall(r'<polygon points="([^"]+)"', svg)
    corners = [tuple(map(float, corner.split(","))) for corner in points.split()]
    half = len(corners) // 2
    above, below = dict(corners[:half]), dict(corners[half:])
    for x, y, _ in _dots(svg):
        assert above[x] <= y <= below[x]


def test_the_same_figure_is_there_for_plotly_and_as_a_file(
    sample_plans: Any, tmp_path: Path
) -> None:
    figure = plan_figure(sample_plans.make_plan())
    assert figure.save(tmp_path / "cost.svg").read_text(encoding="utf-8") == figure.svg
    assert figure._repr_svg_() == figure.svg
    assert len(repr(figure)) < 50
    assert type(figure.interactive()).__module__.startswith("plotly")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kind": "bars"}, "Unknown figure 'bars'"),
        ({"rank": 6}, "5 options, no option 6"),
        ({"rank": 0}, "5 options, no option 0"),
        ({"kind": "load", "rank": 5}, "does not speculate"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    sample_plans: Any, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        plan_figure(sample_plans.make_plan(), **arguments)


def test_where_nothing_fits_the_error_says_what_is_needed(sample_plans: Any) -> None:
    with pytest.raises(RequestError, match="no option 1") as caught:
        plan_figure(sample_plans.infeasible_plan())
    assert "9,870 USD" in str(caught.value.remedy)


_positive = st.floats(1e-6, 1e9)


@given(st.lists(_positive, min_size=1, max_size=6))
def test_an_axis_holds_all_values_and_few_round_ticks(values: list[float]) -> None:
    low, high, is_log = svg_chart.fitted(values)
    scale = svg_chart.across(low, high, is_log=is_log)
    assert low <= min(values)
    assert max(values) <= high
    ticks = scale.ticks()
    assert len(ticks) <= 7
    assert all(low * (1 - 1e-9) <= tick <= high * (1 + 1e-9) for tick in ticks)
    places = [scale.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(svg_chart.LEFT <= place <= svg_chart.WIDTH for place in places)


def test_a_picture_is_not_written_under_another_kinds_name(
    sample_plans: Any, tmp_path: Path
) -> None:
    figure = plan_figure(sample_plans.make_plan())
    with pytest.raises(RequestError, match=r"ends in \.png"):
        figure.save(tmp_path / "cost.png")
    assert not (tmp_path / "cost.png").exists()
