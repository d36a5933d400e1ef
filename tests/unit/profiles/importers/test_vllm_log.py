"""What a vLLM server's log says beside its lines of acceptance."""

from __future__ import annotations

from pathlib import Path

import pytest

from capplan.api.imported_profile import profile_of_results
from capplan.api.imports import ImportedResults
from capplan.errors import UnknownIdError
from capplan.profiles.importers.document import document_from_text
from capplan.profiles.importers.registry import read_document
from capplan.schema.pairing import Method

DATA = Path(__file__).parents[3] / "data" / "imports"
STARTS = (
    "(EngineCore_DP0 pid=9) INFO 11-20 10:00:00 [core.py:77] Initializing a V1 LLM engine "
    "(v0.11.0) with config: model='Qwen/Qwen3-32B', speculative_config=SpeculativeConfig("
    "method='eagle3', model='AngelSlim/Qwen3-32B_eagle3', num_spec_tokens=3), tokenizer='x', "
    "tensor_parallel_size=4, pipeline_parallel_size=2, data_parallel_size=1\n"
)
ACCEPTS = (
    "INFO 11-20 10:00:10 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 3.00, "
    "Accepted throughput: 200.00 tokens/s, Drafted throughput: 300.00 tokens/s, Accepted: 2000 "
    "tokens, Drafted: 3000 tokens, Per-position acceptance rate: 0.800, 0.700, 0.500, Avg Draft "
    "acceptance rate: 66.7%\n"
)


def serves(tokens_per_s: float, running: int, engine: str = "Engine 000: ") -> str:
    return (
        f"INFO 11-20 10:00:00 [loggers.py:257] {engine}Avg prompt throughput: 10.0 tokens/s, Avg "
        f"generation throughput: {tokens_per_s:.1f} tokens/s, Running: {running} reqs, Waiting: 0 "
        "reqs, GPU KV cache usage: 7.4%, Prefix cache hit rate: 0.0%\n"
    )


def totals(length: int, drafted: int, emitted: int) -> str:
    return (
        "INFO 03-01 10:00:00 metrics.py:477] Speculative metrics: Draft acceptance rate: 0.620, "
        f"System efficiency: 0.610, Number of speculative tokens: {length}, Number of accepted "
        f"tokens: {drafted // 2}, Number of draft tokens: {drafted}, Number of emitted tokens: "
        f"{emitted}.\n"
    )


def read(text: str):
    return read_document(document_from_text(text, "x.log"))


def test_the_engine_says_what_it_serves_with_what():
    (found,) = read(STARTS + ACCEPTS)
    assert (found.model, found.draft) == ("Qwen/Qwen3-32B", "AngelSlim/Qwen3-32B_eagle3")
    assert (found.method, found.engine_version, found.gpu_count) == (Method.EAGLE3, "0.11.0", 8)


@pytest.mark.parametrize(
    ("printed", "method"),
    [
        ("method='ngram', model=None", Method.NGRAM),
        ("method='qwen3_next_mtp', model='/model'", Method.MTP),
        ("method='brand_new', model='/model'", None),
    ],
)
def test_methods_go_by_the_engines_names(printed, method):
    starts = STARTS.replace("method='eagle3', model='AngelSlim/Qwen3-32B_eagle3'", printed)
    assert read(starts + ACCEPTS)[0].method is method


def test_two_servers_in_one_log_name_neither():
    other = STARTS.replace("Qwen/Qwen3-32B", "Qwen/Qwen3-8B")
    (found,) = read(STARTS + ACCEPTS + other + ACCEPTS)
    assert found.model == ""


def test_a_log_without_speculation_gives_its_throughput_and_no_capacity():
    log = serves(0.0, 1) + serves(300.0, 8) + serves(360.0, 10) + serves(0.0, 0)
    (found,) = read(STARTS + log)
    assert found.output_tokens_per_s == 330.0
    assert found.load.mean_concurrency == 9.0
    assert found.speculation is None
    assert not found.usable_for("capacity")


def test_engines_of_a_log_stay_apart():
    log = serves(300.0, 8) + serves(100.0, 2, "Engine 001: ")
    assert [(one.part, one.output_tokens_per_s) for one in read(log)] == [
        ("Engine 000", 300.0),
        ("Engine 001", 100.0),
    ]


def test_totals_of_the_first_engine_are_those_of_its_last_line():
    log = totals(3, 1200, 900) + serves(30.0, 1, "") + totals(3, 3000, 2460)
    (found,) = read(log)
    counts = found.speculation
    # 1,000 rounds of three drafts gave 2,460 tokens; 1,500 "accepted" ones are not in a row
    assert (counts.drafts, counts.accepted) == (1000, 1460)
    assert counts.tokens_per_draft_round == pytest.approx(2.46)
    assert {"since_start", "accepted_derived"} <= {flag.check for flag in found.flags}


def test_totals_that_fall_are_of_another_run():
    assert [
        one.speculation.drafts for one in read(totals(3, 3000, 2460) + totals(3, 300, 240))
    ] == [
        1000,
        100,
    ]


def test_a_process_is_known_behind_a_time_stamp():
    stamped = "2026-11-20T10:00:10.000Z (APIServer pid=7) " + ACCEPTS
    (found,) = read(stamped)
    assert found.part == "APIServer pid=7"


@pytest.mark.parametrize(
    "path",
    [
        "/models/Qwen3-32B",
        "/data/hub/models--Qwen--Qwen3-32B/snapshots/9216db5781bf",
    ],
)
def test_a_path_of_the_servers_machine_names_its_llm(path):
    found = read(STARTS.replace("'Qwen/Qwen3-32B'", f"'{path}'") + ACCEPTS)
    assert profile_of_results(ImportedResults(tuple(found))).target.spec.id == "Qwen/Qwen3-32B"


@pytest.mark.parametrize("path", ["/models/Qwen3-32B-AWQ", "/models/llama-3.3-70b", "/models/x"])
def test_a_path_that_only_begins_like_an_llm_names_none(path):
    found = read(STARTS.replace("'Qwen/Qwen3-32B'", f"'{path}'") + ACCEPTS)
    with pytest.raises(UnknownIdError, match="is not known"):
        profile_of_results(ImportedResults(tuple(found)))
