"""JSON lines read at once and object by object: the same rows, the same complaints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from capplan.errors import WorkloadError
from capplan.workloads import jsonlines
from capplan.workloads.json_table import read_alike
from capplan.workloads.times import TimeForm
from capplan.workloads.trace_file import ReadTrace, read_trace

SECONDS = TimeForm(1.0, "relative", "seconds")
ISO = TimeForm(None, "calendar", "ISO times")
PATHS = [("t",), ("p",), ("o",)]


def _read(folder: Path, text: str, *, at_once: bool = True) -> ReadTrace:
    path = folder / "trace.jsonl"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patched:
        if not at_once:
            patched.setattr(jsonlines, "read_alike", lambda *_: None)
        return read_trace(path)


def _said(read: ReadTrace) -> tuple[object, ...]:
    trace = read.trace
    return (
        *(trace.seconds.tolist(), trace.prompt_tokens.tolist(), trace.output_tokens.tolist()),
        *(read.rows, read.failed, read.bad, read.bad_rows, read.columns, read.times),
    )


def _agree(folder: Path, text: str) -> None:
    assert _said(_read(folder, text)) == _said(_read(folder, text, at_once=False))


LINES = {
    "plain": '{"timestamp": %d.25, "prompt_tokens": 9%d, "output_tokens": 3}',
    "no spaces": '{"timestamp":%d,"prompt_tokens":9%d,"output_tokens":3}',
    "spaces inside": '{ "timestamp": %d, "prompt_tokens": 9%d, "output_tokens": 3 }',
    "text": '{"timestamp": %d, "q": "a, {b}: [\\"c", "prompt_tokens": 9%d, "output_tokens": 3}',
    "other letters": '{"timestamp": %d, "q": "für", "prompt_tokens": 9%d, "output_tokens": 3}',
    "inside": '{"created": 171529920%d, "usage": {"prompt_tokens": 9%d, "output_tokens": 3}}',
    "deep": '{"ts": %d, "a": {"b": {"prompt_tokens": 1}}, "isl": 9%d, "osl": 3}',
    "lists": '{"timestamp": %d, "isl": 9%d, "osl": 3, "hash_ids": [1, {"a": 2}]}',
    "iso": '{"time": "2024-05-10T00:00:0%d.5+00:00", "isl": 9%d, "osl": 3}',
    "zulu": '{"time": "2024-05-10 00:00:0%dZ", "isl": 9%d, "osl": 3}',
    "offset": '{"time": "2024-05-10 00:00:0%d+02:00", "isl": 9%d, "osl": 3}',
    "numbers as text": '{"timestamp": "%d", "isl": "9%d", "osl": "3"}',
    "dotted name": '{"timestamp": %d, "usage.prompt_tokens": 9%d, "osl": 3}',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_both_ways_agree(tmp_path: Path, line: str, end: str) -> None:
    text = end.join(line % (i, i) for i in range(8))
    _agree(tmp_path, text)
    read = _read(tmp_path, text)
    assert read.trace.prompt_tokens.tolist() == [90 + i for i in range(8)]


ODD = {
    "another order": '{"prompt_tokens": 5, "timestamp": 9, "output_tokens": 3}',
    "a field more": '{"timestamp": 9, "prompt_tokens": 5, "output_tokens": 3, "a": 1}',
    "a field twice": '{"timestamp": 9, "prompt_tokens": 5, "output_tokens": 3, "timestamp": 8}',
    "null": '{"timestamp": 9, "prompt_tokens": null, "output_tokens": 3}',
    "missing": '{"timestamp": 9, "prompt_tokens": 5}',
    "true": '{"timestamp": 9, "prompt_tokens": true, "output_tokens": 3}',
    "an object": '{"timestamp": 9, "prompt_tokens": {"a": 1}, "output_tokens": 3}',
    "negative": '{"timestamp": 9, "prompt_tokens": -5, "output_tokens": 3}',
    "part of a token": '{"timestamp": 9, "prompt_tokens": 5.5, "output_tokens": 3}',
    "whole as a float": '{"timestamp": 9, "prompt_tokens": 5.0, "output_tokens": 3}',
    "too many": '{"timestamp": 9, "prompt_tokens": 123456789012, "output_tokens": 3}',
    "no number": '{"timestamp": 9, "prompt_tokens": 0x5, "output_tokens": 3}',
    "padded": '{"timestamp": 09, "prompt_tokens": 5, "output_tokens": 3}',
    "signed": '{"timestamp": +9, "prompt_tokens": 5, "output_tokens": 3}',
    "a bare point": '{"timestamp": .9, "prompt_tokens": 5, "output_tokens": 3}',
    "not finite": '{"timestamp": NaN, "prompt_tokens": 5, "output_tokens": 3}',
    "text as time": '{"timestamp": "soon", "prompt_tokens": 5, "output_tokens": 3}',
    "cut off": '{"timestamp": 9, "prompt_tokens": 5, "output_to',
    "cut in a text": '{"timestamp": 9, "prompt_tokens": 5, "output_tokens": "3',
    "something behind": '{"timestamp": 9, "prompt_tokens": 5, "output_tokens": 3} 4',
    "two objects": '{"timestamp": 9, "prompt_tokens": 5, "output_tokens": 3}, {"a": 1}',
    "a list": "[9, 5, 3]",
    "a text": '"no JSON: of mine"',
    "no JSON": "hello",
    "blank": "   ",
    "a list begun": '{"timestamp": 9, "prompt_tokens": [5, "output_tokens": 3}',
    "a list ended": '{"timestamp": 9, "prompt_tokens": 5], "output_tokens": 3}',
    "failed": '{"timestamp": 9, "prompt_tokens": 5, "output_tokens": 0}',
    "no prompt": '{"timestamp": 9, "prompt_tokens": 0, "output_tokens": 3}',
    "two backslashes": '{"timestamp": 9, "prompt_tokens": 5, "output_tokens": 3, "a": "\\\\"}',
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("at", [0, 7, 20])
def test_a_line_unlike_the_others_is_judged_alike(tmp_path: Path, odd: str, at: int) -> None:
    lines = [LINES["plain"] % (i, i) for i in range(20)]
    lines.insert(at, odd)
    text = "\n".join(lines)
    assert _outcome(tmp_path, text, at_once=True) == _outcome(tmp_path, text, at_once=False)


def _outcome(folder: Path, text: str, *, at_once: bool) -> object:
    try:
        return _said(_read(folder, text, at_once=at_once))
    except WorkloadError as error:
        return str(error)


@pytest.mark.parametrize(
    "name", [name for name in LINES if name not in ("offset", "numbers as text")]
)
def test_lines_that_are_alike_are_read_at_once(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(jsonlines, "_sorted_out", refuse)
    assert _read(tmp_path, "\n".join(LINES[name] % (i, i) for i in range(8))).rows == 8


def test_line_numbers_hold_beyond_the_first_block(tmp_path: Path) -> None:
    lines = [LINES["plain"] % (i, i % 9) for i in range(100_000)]
    lines[90_000] = "oops"
    read = _read(tmp_path, "\n".join(lines) + "\n")
    assert [(row.line, row.reason) for row in read.bad_rows] == [
        (90_001, "no JSON: Expecting value")
    ]
    assert len(read.trace.seconds) == 99_999


def test_a_log_may_change_its_fields_from_one_block_to_the_next(tmp_path: Path) -> None:
    many = [LINES["plain"] % (i, i % 9) for i in range(40_000)]
    more = [line[:-1] + ', "model": "b"}' for line in many]
    _agree(tmp_path, "\n".join([*many, *more]))


def test_the_byte_order_mark_of_a_windows_file_is_no_text(tmp_path: Path) -> None:
    assert _read(tmp_path, "\ufeff" + LINES["plain"] % (1, 1)).rows == 1


Value = st.one_of(
    st.integers(-3, 10**9),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.none(),
    st.booleans(),
    st.lists(st.integers(), max_size=3),
)


@settings(max_examples=300)
@given(
    rows=st.lists(st.tuples(Value, Value, Value, Value), min_size=1, max_size=4),
    form=st.sampled_from([SECONDS, ISO]),
    ascii_only=st.booleans(),
)
def test_what_is_read_at_once_is_what_json_says(
    rows: list[tuple[object, ...]], form: TimeForm, *, ascii_only: bool
) -> None:
    records = [dict(zip(("t", "x", "p", "o"), row, strict=True)) for row in rows]
    text = "".join(json.dumps(one, ensure_ascii=ascii_only) + "\n" for one in records)
    found = read_alike(text.encode("utf-8", "surrogatepass"), PATHS, form)
    if found is None:
        return
    for name, column in zip("po", found[1:], strict=True):
        np.testing.assert_array_equal(column, [float(one[name]) for one in records])  # type: ignore[arg-type]
    if form is SECONDS:
        np.testing.assert_array_equal(found[0], [float(one["t"]) for one in records])  # type: ignore[arg-type]
