"""Folders of published measurements are read whatever is missing in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from capplan.errors import FactsError
from capplan.resources import models_db_dir
from capplan.validation.folder import read_published


def write(folder: Path, name: str, *lines: str) -> Path:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def test_the_shipped_folder_is_read_without_a_problem() -> None:
    rows = read_published(models_db_dir() / "published")
    assert rows.problems == ()
    assert len(rows.speedup) == 1106
    assert len(rows.sound().speedup) == 1013
    assert {row.quality for row in rows.sound().throughput} == {"ok"}


def test_a_file_may_be_missing_and_columns_too(tmp_path: Path) -> None:
    rows = read_published(write(tmp_path, "speedup.csv", "target,tau,future", "A,2.5,x", "B,,y"))
    assert [(row.target, row.tau, row.quality) for row in rows.speedup] == [
        ("A", 2.5, "ok"),
        ("B", None, "ok"),
    ]
    assert rows.verify_cost == ()


def test_a_word_where_a_number_belongs_is_reported_and_taken_as_empty(tmp_path: Path) -> None:
    write(tmp_path, "speedup.csv", "target,tau,N", "A,about 2,3", "B,nan,4")
    rows = read_published(tmp_path)
    assert [row.tau for row in rows.speedup] == [None, None]
    assert rows.problems == (
        "speedup.csv:2: tau is 'about 2', expected a number; taken as empty",
        "speedup.csv:3: tau is 'nan', expected a number; taken as empty",
    )


def test_short_rows_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    text = "\ufefftarget,draft,tau\nA\nB,head,2,surplus\n"
    (tmp_path / "speedup.csv").write_text(text, encoding="utf-8")
    rows = read_published(tmp_path)
    assert [(row.target, row.tau) for row in rows.speedup] == [("A", None), ("B", 2.0)]


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_such_files_is_an_error_with_a_remedy(
    tmp_path: Path, exists: bool
) -> None:
    folder = tmp_path if exists else tmp_path / "nowhere"
    with pytest.raises(FactsError, match=str(folder)) as error:
        read_published(folder)
    assert "speedup.csv" in error.value.remedy


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "speedup.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(FactsError, match="cannot be read"):
        read_published(tmp_path)


@pytest.mark.parametrize(
    ("column", "value", "least"),
    [
        ("measured_speedup", "-2", "above 0"),
        ("measured_speedup", "0", "above 0"),
        ("batch_size", "0", "above 0"),
        ("temperature", "-1", "of 0 or more"),
    ],
)
def test_a_number_that_cannot_be_is_reported_and_taken_as_empty(
    tmp_path: Path, column: str, value: str, least: str
) -> None:
    (tmp_path / "speedup.csv").write_text(f"id,{column}\n1,{value}\n", encoding="utf-8")
    rows = read_published(tmp_path)
    assert getattr(rows.speedup[0], column) is None
    (said,) = rows.problems
    told = f"{column} is {value!r}, expected a number {least}; taken as empty"
    assert said == f"speedup.csv:2: {told}"
