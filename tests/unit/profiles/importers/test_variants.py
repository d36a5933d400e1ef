"""Versions of a tool write the same figures under other names and in other places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capplan.profiles.importers.document import document_from_text
from capplan.profiles.importers.registry import read_document

DATA = Path(__file__).parents[3] / "data" / "imports"


def read(value: Any):
    (found,) = read_document(document_from_text(json.dumps(value), "x"))
    return found


def sample(name: str) -> dict[str, Any]:
    return json.loads((DATA / name).read_text())


@pytest.mark.parametrize(
    "config",
    [
        {"perf_analyzer": {"stimulus": {"concurrency": 100}}, "model": {"names": ["llm"]}},
        {"perf_analyzer": {"stimulus": {"concurrency": [100]}}, "model_names": ["llm"]},
        {"loadgen": {"concurrency": [100]}, "endpoint": {"model_names": ["llm"]}},
        {"concurrency": 100, "model": ["llm"]},
    ],
)
def test_concurrency_and_llm_are_found_where_a_version_has_them(config):
    found = read({**sample("genai_perf.json"), "input_config": config})
    assert found.load.arrival == "closed_loop"
    assert found.load.max_concurrency == 100
    assert found.model == "llm"


def test_prompts_of_a_nested_configuration_are_synthetic_too():
    config = {"input": {"prompt_source": "synthetic", "synthetic_tokens": {"mean": 2000}}}
    found = read({**sample("genai_perf.json"), "input_config": config})
    assert "asked_prompt" in {flag.check for flag in found.flags}  # 200 tokens came of 2,000


def test_records_of_the_first_releases_are_one_run():
    def record(place: int) -> dict[str, Any]:
        begin = 10**18 + place * 10**9
        return {
            "metadata": {"timestamp_ns": begin, "credit_phase": "profiling"},
            "metrics": {
                "ttft": {"value": 100.0, "unit": "ms"},
                "request_latency": {"value": 2080.0, "unit": "ms"},
                "inter_token_latency": {"value": 20.0, "unit": "ms"},
                "output_sequence_length": {"value": 100, "unit": "tokens"},
            },
            "error": None,
        }

    lines = "\n".join(json.dumps(record(place)) for place in range(20))
    (found,) = read_document(document_from_text(lines, "x"))
    assert found.completed == 20
    assert found.duration_s == pytest.approx(19 + 2.08)
    assert found.output_tokens_per_s == pytest.approx(2000 / 21.08)
    assert found.ttft_s.mean == pytest.approx(0.1)


def test_a_stage_at_a_concurrency_is_called_so():
    stage = sample("inference_perf_stage_1.json")
    stage["load_summary"] = {"count": 360, "concurrency": 18}
    assert read(stage).part == "concurrency 18"


ROW = {"hw": "gb200", "conc": 64, "isl": 1024, "osl": 1024, "disagg": False}


@pytest.mark.parametrize(
    ("layout", "gpus", "output"),
    [
        ({"tp": 8}, 8, 800.0),
        ({"tp": 4, "pp": 2, "pcp_size": 2, "dcp_size": 4}, 16, 1600.0),
        ({"num_prefill_gpu": 16, "num_decode_gpu": 0}, 16, 1600.0),
        ({"num_prefill_gpu": 8, "num_decode_gpu": 8, "decode_tp": 8}, 8, 800.0),
        ({"disagg": True, "num_prefill_gpu": 8, "num_decode_gpu": 32}, 40, 3200.0),
        (
            {
                "disagg": True,
                "prefill_tp": 4,
                "prefill_num_workers": 2,
                "decode_tp": 8,
                "decode_num_workers": 4,
            },
            40,
            3200.0,
        ),
        ({"disagg": True, "prefill_tp": 4, "decode_tp": 8}, None, None),
    ],
)
def test_output_of_a_row_is_that_of_the_gpus_that_decode(layout, gpus, output):
    found = read([{**ROW, **layout, "tput_per_gpu": 200.0, "output_tput_per_gpu": 100.0}])
    assert found.gpu_count == gpus
    assert found.output_tokens_per_s == output


@pytest.mark.parametrize(
    ("backend", "gap_ms", "step_ms"),
    [
        ("sglang", 11.9, None),  # its own protocol: a piece's gap over its tokens
        ("sglang-oai-chat", 11.9 * 2.5, 11.9 * 2.5),  # OpenAI's: a piece is a round
        ("sglang-oai", 11.9, None),
    ],
)
def test_a_gap_of_sglangs_client_is_a_step_with_openais_protocol(backend, gap_ms, step_ms):
    value = json.loads((DATA / "sglang_bench.jsonl").read_text())
    found = read(
        {
            **value,
            "backend": backend,
            "accept_length": 2.5,
            "mean_itl_ms": gap_ms,
            "mean_tpot_ms": 11.9,
            "server_info": {"speculative_num_draft_tokens": 4},
        }
    )
    assert "gap_over_tpot" not in {flag.check for flag in found.flags}
    assert (found.step_s.mean if found.step_s else None) == (
        pytest.approx(step_ms / 1000) if step_ms else None
    )
