"""Workloads out of the answers of Prometheus."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from capplan.api.workloads import load_services, load_workload, save_workload, understand
from capplan.errors import WorkloadError
from capplan.reporting.workload_text import render_workload
from capplan.schema.workload import Workload

RECORDED = Path(__file__).parents[2] / "data" / "metrics" / "prometheus_range.json"
MOMENT = RECORDED.with_name("prometheus_instant.json")
INFINITE = "+Inf"


@pytest.fixture
def saved(answers: Any, tmp_path: Path) -> Any:
    """Writes an answer."""

    def save(*found: Any, name: str = "week.json") -> Path:
        path = tmp_path / name
        text = json.dumps(answers.matrix(*found)).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return save


def histogram(
    answers: Any, name: str, mean: float, counts: dict[str, float]
) -> list[dict[str, Any]]:
    """Return the series of a histogram of lengths over two looks."""
    ended = counts[INFINITE]
    buckets = [answers.series(f"{name}_bucket", [0, n], le=bound) for bound, n in counts.items()]
    return [
        *buckets,
        answers.series(f"{name}_sum", [0, mean * ended]),
        answers.series(f"{name}_count", [0, ended]),
    ]


@pytest.mark.parametrize("name", ["week.json", "week.json.gz"])
def test_one_llm_is_a_service_named_after_the_file(answers: Any, saved: Any, name: str) -> None:
    path = saved(*answers.engine([0, 60, 180, 240]), name=name)
    (service,) = understand([path], window="1 min").services
    assert (service.name, service.target) == ("week", None)
    assert service.workload.requests_per_s == pytest.approx(240 / 180)
    assert service.workload.arrival is not None
    assert service.workload.arrival.peak_requests_per_s == pytest.approx(2)
    assert (service.workload.prompt_tokens, service.workload.output_tokens) == (100, 20)
    assert load_workload(path).requests_per_s == pytest.approx(240 / 180)


def test_several_llms_are_services_that_ask_for_them_the_busiest_first(
    answers: Any, saved: Any
) -> None:
    path = saved(
        *answers.engine([0, 60]),
        *answers.engine([0, 90], model_name="other", prompt=400),
        *answers.engine([7, 7], model_name="idle"),
    )
    found = load_services(path).services
    assert [(one.name, one.target) for one in found] == [("other", "other"), ("m", "m")]
    assert [one.workload.prompt_tokens for one in found] == [400, 100]
    text = render_workload(understand([path]))
    assert text.count("idle served nothing") == 1


def test_one_llm_on_two_engines_is_two_services(answers: Any, saved: Any) -> None:
    first = answers.series("sglang:time_to_first_token_seconds_count", [0, 5])
    tokens = [
        answers.series(f"sglang:{name}_tokens_total", [0, 50]) for name in ("prompt", "generation")
    ]
    found = load_services(saved(*answers.engine([0, 60]), first, *tokens)).services
    assert [(one.name, one.target) for one in found] == [("m (vllm)", "m"), ("m (sglang)", "m")]


def test_lengths_are_those_of_the_requests_that_ended(answers: Any, saved: Any) -> None:
    """Counters of tokens hold the prompts of requests that are still running too."""
    path = saved(
        *answers.engine([0, 10], prompt=1000, output=1000),
        *histogram(
            answers, "vllm:request_prompt_tokens", 300, {"200": 0, "500": 10, INFINITE: 10}
        ),
        *histogram(
            answers, "vllm:request_generation_tokens", 12, {"10": 5, "20": 10, INFINITE: 10}
        ),
    )
    load = load_workload(path)
    assert (load.prompt_tokens, load.output_tokens) == (300, 12)
    assert load.prompt_lengths is not None
    assert load.prompt_lengths.kind == "empirical"
    assert (load.prompt_lengths.tokens[0], load.prompt_lengths.tokens[-1]) == (200, 500)


def test_a_bucket_without_a_bound_tells_no_lengths(answers: Any, saved: Any) -> None:
    found = histogram(answers, "vllm:request_prompt_tokens", 300, {INFINITE: 10})
    load = load_workload(saved(*answers.engine([0, 10]), *found))
    assert load.prompt_lengths is not None
    assert (load.prompt_lengths.kind, load.prompt_lengths.mean_tokens) == ("fixed", 300)


def test_what_the_prefix_cache_held_is_not_computed(answers: Any, saved: Any) -> None:
    found = [
        answers.series("vllm:prefix_cache_queries_total", [0, 1000]),
        answers.series("vllm:prefix_cache_hits_total", [0, 250]),
    ]
    assert load_workload(saved(*answers.engine([0, 10]), *found)).prefix_cache_hit_rate == 0.25


def test_the_recorded_server_served_what_its_clients_saw() -> None:
    """They had 63 answers; those of the 45 s around the kill are not counted."""
    (service,) = understand([RECORDED], window="1 min").services
    counted = service.counted
    assert counted is not None
    assert (counted.model, counted.engines) == ("SmolLM2-135M-Instruct", 1)
    assert 58 <= counted.requests <= 63
    assert (counted.looks, counted.step_s) == (32, 15)
    assert counted.unseen_hours * 3600 == pytest.approx(45)
    assert service.workload.requests_per_s == pytest.approx(counted.requests / (30 * 15))
    assert 0.15 < (counted.peak_requests_per_s["1 min"] or 0) < 0.35
    text = render_workload(understand([RECORDED]))
    assert "prompt, empirical" in text
    assert "0.8 min of it not watched" in text


def test_steps_longer_than_the_window_are_said(answers: Any, saved: Any) -> None:
    path = saved(*answers.engine([0, 60, 180], step_s=600))
    (service,) = understand([path]).services
    assert service.counted is not None
    assert service.counted.peak_requests_per_s["5 min"] is None
    assert service.counted.peak_requests_per_s["15 min"] == pytest.approx(150 / 900)
    assert "looks are 10 min apart" in service.counted.notes[0]
    assert service.figures.peak_requests_per_s == pytest.approx(0.2)


def test_a_temperature_that_no_counter_tells_is_said_to_be_taken(answers: Any, saved: Any) -> None:
    path = saved(*answers.engine([0, 60]))
    assert "temperature 0: the file does not say" in render_workload(understand([path]))

    def stated(load: Workload) -> Workload:
        return load.model_copy(update={"temperature": 0.7})

    assert "does not say" not in render_workload(understand([path], change=stated))


def test_restarts_failures_and_missing_buckets_are_said(answers: Any, saved: Any) -> None:
    aborted = answers.series("vllm:request_success_total", [0, 3, 0, 0], finished_reason="abort")
    lengths = [
        answers.series("vllm:request_prompt_tokens_bucket", [0, 5, 1, 9], le=bound)
        for bound in ("200", INFINITE)
    ]
    path = saved(*answers.engine([5, 6, 1, 9]), aborted, *lengths)
    text = render_workload(understand([path]))
    assert "10 ended, 3 failed; an engine began anew once" in text
    assert "holds no buckets of outputs" in text


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("vllm:request_success_total", [5, 5], "not one request ended"),
        ("llamacpp:tokens_predicted_total", [0, 9], "no counter of requests"),
        ("vllm:request_success_total", [0, 9], "not their tokens"),
        ("up", [1, 1], "no figure of an engine"),
    ],
)
def test_what_tells_no_load_is_refused_with_a_remedy(
    answers: Any, saved: Any, name: str, values: list[float], says: str
) -> None:
    with pytest.raises(WorkloadError, match=says) as caught:
        understand([saved(answers.series(name, values))])
    assert caught.value.remedy


@pytest.mark.parametrize(
    "lengths", [{"prompt": 1e9}, {"output": 1e9}, {"prompt": 1e-300, "output": 1e300}]
)
def test_figures_that_cannot_be_are_refused(
    answers: Any, saved: Any, lengths: dict[str, float]
) -> None:
    with pytest.raises(WorkloadError, match=r"figures that cannot be|not their tokens"):
        understand([saved(*answers.engine([0, 1], **lengths))])


def test_one_moment_is_no_load() -> None:
    with pytest.raises(WorkloadError, match="of one moment") as caught:
        understand([MOMENT])
    assert "query_range" in caught.value.remedy


@pytest.mark.parametrize("name", ["week.json", "week.json.gz"])
def test_an_answer_that_is_cut_or_too_large_is_not_taken_for_a_workload_file(
    answers: Any, saved: Any, name: str
) -> None:
    path = saved(*answers.engine([0, 60]), name=name)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(WorkloadError, match=r"week\.json") as caught:
        understand([path])
    assert "larger step" in caught.value.remedy


def test_a_file_that_is_not_there_is_said_as_always(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="No such file"):
        understand([tmp_path / "none.json"])


def test_workload_files_in_json_are_still_workload_files(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('{"requests_per_s": 2, "prompt_tokens": 7}')
    assert load_workload(path).prompt_tokens == 7
    path.write_text('{"requests_per_s": 2, ')
    with pytest.raises(WorkloadError, match=r"chat\.json"):
        load_workload(path)


def test_a_load_out_of_counters_survives_a_workload_file(tmp_path: Path) -> None:
    path = tmp_path / "load.yaml"
    load = load_workload(RECORDED)
    save_workload(path, load)
    again = load_workload(path)
    assert again.prompt_lengths is not None
    assert load.prompt_lengths is not None
    assert again.prompt_lengths.mean_tokens == pytest.approx(
        load.prompt_lengths.mean_tokens, rel=1e-4
    )
    assert again.requests_per_s == pytest.approx(load.requests_per_s, rel=1e-5)
