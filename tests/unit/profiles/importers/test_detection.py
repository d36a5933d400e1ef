"""Formats are told apart by content, and every sample is one's own alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capplan.errors import ResultsFileError
from capplan.profiles.importers.document import (
    LARGEST_BYTES,
    document_from_text,
    expand,
    open_document,
)
from capplan.profiles.importers.registry import IMPORTERS, find_importer, read_document

DATA = Path(__file__).parents[3] / "data" / "imports"
FORMAT_OF = {
    "aiperf.csv": "AIPerf or genai-perf CSV",
    "aiperf.json": "AIPerf or genai-perf JSON",
    "aiperf_records.jsonl": "AIPerf records (JSON lines)",
    "genai_perf.json": "AIPerf or genai-perf JSON",
    "guidellm_v1.csv": "GuideLLM CSV",
    "guidellm_v2.csv": "GuideLLM CSV",
    "guidellm_v2.json": "GuideLLM JSON",
    "inference_perf_eagle_stage_1.json": "inference-perf stage JSON",
    "inference_perf_stage_1.json": "inference-perf stage JSON",
    "inference_perf_summary.json": "inference-perf stage JSON",
    "inferencex_c4.json": "InferenceX (InferenceMAX) JSON",
    "inferencex_c64.json": "InferenceX (InferenceMAX) JSON",
    "inferencex_rows.json": "InferenceX (InferenceMAX) JSON",
    "llamacpp_server.log": "llama.cpp log or answers",
    "llamacpp_speculative.txt": "llama.cpp log or answers",
    "llmperf_responses.json": "llmperf JSON",
    "llmperf_summary.json": "llmperf JSON",
    "request_detailed.json": "responses with speculative metrics",
    "request_summary.json": "responses with speculative metrics",
    "sglang_bench.jsonl": "SGLang bench_serving JSON lines",
    "sglang_printed.txt": "printed serving result",
    "sglang_server.log": "SGLang server log",
    "trtllm_bench.json": "trtllm-bench report JSON",
    "vllm_bench_arrival_limited.json": "vllm bench serve JSON",
    "vllm_bench_speculative.json": "vllm bench serve JSON",
    "vllm_latency.json": "vllm bench latency or throughput JSON",
    "vllm_printed.txt": "printed serving result",
    "vllm_server.log": "vLLM server log",
    "vllm_throughput.json": "vllm bench latency or throughput JSON",
}


def test_every_sample_is_named_here() -> None:
    assert {path.name for path in DATA.iterdir() if path.suffix != ".md"} == set(FORMAT_OF)


@pytest.mark.parametrize("name", FORMAT_OF)
def test_exactly_one_importer_takes_a_file(name: str) -> None:
    document = open_document(DATA / name)
    takers = [importer.title for importer in IMPORTERS if importer.detect(document)]
    assert takers == [FORMAT_OF[name]]


@pytest.mark.parametrize("name", FORMAT_OF)
def test_the_name_of_a_file_does_not_matter(name: str, tmp_path: Path) -> None:
    moved = tmp_path / "x"
    moved.write_bytes((DATA / name).read_bytes())
    assert find_importer(open_document(moved)).title == FORMAT_OF[name]


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"a": 1}', "hello\nworld\n", "[1, 2]", '[{"a": 2}]']
)
def test_an_unknown_file_is_refused_with_what_was_seen_and_what_is_known(text: str) -> None:
    with pytest.raises(ResultsFileError, match="no known format") as caught:
        read_document(document_from_text(text, "x.json"))
    assert "GuideLLM" in caught.value.remedy


def test_json_that_ends_in_the_middle_is_called_truncated() -> None:
    text = (DATA / "vllm_bench_arrival_limited.json").read_text()
    with pytest.raises(ResultsFileError, match="truncated"):
        document_from_text(text[:300], "x.json")


def test_json_lines_lose_only_the_line_that_is_cut() -> None:
    line = (DATA / "sglang_bench.jsonl").read_text()
    document = document_from_text(line + line + line[:200], "x.jsonl")
    observations = read_document(document)
    assert len(observations) == 2
    assert all(one.flags[0].check == "truncated" for one in observations)
    assert [one.part for one in observations] == ["run 1", "run 2"]


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    with pytest.raises(ResultsFileError, match="nested"):
        document_from_text('{"a":' * 100_000, "x.json")


def test_binary_compressed_and_empty_files_are_named_as_such(tmp_path: Path) -> None:
    for content, what in ((b"\x1f\x8b\x08rest", "gzip"), (b"ab\x00c", "binary"), (b"", "empty")):
        path = tmp_path / "x"
        path.write_bytes(content)
        with pytest.raises(ResultsFileError, match=what):
            open_document(path)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as stream:
        stream.truncate(LARGEST_BYTES + 1)
    with pytest.raises(ResultsFileError, match="the limit is 256 MB"):
        open_document(path)


def test_a_number_too_long_to_read_is_an_error() -> None:
    with pytest.raises(ResultsFileError):
        document_from_text('{"output_throughput": ' + "9" * 5000 + "}", "x.json")


def test_folders_and_patterns_are_expanded_and_named_files_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.log").write_text("x")
    (tmp_path / "sub" / "c.bin").write_text("x")
    assert [(path.name, named) for path, named in expand([tmp_path])] == [
        ("a.json", False),
        ("b.log", False),
    ]
    assert [path.name for path, _ in expand([tmp_path / "**" / "*.log"])] == ["b.log"]
    with pytest.raises(ResultsFileError, match="No file matches"):
        expand([tmp_path / "*.csv"])


def test_infinity_is_a_rate_and_not_an_error() -> None:
    value = json.loads((DATA / "inferencex_c4.json").read_text())
    value["request_rate"] = float("inf")
    (observation,) = read_document(document_from_text(json.dumps(value), "x.json"))
    assert observation.load.arrival == "closed_loop"
    assert observation.load.requested_rate_per_s is None
