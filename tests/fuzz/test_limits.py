"""The limits hold, and stand in the documentation as they are."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from capplan.errors import UnreadableFileError
from capplan.inputs import limits
from capplan.inputs.arrays import parse_arrays
from capplan.inputs.documents import parse_json
from capplan.inputs.limits import KINDS, PROFILE, SIDECAR, WORKLOAD, Limits, in_words
from capplan.inputs.reading import read_bytes, read_text
from capplan.inputs.streams import open_stream
from capplan.inputs.tables import parse_table
from capplan.inputs.yaml_text import parse_yaml

PAGE = Path(__file__).parents[2] / "docs" / "untrusted-files.md"
SMALL = Limits("small file", 100, 4, 20)


def test_the_page_lists_every_kind_with_its_limits() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    assert [(row[0], *row[2:5]) for row in shown] == [
        (
            kind.what,
            in_words(kind.most_bytes),
            str(kind.deepest or "-"),
            f"{kind.most_groups:,}" if kind.most_groups else "-",
        )
        for kind in KINDS
    ]
    for row in shown:
        for file in row[1].replace("`", "").split(", "):
            root = "" if file.startswith("profiler") else "capplan/"
            assert (PAGE.parents[1] / f"{root}{file}").is_file()


def test_every_limit_is_listed() -> None:
    assert set(KINDS) == {one for one in vars(limits).values() if isinstance(one, Limits)}


def test_a_file_may_have_its_size_and_no_byte_more(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a" * 100)
    assert len(read_bytes(tmp_path / "x", SMALL)) == 100
    (tmp_path / "x").write_bytes(b"a" * 101)
    with pytest.raises(UnreadableFileError, match="at most 100 bytes"):
        read_bytes(tmp_path / "x", SMALL)


def test_an_endless_file_is_read_up_to_the_limit() -> None:
    with pytest.raises(UnreadableFileError, match="more than 100 bytes"):
        read_bytes(Path("/dev/zero"), SMALL)


@pytest.mark.parametrize("name", ["absent", "with\x00nul", "half\ud800"])
def test_a_name_without_a_file_is_explained(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        read_bytes(tmp_path / name, SMALL)
    assert caught.value.reason


def test_the_mark_of_editors_is_no_part_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfa")
    assert read_text(tmp_path / "x", SMALL) == "a"


@pytest.mark.parametrize("depth", [4, 5])
def test_json_may_have_its_depth_and_no_level_more(depth: int) -> None:
    text = "[" * depth + "1" + "]" * depth
    if depth <= SMALL.deepest:
        assert parse_json(text, "x", SMALL)
        return
    with pytest.raises(UnreadableFileError, match="at most 4 levels"):
        parse_json(text, "x", SMALL)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 21, "at most 20 are read"),
        ("NaN", "a number is nan"),
        ('{"a": [1, {"b": Infinity}]}', "a.1.b is inf"),
        ('{"a": -1e999}', "a is -inf"),
        ("[18446744073709551617]", "integer of 65 bits"),
        ("[" + "9" * 5000 + "]", "thousands of digits"),
        ('{"a": "\\ud800"}', "half of a character"),
        ('{"\\udfff": 1}', "half of a character"),
        ("", "it is empty"),
        ('{"a": 1', "cut off after 7 characters"),
        ("{'a': 1}", "not JSON"),
    ],
)
def test_what_is_no_json_of_ours_is_named(text: str, said: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        parse_json(text, "x", SMALL)
    assert said in caught.value.reason


def test_a_whole_character_of_two_halves_is_text() -> None:
    with pytest.raises(UnreadableFileError):
        parse_json('"\\ud83d"', "x", SMALL)
    assert parse_json('"\\ud83d\\ude00"', "x", SMALL) == "😀"


def test_a_key_that_stands_there_twice_is_refused_where_it_matters() -> None:
    assert parse_json('{"a": 1, "a": 2}', "x", SMALL) == {"a": 2}
    with pytest.raises(UnreadableFileError, match="'a' stands there twice"):
        parse_json('{"a": 1, "a": 2}', "x", SMALL, unique=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &a [*a]", "holds itself"),
        ("a: &a {<<: *a}", "holds itself"),
        ("a: 1\na: 2", "'a' stands there twice"),
        ("a: 2026-13-45", "not what it looks like"),
        ("a: !!int ''", "not what it looks like"),
        ("a: !!timestamp x", "not what it looks like"),
        ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
        ("{? [a] : 1}", "unhashable"),
        ("a: " + "9" * 500, "a number of 500 characters"),
        ("a: " + "1:" * 300 + "1", "a number of 601 characters"),
        ("- " * 30, "nested too deeply"),
        ("a: \x00", "special characters"),
        ('a: "\\ud800"', "half of a character"),
    ],
)
def test_what_is_no_yaml_of_ours_is_named(text: str, said: str) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        parse_yaml(text, "x", WORKLOAD)
    assert said in caught.value.reason


def test_aliases_count_as_what_they_stand_for() -> None:
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(i + 1)}: &{chr(i + 1)} [{', '.join([f'*{chr(i)}'] * 9)}]\n"
        for i in range(ord("a"), ord("f"))
    )
    with pytest.raises(UnreadableFileError, match="aliases stand for more than 20,000"):
        parse_yaml(text, "x", WORKLOAD)
    assert parse_yaml("a: &a {b: 1}\nc: {<<: *a, d: 2}", "x", WORKLOAD)["c"] == {"b": 1, "d": 2}


def test_a_cell_of_a_megabyte_is_named_with_its_line() -> None:
    with pytest.raises(UnreadableFileError, match="line 2 is no CSV"):
        list(parse_table("a,b\n1," + "x" * 10**6 + "\n", "x"))


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def test_arrays_are_read_as_they_were_written() -> None:
    wide = np.arange(6.0).reshape(2, 3)
    found = parse_arrays(npz(a=wide, b=np.asfortranarray(wide), c=np.array([True])), "x", SIDECAR)
    assert (found["a"] == wide).all()
    assert (found["b"] == wide).all()
    assert found["c"].dtype == bool


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([None, 1], dtype=object), "no plain numbers"),
        (np.array(["x"]), "no plain numbers"),
        (np.array([1j]), "no plain numbers"),
        (np.array([np.nan]), "not finite"),
        (np.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")]), "no plain numbers"),
    ],
)
def test_arrays_of_anything_but_numbers_are_refused(array: np.ndarray, said: str) -> None:
    with pytest.raises(UnreadableFileError, match=said):
        parse_arrays(npz(a=array), "x", SIDECAR)


def test_an_archive_that_unpacks_to_gigabytes_is_refused_unread() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", b"\x00" * 60_000_000)
        for copy in range(5):
            archive.writestr(f"{copy}.npy", b"\x00" * 50_000_000)
    assert len(buffer.getvalue()) < 10**6
    with pytest.raises(UnreadableFileError, match="unpacks to 310 MB"):
        parse_arrays(buffer.getvalue(), "x", SIDECAR)


def test_an_array_that_claims_more_than_there_is_takes_no_memory() -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    body = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", body)
    with pytest.raises(UnreadableFileError, match="0 bytes for the shape"):
        parse_arrays(buffer.getvalue(), "x", SIDECAR)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_line_without_an_end_is_not_held(tmp_path: Path, name: str) -> None:
    content = b"a" * 20_000_000
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with (
        pytest.raises(UnreadableFileError, match="a line of it has more than"),
        open_stream(tmp_path / name, limits.TRACE) as stream,
    ):
        stream.read()


def test_what_a_trace_unpacks_to_is_counted(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"1,2,3\n" * 100))
    with (
        pytest.raises(UnreadableFileError, match="more than 100 bytes once unpacked"),
        open_stream(tmp_path / "t.csv.gz", SMALL) as stream,
    ):
        stream.read()


def test_a_message_quotes_no_more_than_a_page() -> None:
    with pytest.raises(UnreadableFileError) as caught:
        parse_json(json.dumps({"a" * 10**6: float("nan")}), "x" * 10**6, PROFILE)
    assert len(str(caught.value)) < 10_000
