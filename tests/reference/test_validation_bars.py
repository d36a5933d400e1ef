"""How far estimates are from published measurements: the figures of docs/method, as bounds."""

from __future__ import annotations

import csv
import shutil
from functools import cache
from pathlib import Path

import pytest

from capplan.api.validation import validate
from capplan.resources import models_db_dir
from capplan.validation.scoring import ModeResult

BOUNDS = {
    # mode: (mean absolute error, absolute bias)
    "step": (0.025, 0.005),
    "forward": (0.050, 0.010),
    "verify": (0.015, 0.005),
    "batch": (0.070, 0.040),
    "acceptance": (0.010, 0.005),
    "choose_n": (0.004, 0.004),
    "datasheet": (0.080, 0.030),
    "datasheet_family": (0.080, 0.030),
    "decode": (0.045, 0.010),
    "decode_datasheet": (0.200, 0.050),
    "serving": (0.060, 0.020),
    "serving_ttft": (0.200, 0.050),
}


@cache
def result(mode: str) -> ModeResult:
    return validate(modes=[mode]).modes[mode]


@pytest.mark.parametrize("mode", BOUNDS)
def test_errors_stay_within_their_bounds(mode: str) -> None:
    error, bias = BOUNDS[mode]
    assert result(mode).pooled.mape <= error
    assert abs(result(mode).pooled.bias) <= bias


@pytest.mark.parametrize("mode", BOUNDS)
def test_nominal_90_percent_intervals_cover_85_to_95(mode: str) -> None:
    assert 0.85 <= result(mode).pooled.coverage <= 0.95


@pytest.mark.parametrize("mode", ["step", "forward", "choose_n", "datasheet", "datasheet_family"])
def test_the_side_of_one_is_right(mode: str) -> None:
    sign = result(mode).pooled.sign_accuracy
    assert sign is not None
    assert sign >= 0.97


def test_every_row_that_can_be_predicted_is() -> None:
    assert result("step").pooled.n == 710
    assert result("step").sets["specbundle"].n == 369
    assert result("step").sets["eagle2"].n == 169
    assert result("verify").pooled.n == 89
    assert result("choose_n").pooled.n == 76


def test_the_seventh_position_from_the_third_and_the_fifth() -> None:
    found = result("acceptance").sets["specbundle"]
    assert found.n == 87
    assert found.mape <= 0.010


def test_one_odd_report_does_not_speak_for_its_engine(tmp_path: Path) -> None:
    """An SGLang deployment with a draft pass of 1.9 ms lost where all others gained."""
    folder = Path(shutil.copytree(models_db_dir() / "published", tmp_path / "published"))
    with (folder / "speedup.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    like = next(
        row for row in rows if row["source_key"] == "specbundle" and "30B" in row["target"]
    )
    odd = {"source_key": "sglang_odd", "gpu": "H100", "n_gpu": "2", "batch_size": "1"}
    rows.append(like | odd | {"tau": "1.86", "measured_speedup": "0.718"})
    with (folder / "speedup.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(like))
        writer.writeheader()
        writer.writerows(rows)
    others = validate(folder, modes=["datasheet"]).modes["datasheet"].sets["specbundle"]
    assert others.n == 300
    assert others.mape < 0.10
