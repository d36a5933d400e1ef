"""What a run is good for, and what a file contradicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from capplan.profiles.importers.document import document_from_text, open_document
from capplan.profiles.importers.reading import Known
from capplan.profiles.importers.registry import read_document
from capplan.schema.observation import Observation
from capplan.schema.pairing import Method

DATA = Path(__file__).parents[3] / "data" / "imports"


def sample(name: str, known: Known | None = None) -> list[Observation]:
    return read_document(open_document(DATA / name), known)


def result(**changes: Any) -> Observation:
    """A consistent result of ``vllm bench serve`` with speculation, and what a test changes."""
    drafts, accepted, requests, seconds = 9000, 13_950, 200, 40.0
    output = drafts + accepted + requests
    value: dict[str, Any] = {
        "backend": "openai-chat",
        "model_id": "Qwen/Qwen3-32B",
        "num_prompts": requests,
        "request_rate": "inf",
        "max_concurrency": 16,
        "duration": seconds,
        "completed": requests,
        "failed": 0,
        "total_input_tokens": 61_234,
        "total_output_tokens": output,
        "request_throughput": requests / seconds,
        "output_throughput": output / seconds,
        "total_token_throughput": (output + 61_234) / seconds,
        "spec_decode_acceptance_rate": 100 * accepted / (3 * drafts),
        "spec_decode_acceptance_length": 1 + accepted / drafts,
        "spec_decode_num_drafts": drafts,
        "spec_decode_draft_tokens": 3 * drafts,
        "spec_decode_accepted_tokens": accepted,
        "spec_decode_per_position_acceptance_rates": [0.72, 0.5, 0.33],
        "mean_ttft_ms": 150.0,
        "mean_tpot_ms": 26.0,
        "mean_itl_ms": 66.0,
    }
    value |= changes
    (observation,) = read_document(document_from_text(json.dumps(value), "x.json"))
    return observation


def checks(observation: Observation) -> set[str]:
    return {flag.check for flag in observation.flags}


def test_an_honest_result_is_usable_for_everything() -> None:
    honest = result()
    for use in ("capacity", "latency", "acceptance", "step_time"):
        assert honest.usable_for(use)
    assert checks(honest) == {"temperature_unknown", "no_request_counts"}
    assert honest.speculation is not None
    assert honest.speculation.tokens_per_draft_round == pytest.approx(2.55)
    assert honest.load.mean_concurrency == pytest.approx(15.7, rel=0.02)


def test_a_rate_as_a_fraction_is_as_good_as_a_percentage() -> None:
    assert checks(result(spec_decode_acceptance_rate=13_950 / 27_000)) == checks(result())


@pytest.mark.parametrize(
    ("changes", "check", "use"),
    [
        ({"spec_decode_acceptance_rate": 40.0}, "acceptance_rate", "acceptance"),
        ({"spec_decode_acceptance_length": 3.1}, "acceptance_length", "acceptance"),
        ({"spec_decode_accepted_tokens": 28_000}, "accepted_over_drafted", "acceptance"),
        (
            {"spec_decode_per_position_acceptance_rates": [0.5, 0.72, 0.33]},
            "positions_rise",
            "acceptance",
        ),
        ({"spec_decode_num_drafts": 18_000}, "counters_beyond_the_run", "acceptance"),
        ({"mean_itl_ms": 40.0}, "gap_over_tpot", "step_time"),
        ({"total_output_tokens": 46_300}, "output_rate", "capacity"),
        ({"failed": 40, "num_prompts": 240}, "failed_requests", "capacity"),
        ({"max_concurrency": 24}, "client_limited", "capacity"),
        ({"max_concurrency": 100}, "client_limited", "capacity"),
        ({"max_concurrency": 4}, "littles_law", "latency"),
        ({"request_rate": 5.2, "max_concurrency": None}, "arrival_limited", "capacity"),
        ({"request_rate": 9.0, "max_concurrency": None}, "overloaded", "latency"),
        ({"duration": -40.0}, "odd_values", "acceptance"),
        ({"ramp_up_strategy": "linear", "max_concurrency": None}, "ramped_rate", "latency"),
    ],
)
def test_what_does_not_add_up_is_flagged_for_its_use(
    changes: dict[str, Any], check: str, use: Any
) -> None:
    found = result(**changes)
    assert check in checks(found)
    assert not found.usable_for(use)


def test_a_mean_gap_equal_to_tpot_is_no_step_under_speculation() -> None:
    found = result(mean_itl_ms=26.1)
    assert found.step_s is None
    assert "gap_is_a_token" in checks(found)


def test_tokens_that_come_together_without_counts_leave_the_step_unknown() -> None:
    nothing = dict.fromkeys(("spec_decode_num_drafts", "spec_decode_acceptance_length"))
    found = result(**nothing)
    assert found.speculation is None
    assert found.step_s is None
    assert "several_tokens_together" in checks(found)


def test_rounds_without_a_draft_follow_from_the_output() -> None:
    found = result(
        total_output_tokens=30_200,
        output_throughput=755.0,
        total_token_throughput=(30_200 + 61_234) / 40,
        mean_tpot_ms=20.0,
        mean_itl_ms=37.0,
    )
    assert found.speculation is not None
    assert found.speculation.rounds == 30_200 - 200 - 13_950
    assert found.speculation.tokens_per_round == pytest.approx(1.869, rel=0.001)
    assert "rounds_without_draft" in checks(found)


def test_random_prompts_leave_timing_and_take_acceptance() -> None:
    found = result(total_input_tokens=200 * 1024, total_output_tokens=200 * 116)
    assert "random_prompts" in checks(found)
    assert not found.usable_for("acceptance")


def test_what_the_user_states_fills_what_a_file_leaves_open() -> None:
    known = Known(temperature=0.7, draft="d", method=Method.EAGLE3, num_speculative_tokens=3)
    (printed,) = sample("sglang_printed.txt", known)
    counts = printed.speculation
    assert counts is not None
    assert counts.num_speculative_tokens == 3
    assert counts.tokens_per_draft_round == pytest.approx(2.86)
    assert counts.acceptance_rate == pytest.approx(0.62)
    assert (printed.load.temperature, printed.draft, printed.method) == (0.7, "d", Method.EAGLE3)
    assert "counts_unknown" not in checks(printed)
    (without,) = sample("sglang_printed.txt")
    assert without.speculation is None
    assert not without.usable_for("acceptance")


def test_sglang_divides_its_gap_so_it_is_no_step_when_it_speculates() -> None:
    (printed,) = sample("sglang_printed.txt", Known(num_speculative_tokens=3))
    assert printed.step_s is None
    (plain,) = sample("sglang_bench.jsonl")
    assert plain.step_s is not None
    assert plain.step_s.mean == pytest.approx(0.01192, rel=0.001)


def test_inference_perf_counts_pieces_where_it_says_tokens() -> None:
    """Its TPOT times the tokens is half of the time that requests took to be written."""
    for name in ("inference_perf_stage_1.json", "inference_perf_eagle_stage_1.json"):
        (stage,) = sample(name)
        assert "end_to_end" in checks(stage)
        assert not stage.usable_for("latency")


def test_a_summary_over_stages_is_of_no_load() -> None:
    (summary,) = sample("inference_perf_summary.json")
    assert "merged" in checks(summary)
    assert not summary.usable_for("capacity")


def test_llmperf_has_the_first_token_in_its_latency_between_tokens() -> None:
    (found,) = sample("llmperf_summary.json")
    assert found.tpot_s is not None
    assert found.tpot_s.mean == pytest.approx((1.18407 - 0.25382) / 98.44, rel=0.001)
    assert found.load.mean_concurrency == pytest.approx(3.99, abs=0.01)
    assert "client_limited" in checks(found)
    assert found.load.temperature == 0.7


def test_aiperf_and_genai_perf_give_tpot_in_their_own_units() -> None:
    (aiperf,) = sample("aiperf.json")
    assert aiperf.tpot_s is not None
    assert aiperf.tpot_s.mean == pytest.approx(0.05176)
    assert aiperf.failed == 84
    assert aiperf.gpu == "NVIDIA RTX 6000 Ada Generation"
    assert {"cancelled", "failed_requests"} <= checks(aiperf)
    value = json.loads((DATA / "genai_perf.json").read_text())
    for name in ("request_latency", "time_to_first_token", "inter_token_latency"):
        section = value[name]
        section["unit"] = "ns"
        value[name] = {k: v if k == "unit" else str(v * 1e6) for k, v in section.items()}
    (in_ns,) = read_document(document_from_text(json.dumps(value), "x.json"))
    (in_ms,) = sample("genai_perf.json")
    assert in_ns.tpot_s is not None
    assert in_ms.tpot_s is not None
    assert in_ns.tpot_s.mean == pytest.approx(in_ms.tpot_s.mean)
    assert in_ms.load.mean_concurrency == pytest.approx(99.3, abs=0.1)


def test_a_server_log_of_sglang_adds_up_intervals() -> None:
    (found,) = sample("sglang_server.log")
    assert found.duration_s == 20
    assert found.output_tokens == pytest.approx(3967.6 + 4011.0)
    assert found.method is Method.MTP
    counts = found.speculation
    assert counts is not None
    assert counts.num_speculative_tokens == 3
    rounds = 3967.6 / 2.74 + 4011.0 / 2.80
    assert counts.tokens_per_draft_round == pytest.approx((3967.6 + 4011.0) / rounds)


def test_single_iterations_of_a_vllm_log_are_steps_of_a_batch() -> None:
    line = (
        "INFO Engine 000: Iteration({}): {} context requests, 0 context tokens, 4 generation "
        "requests, 16 generation tokens, iteration elapsed time: {} ms, GPU KV cache usage: 0.1%\n"
    )
    steps = [line.format(i, 0, 20 + i) for i in range(9)]
    with_prompts = [line.format(9 + i, 1, 500.0) for i in range(9)]
    text = "".join([*steps, *with_prompts])
    (found,) = read_document(document_from_text(text, "server.log"))
    assert found.step_s is not None
    assert found.step_s.p50 == pytest.approx(0.024)
    assert found.load.mean_concurrency == 4


def test_several_responses_are_added_up_and_stay_clusters() -> None:
    one = json.loads((DATA / "request_detailed.json").read_text())
    text = "\n".join(json.dumps(one) for _ in range(10))
    (found,) = read_document(document_from_text(text, "x.jsonl"))
    assert found.speculation is not None
    assert found.speculation.drafts == 330
    assert found.speculation.by_request == ((33.0, 168.0),) * 10
    assert found.usable_for("acceptance")
    one["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] = 100
    (edited,) = read_document(document_from_text(json.dumps(one), "x.json"))
    assert "histogram_contradicts" in checks(edited)
