"""Results inside other files, and files as terminals, containers and shells leave them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from capplan.api.imports import import_results
from capplan.errors import ResultsFileError
from capplan.profiles.importers.document import document_from_text, open_document
from capplan.profiles.importers.registry import read_document

DATA = Path(__file__).parents[3] / "data" / "imports"
BENCH = json.loads((DATA / "vllm_bench_arrival_limited.json").read_text())
GUIDELLM = json.loads((DATA / "guidellm_v2.json").read_text())
PRINTED = (DATA / "vllm_printed.txt").read_text()


def read(text: str):
    return read_document(document_from_text(text, "x"))


@pytest.mark.parametrize(
    ("wrapped", "parts"),
    [
        ([BENCH, BENCH], ["1", "2"]),
        ({"runs": [{"tp": 1, "result": BENCH}, {"tp": 2}]}, ["runs 1.result"]),
        ({"benchmark": BENCH, "commit": "abc"}, ["benchmark"]),
        ([[BENCH], {"note": "x"}], ["1 1"]),
        ({"a": GUIDELLM}, ["a, constant 2/s", "a, constant 4/s"]),
    ],
)
def test_results_in_a_list_or_a_field_are_read_with_their_place(wrapped, parts):
    found = read(json.dumps(wrapped, indent=1))
    assert [one.part for one in found] == parts


def test_a_result_that_was_found_is_not_read_again_from_its_inside():
    twice = {**BENCH, "copy": BENCH}
    assert len(read(json.dumps({"x": twice}))) == 1


def test_a_request_of_a_record_is_no_run():
    record = {"metrics": {"request_latency": {"value": 3.0, "unit": "ms"}}}
    with pytest.raises(ResultsFileError, match="no known format"):
        read(json.dumps([record] * 3))


@pytest.mark.parametrize(
    "begin", ["[bench] starting\n", "[12:30:01] starting\n", "[1/3] starting\n", '{"step": 1}\n']
)
def test_a_printed_block_is_found_behind_lines_that_look_like_json(begin):
    (found,) = read(begin + PRINTED)
    assert found.completed == 16
    assert not [flag for flag in found.flags if flag.check == "truncated"]


def test_colours_and_names_of_containers_are_no_part_of_a_line():
    shown = "".join(f"bench-1  | \x1b[32m{line}\x1b[0m\n" for line in PRINTED.splitlines())
    (found,) = read(shown)
    (plain,) = read(PRINTED)
    assert found == plain


def test_log_lines_inside_json_lines_are_read():
    log = (DATA / "vllm_server.log").read_text().splitlines()
    as_json = "\n".join(json.dumps({"level": "INFO", "message": line}) for line in log)
    counts = [one.speculation for one in read(as_json)]
    assert sum(one.accepted for one in counts if one) == 150 + 725 + 489 + 455 + 44


def test_a_packed_file_is_unpacked_by_its_name(tmp_path: Path) -> None:
    packed = tmp_path / "bench.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(BENCH).encode()))
    (found,) = read_document(open_document(packed))
    assert found.output_tokens_per_s == pytest.approx(475.1, abs=0.05)
    packed.write_bytes(packed.read_bytes()[:60])
    with pytest.raises(ResultsFileError, match="cut off or damaged"):
        open_document(packed)


def test_what_powershell_writes_is_named_with_the_way_out(tmp_path: Path) -> None:
    wide = tmp_path / "bench.json"
    wide.write_bytes(json.dumps(BENCH).encode("utf-16"))
    with pytest.raises(ResultsFileError, match="UTF-16") as caught:
        open_document(wide)
    assert "iconv -f utf-16" in caught.value.remedy


def test_a_run_that_stands_in_two_files_counts_once(tmp_path: Path) -> None:
    other = {**BENCH, "duration": 2 * BENCH["duration"]}
    (tmp_path / "a.json").write_text(json.dumps(BENCH))
    (tmp_path / "b.json").write_text(json.dumps([BENCH, other]))
    (tmp_path / "c.json").write_text(json.dumps(other))
    results = import_results(tmp_path)
    assert [(one.source, one.part) for one in results.observations] == [
        ("a.json", ""),
        ("b.json", "2"),
    ]
    (left_out,) = results.left_out.values()
    assert "holds what b.json holds" in left_out.message
    assert not results.failures


def totals(drafts: int, model: str = "m") -> str:
    counts = {"drafts": drafts, "draft_tokens": 3 * drafts, "accepted_tokens": 2 * drafts}
    return "".join(
        f'vllm:spec_decode_num_{what}_total{{model_name="{model}"}} {n}\n'
        for what, n in counts.items()
    )


def test_several_metrics_texts_of_a_server_are_windows_and_count_nothing_twice(
    tmp_path: Path,
) -> None:
    texts = [totals(1000), totals(4000), totals(9000), totals(500, "other"), totals(800, "other")]
    paths = [tmp_path / f"{place}.prom" for place in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    found = import_results(paths).observations
    assert [(one.source, one.speculation.drafts) for one in found if one.speculation] == [
        ("1.prom", 3000),
        ("2.prom", 5000),
        ("4.prom", 300),
    ]
    lonely = import_results([paths[0], paths[2], paths[3]]).observations
    assert [one.speculation.drafts for one in lonely if one.speculation] == [8000, 500]


def test_metrics_texts_of_a_folder_are_put_in_order_by_their_counters(tmp_path: Path) -> None:
    texts = {"after": totals(4000), "before": totals(1000), "other": totals(800, "other")}
    for name, text in texts.items():
        (tmp_path / f"{name}.prom").write_text(text)
    found = import_results(tmp_path).observations
    assert [(one.source, one.speculation.drafts) for one in found if one.speculation] == [
        ("after.prom", 3000),
        ("other.prom", 800),
    ]
