"""Scores: error, bias, sign, coverage; and how they are shown."""

from __future__ import annotations

import json

import pytest

from capplan.validation.scoring import Scored, result_of, score
from capplan.validation.text import render_json, render_table


def row(source: str, measured: float, predicted: float, *, speedup: bool = True) -> Scored:
    return Scored(source, measured, predicted, predicted * 0.95, predicted * 1.05, speedup, "row")


ROWS = [row("a", 2.0, 2.2), row("a", 0.8, 1.1), row("b", 1.0, 0.99), row("b", 1.0, 1.03)]


def test_errors_are_fractions_of_the_measured_value() -> None:
    found = score(ROWS)
    assert found.n == 4
    assert found.mape == pytest.approx((0.1 + 0.375 + 0.01 + 0.03) / 4)
    assert found.bias == pytest.approx((0.1 + 0.375 - 0.01 + 0.03) / 4)
    assert found.coverage == 0.5


def test_the_sign_is_that_of_speedup_less_one() -> None:
    assert score(ROWS).sign_accuracy == 0.5  # rows measured at exactly 1 have none
    assert score([row("b", 1.0, 0.99)]).sign_accuracy is None
    assert score([row("a", 2.0, 0.9, speedup=False)]).sign_accuracy is None


def test_results_are_pooled_and_by_source_and_absent_without_data() -> None:
    result = result_of(ROWS)
    assert result is not None
    assert {source: found.n for source, found in result.sets.items()} == {"a": 2, "b": 2}
    assert result.pooled.n == 4
    assert result_of([]) is None


def test_json_has_exactly_the_promised_keys() -> None:
    result = result_of(ROWS)
    assert result is not None
    content = json.loads(render_json({"step": result}))
    assert set(content) == {"modes"}
    assert set(content["modes"]["step"]) == {"pooled", "sets"}
    keys = {"n", "mape", "bias", "sign_accuracy", "coverage"}
    assert set(content["modes"]["step"]["pooled"]) == keys
    assert {name: set(found) for name, found in content["modes"]["step"]["sets"].items()} == {
        "a": keys,
        "b": keys,
    }


def test_the_table_lists_the_worst_rows_when_asked() -> None:
    result = result_of(ROWS)
    assert result is not None
    table = render_table({"step": result}, residuals=1)
    assert table.count("measured 0.8, predicted 1.1") == 1
    assert "measured 2, predicted 2.2" not in table
    assert "all sources" in table
    assert render_table({}).startswith("Nothing")
