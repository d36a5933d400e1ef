"""What the page's figures carry: plotly's script, axes that read as numbers, curves as such."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.reporting import cost_figures, figures
from capplan.reporting.figure_style import LIGHT
from capplan.reporting.money_view import build_money

LICENCE = "/**\n* plotly.js v9\n* Licensed under the MIT license\n*/\n"
OPENS = '(function(root, factory) {} (typeof self !== "undefined" ? self : this, () => {\n'
INSIDE = '"use strict";var Plotly=(()=>{return {}})();\nwindow.Plotly = Plotly;\n'


def _bundle(monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    monkeypatch.setattr(figures, "get_plotlyjs", lambda: text)
    return figures.plotly_js()


def test_the_wrapper_for_module_loaders_is_left_out_and_the_licence_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = _bundle(monkeypatch, f"{LICENCE}{OPENS}{INSIDE}return Plotly;\n}}));")
    assert found == f"{LICENCE}{INSIDE}"


@pytest.mark.parametrize("text", [INSIDE, f"{OPENS}{INSIDE}", f"{OPENS}{INSIDE}return P;}}));"])
def test_a_bundle_of_another_make_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert _bundle(monkeypatch, text) == text


def test_the_installed_bundle_has_the_wrapper_that_is_known() -> None:
    script = figures.plotly_js()
    assert script.startswith("/**\n* plotly.js v")
    assert "Licensed under the MIT license" in script[:400]
    assert "root.moduleName" not in script
    assert script.rstrip().endswith("window.Plotly = Plotly;")


def test_the_curve_of_a_bill_goes_through_the_rows_of_its_table(sample_plans: Any) -> None:
    money = build_money(sample_plans.make_option())
    assert money is not None
    figure = cost_figures.utilisation_figure(money.utilisation, LIGHT)
    curve, rows, planned = figure.data
    bill = curve.x[0] * curve.y[0]
    assert [x * y for x, y in zip(curve.x, curve.y, strict=True)] == pytest.approx(
        [bill] * len(curve.x)
    )
    for trace in (rows, planned):
        assert [x * y for x, y in zip(trace.x, trace.y, strict=True)] == pytest.approx(
            [bill] * len(trace.x)
        )
    assert (curve.x[0], curve.x[-1]) == pytest.approx((min(rows.x), max(rows.x)))


def test_a_logarithmic_axis_names_whole_numbers(sample_plans: Any) -> None:
    options = [
        sample_plans.make_option(
            id=str(factor), tpot_ms=sample_plans.make_option().tpot_ms.scaled(factor)
        )
        for factor in (1.0, 20.0)
    ]
    figure = cost_figures.cost_figure(sample_plans.make_plan(options=tuple(options)), LIGHT)
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.xaxis.tickformat == ",~r"
    assert figure.layout.yaxis.type is None


def test_the_first_best_length_is_named_and_those_after_it_are_numbers(sample_plans: Any) -> None:
    option = sample_plans.make_option()
    figure = figures.speedup_figure(option, LIGHT)
    (best,) = (trace for trace in figure.data if trace.name == "Best N at each load")
    said = [text for text in best.text if text]
    assert said[0].startswith("N = ")
    assert said[1:]
    assert all(text.isdigit() for text in said[1:])
