"""Calibration files: whole or refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import CalibrationFileError, StorageError
from capplan.profiles.calibration_file import load_calibration, save_calibration
from capplan.schema.calibration import (
    CalibratedConstant,
    Calibration,
    CalibrationFit,
    HeldOutGroup,
)
from capplan.schema.quantity import Quantity


@pytest.fixture
def calibration() -> Calibration:
    constant = CalibratedConstant(
        name="weight_bandwidth_efficiency",
        value=Quantity(low=0.75, mid=0.78, high=0.81),
        shipped=0.95,
    )
    group = HeldOutGroup(group="batch 1", points=6, held_out_error=0.02, datasheet_error=0.1)
    return Calibration(
        created_at="2026-01-02T03:04:05+00:00",
        capplan_version="0",
        engine="vllm",
        engine_version="0.33",
        cuda_graphs=True,
        gpu="h100-sxm-80gb",
        device="NVIDIA H100 80GB HBM3",
        tensor_parallel=(1,),
        llms=("org/a",),
        profiles=("p-1",),
        held_out_by="point",
        step=CalibrationFit(
            constants=(constant,),
            points=6,
            fit_error=0.01,
            held_out_error=0.02,
            datasheet_error=0.1,
            groups=(group,),
        ),
    )


def test_what_was_written_is_read(calibration: Calibration, tmp_path: Path) -> None:
    save_calibration(tmp_path / "c.json", calibration)
    assert load_calibration(tmp_path / "c.json").calibration == calibration


def test_a_folder_that_is_not_there_is_a_storage_error(
    calibration: Calibration, tmp_path: Path
) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        save_calibration(tmp_path / "nowhere" / "c.json", calibration)


def changed(calibration: Calibration, **fields: Any) -> str:
    return json.dumps({**calibration.model_dump(mode="json"), **fields})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"schema_version": 2}, "reads up to 1"),
        ({"schema_version": None}, "schema_version is None"),
        ({"schema_version": True}, "schema_version is True"),
        ({"surprise": 1}, "surprise"),
        ({"timing": [], "backend": {}}, "is a profile"),
        ({"tensor_parallel": []}, "tensor_parallel"),
    ],
)
def test_a_document_that_is_no_calibration_is_refused(
    calibration: Calibration, tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    (tmp_path / "c.json").write_text(changed(calibration, **fields))
    with pytest.raises(CalibrationFileError, match=why):
        load_calibration(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("of_step", "why"),
    [
        ({"held_out_error": 0.2}, "shipped constants are better"),
        ({"held_out_error": -0.2}, "held_out_error"),
        ({"constants": []}, "constants"),
    ],
)
def test_a_fit_that_would_have_been_refused_is_refused_from_a_file_too(
    calibration: Calibration, tmp_path: Path, of_step: dict[str, Any], why: str
) -> None:
    step = {**calibration.step.model_dump(mode="json"), **of_step}
    (tmp_path / "c.json").write_text(changed(calibration, step=step))
    with pytest.raises(CalibrationFileError, match=why):
        load_calibration(tmp_path / "c.json")


@pytest.mark.parametrize("mid", [0.0, -0.5, 1.2, float("nan")])
def test_an_impossible_efficiency_is_refused(
    calibration: Calibration, tmp_path: Path, mid: float
) -> None:
    step = calibration.step.model_dump(mode="json")
    step["constants"][0]["value"] = {"low": mid, "mid": mid, "high": mid}
    (tmp_path / "c.json").write_text(changed(calibration, step=step))
    with pytest.raises(CalibrationFileError, match=r"not a valid calibration|is nan, expected"):
        load_calibration(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON|is empty"),
        (b'{"schema_version": 1, "engi', "not JSON|is empty"),
        (b"[1, 2]", "expected a JSON object, got list"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(CalibrationFileError, match=why):
        load_calibration(tmp_path / "c.json")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationFileError, match="Cannot read the calibration"):
        load_calibration(tmp_path / "c.json")
