"""Options as a DataFrame: numbers that add up, whatever is absent."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import pytest

from capplan.errors import MissingPackageError
from capplan.reporting.csvout import columns
from capplan.reporting.frame import to_frame

pd = pytest.importorskip("pandas")


def test_a_row_is_an_option_in_order(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    frame = to_frame(plan)
    assert tuple(frame.columns) == columns()
    assert list(frame["id"]) == [option.id for option in plan.options]
    assert list(frame["rank"]) == [1, 2, 3, 4, 5]
    assert frame["usd_per_month_mid"][0] == plan.options[0].usd_per_month.mid


def test_amounts_are_numbers_and_an_absent_one_does_not_count(sample_plans: Any) -> None:
    frame = to_frame(sample_plans.make_plan())
    for name in frame.columns:
        if name.endswith(("_low", "_mid", "_high")) or "usd" in name:
            assert pd.api.types.is_numeric_dtype(frame[name]), name
    assert pd.isna(frame["cost_ratio_mid"].iloc[-1])  # no draft, no ratio
    assert frame["cost_ratio_mid"].sum() > 0


def test_exact_amounts_add_up_to_the_last_digit(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    exact = to_frame(plan, exact=True)["bill_total_usd"].sum()
    assert isinstance(exact, Decimal)
    bills = [option.bill for option in plan.options if option.bill is not None]
    assert exact == sum((bill.total_usd for bill in bills), Decimal(0))
    assert 0 < len(bills) < len(plan.options)  # a plan of an older version may have none
    assert to_frame(plan)["bill_total_usd"].dtype == "float64"


def test_where_nothing_fits_the_frame_has_columns_and_no_row(sample_plans: Any) -> None:
    frame = to_frame(sample_plans.infeasible_plan())
    assert len(frame) == 0
    assert tuple(frame.columns) == columns()


def test_without_pandas_the_error_says_what_to_install(
    sample_plans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackageError, match="pandas") as caught:
        to_frame(sample_plans.make_plan())
    assert "capplan[notebook]" in str(caught.value.remedy)
