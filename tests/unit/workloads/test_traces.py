"""Traces of requests from files: layouts, times, and what is wrong with rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from capplan.api.workloads import understand
from capplan.errors import MissingPackageError, WorkloadError
from capplan.workloads import rows as rows_module
from capplan.workloads.trace_file import ReadTrace, TraceOptions, read_trace

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:15:46.6805900,374,44\r
2023-11-16 18:15:50.9951690,396,109\r
2023-11-16 18:15:51.2225670,879,55\r
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,6
2024-05-10 00:00:01+00:00,76,15
"""
BURST_1 = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45,ChatGPT,1087,230,1317,Conversation log
118,GPT-4,417,0,417,API log
"""
BURST_2 = (
    "Timestamp,Session ID,Elapsed time,Model,"
    "Request tokens,Response tokens,Total tokens,Log Type\n"
    "5.5,abc,1.25,ChatGPT,472,18,490,Conversation log\n"
    "45,,3,GPT-4,0,0,0,API log\n"
)


def _read(tmp_path: Path, text: str, name: str = "trace.csv", **known: object) -> ReadTrace:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_trace(path, TraceOptions(**known))  # type: ignore[arg-type]


def _rows(read: ReadTrace) -> list[tuple[int, int]]:
    trace = read.trace
    return list(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "gaps"), [(AZURE_2023, [4.314579, 0.227398]), (AZURE_2024, [0.007405, 0.982665])]
)
def test_both_azure_layouts_are_known(tmp_path: Path, text: str, gaps: list[float]) -> None:
    read = _read(tmp_path, text)
    assert read.layout == "Azure LLM inference"
    assert read.trace.clock == "calendar"
    assert (read.rows, read.bad, read.failed) == (3, 0, 0)
    np.testing.assert_allclose(np.diff(read.trace.seconds), gaps, atol=1e-5)


def test_azure_times_are_utc(tmp_path: Path) -> None:
    read = _read(tmp_path, AZURE_2024)
    assert read.trace.seconds[2] == 1715299201.0  # date -u -d '2024-05-10 00:00:01' +%s


@pytest.mark.parametrize("text", [BURST_1, BURST_2])
def test_burstgpt_counts_failed_requests_and_keeps_them_out(tmp_path: Path, text: str) -> None:
    read = _read(tmp_path, text)
    assert (read.layout, read.trace.clock) == ("BurstGPT", "from midnight")
    assert (read.failed, read.bad) == (1, 0)
    assert _rows(read)[0] == (472, 18)
    assert len(read.trace.seconds) == read.rows - 1


BurstRow = tuple[int, int, int | None]


def _burst(rows: list[BurstRow]) -> str:
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    return head + "".join(
        f"{5 + i},GPT-4,{prompt},{output},{'' if total is None else total},API log\n"
        for i, (prompt, output, total) in enumerate(rows)
    )


def _burst_lines(rows: list[BurstRow], *, alike: bool) -> str:
    lines = [
        {
            "Timestamp": 5 + i,
            "Model": "GPT-4",
            "Request tokens": prompt,
            "Response tokens": output,
            "Total tokens": total,
            "Log Type": "API log",
            **({} if alike or i % 2 else {"more": i}),
        }
        for i, (prompt, output, total) in enumerate(rows)
    ]
    return "\n".join(map(json.dumps, lines))


EQUAL: list[BurstRow] = [(400, 20, 420)] * 30
ODD: list[BurstRow] = [(9000, 20, 920), (0, 0, 0), (50, 0, 50), (300, 9, None)]


@pytest.mark.parametrize("written", ["plain", "quoted", "lines", "other lines"])
def test_totals_that_contradict_their_parts_are_counted_and_in_no_figure(
    tmp_path: Path, written: str
) -> None:
    """However the file is read, at once or row by row; an empty total contradicts nothing."""
    rows, name = [*EQUAL, *ODD], "burst.jsonl" if "lines" in written else "burst.csv"
    text = {
        "plain": _burst(rows),
        "quoted": _burst(rows).replace("GPT-4", '"GPT-4"'),
        "lines": _burst_lines(rows, alike=True),
        "other lines": _burst_lines(rows, alike=False),
    }[written]
    read = _read(tmp_path, text, name)
    assert (read.layout, read.rows, read.failed) == ("BurstGPT", 34, 2)
    assert (read.bad, read.contradicting) == (1, 1)
    assert [row.reason for row in read.bad_rows] == [
        "Total tokens is 920, but Request tokens 9000 and Response tokens 20"
    ]
    assert _rows(read) == [(400, 20)] * 30 + [(300, 9)]
    (service,) = understand([tmp_path / name]).services
    assert service.trace is not None
    assert any("1 row has a total that is not prompt + output" in n for n in service.trace.notes)


def test_a_file_whose_totals_all_contradict_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"30 of 30 rows are bad.*Total tokens is 90"):
        _read(tmp_path, _burst([(40, 20, 90)] * 30))


def test_a_total_is_not_held_against_columns_that_the_caller_names(tmp_path: Path) -> None:
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type,Billed\n"
    text = head + "5,GPT-4,400,20,420,API log,30\n"
    assert _rows(_read(tmp_path, text, columns={"output": "Billed"})) == [(400, 30)]


def test_json_lines_with_usage_inside(tmp_path: Path) -> None:
    lines = [
        {"created": 1715299200 + i, "usage": {"prompt_tokens": 10 + i, "completion_tokens": 5}}
        for i in range(3)
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n\n"
    read = _read(tmp_path, text, "log.jsonl")
    assert _rows(read) == [(10, 5), (11, 5), (12, 5)]
    assert read.columns == ("created", "usage.prompt_tokens", "usage.completion_tokens")
    assert read.times == "s since 1970, judged by their size"


def test_mooncake_times_are_milliseconds(tmp_path: Path) -> None:
    line = {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [1, 2]}
    read = _read(tmp_path, json.dumps(line) + "\n", "m.jsonl")
    assert (read.layout, float(read.trace.seconds[0])) == ("Mooncake", 27.482)


@pytest.mark.parametrize(
    ("column", "value", "seconds", "clock"),
    [
        ("timestamp", "1715299201", 1715299201.0, "calendar"),
        ("timestamp", "1715299201500", 1715299201.5, "calendar"),
        ("timestamp", "1715299201500000", 1715299201.5, "calendar"),
        ("ts", "1715299201500000000", 1715299201.5, "calendar"),
        ("timestamp_ms", "1500", 1.5, "relative"),
        ("arrival_s", "1.5", 1.5, "relative"),
        ("time", "2024-05-10T00:00:01Z", 1715299201.0, "calendar"),
        ("time", "2024-05-10T02:00:01+02:00", 1715299201.0, "calendar"),
        ("time", "2024-05-09T17:00:01-07:00", 1715299201.0, "calendar"),
    ],
)
def test_times_in_every_unit(
    tmp_path: Path, column: str, value: str, seconds: float, clock: str
) -> None:
    read = _read(tmp_path, f"{column},prompt_tokens,output_tokens\n{value},10,5\n")
    assert (float(read.trace.seconds[0]), read.trace.clock) == (seconds, clock)


def test_a_unit_that_the_caller_states_wins(tmp_path: Path) -> None:
    text = "timestamp,isl,osl\n2500,10,5\n"
    assert float(_read(tmp_path, text, unit="ms").trace.seconds[0]) == 2.5


def test_columns_that_the_caller_names(tmp_path: Path) -> None:
    text = "when;what;in_;out_\n1;x;10;5\n"
    columns = {"timestamp": "when", "prompt": "in_", "output": "out_"}
    assert _rows(_read(tmp_path, text, columns=columns)) == [(10, 5)]
    with pytest.raises(WorkloadError, match=r"no column for the timestamp.*'when', 'what'"):
        _read(tmp_path, text)


def test_gzip_quotes_bom_tabs_and_no_last_newline(tmp_path: Path) -> None:
    text = '\ufefftimestamp\tmodel\tprompt_tokens\toutput_tokens\n1\t"a\tb\nc"\t10\t5\n2\tx\t11\t6'
    path = tmp_path / "trace.tsv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert _rows(read_trace(path)) == [(10, 5), (11, 6)]


def test_bad_rows_are_counted_with_line_and_reason(tmp_path: Path) -> None:
    good = "".join(f"{i},100,20\n" for i in range(80))
    text = (
        "timestamp,prompt_tokens,output_tokens\n"
        + "0,100,-3\n"
        + good
        + "81,n/a,20\n62,100\n\n63,1e99,20\n64,0,20\nnever,100,20\n65,10.5,20\n"
    )
    read = _read(tmp_path, text)
    assert (read.rows, read.bad, len(read.trace.seconds)) == (87, 7, 80)
    shown = {row.line: row.reason for row in read.bad_rows}
    assert shown[2] == "output_tokens '-3' is not a whole number from 0 to 10,000,000"
    assert len(shown) == rows_module.SHOWN_BAD_ROWS
    assert sorted(shown) == list(shown)


def test_line_numbers_hold_beyond_the_first_block(tmp_path: Path) -> None:
    lines = [f"{i}.25,{100 + i % 7},20" for i in range(150_000)]
    lines[140_000] = "oops,1,2"
    text = "timestamp,prompt_tokens,output_tokens\n" + "\n".join(lines) + "\n"
    read = _read(tmp_path, text)
    assert [row.line for row in read.bad_rows] == [140_002]
    assert len(read.trace.seconds) == 149_999


def test_both_ways_to_read_a_table_agree(tmp_path: Path) -> None:
    """A quote anywhere sends the file down the slower way."""
    rng = np.random.default_rng(1)
    rows = [
        f"2024-05-10 0{i % 9}:00:{i % 60:02d}.{i % 1000:03d},{p},{o}"
        for i, (p, o) in enumerate(rng.integers(0, 3000, (500, 2)))
    ]
    rows = [row for row in rows if row.split(",")[1] != "0"]
    header = "timestamp,prompt_tokens,output_tokens"
    fast = _read(tmp_path, "\n".join([header, *rows]) + "\n")
    first = rows[0].split(",")
    quoted = ",".join([first[0], f'"{first[1]}"', first[2]])
    slow = _read(tmp_path, "\n".join([header, quoted, *rows[1:]]) + "\n")
    np.testing.assert_array_equal(fast.trace.seconds, slow.trace.seconds)
    np.testing.assert_array_equal(fast.trace.prompt_tokens, slow.trace.prompt_tokens)
    assert (fast.failed, fast.bad) == (slow.failed, slow.bad)


def test_a_file_out_of_order_is_sorted_and_says_so(tmp_path: Path) -> None:
    read = _read(tmp_path, "timestamp,isl,osl\n9,1,1\n3,2,2\n")
    assert read.unsorted
    assert _rows(read) == [(2, 2), (1, 1)]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "t.csv", "no column for the timestamp"),
        ("timestamp,isl,osl\n", "t.csv", "has no row"),
        ("timestamp,timestamp,isl,osl\n1,1,1,1\n", "t.csv", "stands there twice"),
        ("timestamp,isl,osl\nsoon,1,1\n", "t.csv", "neither a number nor an ISO time"),
        ("timestamp,isl,osl\n1,1,0\n", "t.csv", r"no request that wrote a token \(1 failed\)"),
        ("timestamp,isl,osl\n1,1,1\n2,a,1\n", "t.csv", "1 of 2 rows are bad, more than 10%"),
        ("not json\n", "t.jsonl", "line 1: no JSON"),
        ("[1]\n", "t.jsonl", "a JSON list, no object"),
        ("", "t.jsonl", "it is empty"),
        ('{"timestamp": 1}\n', "t.jsonl", "no column for the prompt tokens"),
        ("x", "t.xlsx", "ends in .xlsx"),
        ("x", "t.parquet", "Parquet"),
    ],
)
def test_files_that_are_no_trace_are_explained(
    tmp_path: Path, text: str, name: str, said: str
) -> None:
    with pytest.raises((WorkloadError, MissingPackageError), match=said) as caught:
        _read(tmp_path, text, name)
    assert caught.value.remedy


def test_a_line_that_ends_anothers_object_is_no_trick(tmp_path: Path) -> None:
    text = '{"timestamp": 1, "isl": 1, "osl": 1}, {"timestamp": 2, "isl": 1, "osl": 1}\n'
    good = "".join(f'{{"timestamp": {i}, "isl": 1, "osl": 1}}\n' for i in range(20))
    read = _read(tmp_path, good + text, "t.jsonl")
    assert (read.bad, read.bad_rows[0].line, len(read.trace.seconds)) == (1, 21, 20)


def test_text_that_is_no_utf8_and_a_gzip_cut_short_are_explained(tmp_path: Path) -> None:
    latin = tmp_path / "latin.csv"
    latin.write_bytes("timestamp,isl,osl\n1,1,1\n2,é,1\n".encode("latin-1"))
    with pytest.raises(WorkloadError, match="no UTF-8 text"):
        read_trace(latin)
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(AZURE_2024.encode() * 50)[:-20])
    with pytest.raises(WorkloadError, match="Cannot read"):
        read_trace(cut)
    with pytest.raises(WorkloadError, match="No such file"):
        read_trace(tmp_path / "absent.csv")


def test_too_many_requests_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_ROWS", 2)
    with pytest.raises(WorkloadError, match="more than 2 requests"):
        _read(tmp_path, AZURE_2024)


def test_parquet_is_read_where_pyarrow_is_there(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    moments = np.array(["2024-05-10T00:00:01", "2024-05-10T00:00:02"], dtype="datetime64[us]")
    table = arrow.table(
        {"TIMESTAMP": moments, "ContextTokens": [10, None], "GeneratedTokens": [5, 6], "x": [1, 2]}
    )
    many = arrow.concat_tables([table.slice(0, 1)] * 20 + [table])
    parquet.write_table(many, tmp_path / "t.parquet")
    read = read_trace(tmp_path / "t.parquet")
    assert read.layout == "Azure LLM inference"
    assert (read.bad, read.bad_rows[0].line) == (1, 22)
    assert float(read.trace.seconds[0]) == 1715299201.0


def test_parquet_without_pyarrow_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingPackageError, match=r"capplan\[parquet\]"):
        read_trace(tmp_path / "t.parquet")


def test_rows_that_stand_there_twice_are_told(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n + 1},{n + 2}\n" for n in range(50))
    (tmp_path / "once.csv").write_text(f"timestamp,isl,osl\n{rows}", encoding="utf-8")
    (tmp_path / "twice.csv").write_text(f"timestamp,isl,osl\n{rows}{rows}", encoding="utf-8")
    once, twice = (
        understand([tmp_path / name]).services[0].trace for name in ("once.csv", "twice.csv")
    )
    assert once is not None
    assert twice is not None
    assert not [note for note in once.notes if "very time" in note]
    assert [note for note in twice.notes if note.startswith("50 requests have the very time")]
