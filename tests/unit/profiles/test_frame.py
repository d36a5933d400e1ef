"""What a profile measured, as DataFrames."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from capplan.errors import RequestError
from capplan.profiles.frame import profile_frame

pd = pytest.importorskip("pandas")


def test_a_step_is_a_row_with_its_median_in_milliseconds(synthetic: Any) -> None:
    profile, _ = synthetic.profile()
    frame = profile_frame(profile)
    assert len(frame) == len(profile.timing)
    for row, cell in zip(frame.to_dict("records"), profile.timing, strict=True):
        assert row["step_time_median_ms"] == pytest.approx(statistics.median(cell.seconds) * 1e3)
        assert row["step_time_min_ms"] <= row["step_time_median_ms"] <= row["step_time_max_ms"]
        assert (row["role"], row["batch"]) == (cell.role.value, cell.batch)
        assert row["context_tokens"] == cell.context


def test_rounds_have_the_speedup_that_was_measured(synthetic: Any) -> None:
    cell = synthetic.rounds_cell(3, 0.05)
    profile, _ = synthetic.profile()
    profile = profile.model_copy(update={"rounds": (cell,)})
    (row,) = profile_frame(profile, "rounds").to_dict("records")
    plain = cell.baseline_emitted / cell.baseline_seconds
    assert row["speedup"] == pytest.approx(cell.emitted / cell.seconds / plain)
    assert row["acceptance_rate"] == pytest.approx(cell.accepted / cell.drafted)


def test_what_was_not_measured_gives_columns_and_no_row(synthetic: Any) -> None:
    profile, _ = synthetic.profile()
    profile = profile.model_copy(update={"rounds": ()})
    frame = profile_frame(profile, "rounds")
    assert len(frame) == 0
    assert "speedup" in frame.columns


def test_an_unknown_table_lists_the_known_ones(synthetic: Any) -> None:
    profile, _ = synthetic.profile()
    with pytest.raises(RequestError, match="Unknown table 'energy'") as caught:
        profile_frame(profile, "energy")
    assert "steps, rounds" in str(caught.value.remedy)
