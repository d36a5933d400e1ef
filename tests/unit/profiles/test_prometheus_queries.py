"""Answers of Prometheus: what they hold, what is refused, and what engines counted in them."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from pathlib import Path

import pytest

from capplan.api.imports import import_results
from capplan.errors import MetricsError
from capplan.profiles.query_answer import is_query_answer, read_query_answer
from capplan.profiles.query_scrapes import looks
from capplan.profiles.traffic_counts import traffic_counts

METRICS = Path(__file__).parents[2] / "data" / "metrics"
RECORDED = METRICS / "prometheus_range.json"


def counts_of(answer):
    return traffic_counts(looks(read_query_answer(answer, "a.json"), "a.json"))


def recorded(name):
    """Values by time of the series of a name in the recorded answer, added up."""
    totals = {}
    for one in json.loads(RECORDED.read_text())["data"]["result"]:
        if one["metric"]["__name__"] == name:
            for second, value in one["values"]:
                totals[second] = totals.get(second, 0.0) + float(value)
    return [totals[second] for second in sorted(totals)]


def steps_without_restart(values):
    """What was counted in every step but the one in which the counter began anew."""
    return sum(after - before for before, after in pairwise(values) if after >= before)


# --- answers ---------------------------------------------------------------------------------


def test_a_series_keeps_its_labels_times_and_values(answers):
    answer = read_query_answer(
        answers.matrix(answers.series("vllm:prompt_tokens_total", [1, None, 3])), "a.json"
    )
    (one,) = answer.series
    assert (answer.kind, one.name) == ("matrix", "vllm:prompt_tokens_total")
    assert one.labels == (("engine", "0"), ("instance", "a:8000"), ("model_name", "m"))
    assert (one.seconds, one.values) == ((answers.MONDAY_S, answers.MONDAY_S + 120), (1.0, 3.0))


def test_warnings_of_the_server_and_native_histograms_are_told(answers):
    native = {"metric": {"__name__": "vllm:ttft"}, "histograms": [[1, {"count": "1"}]]}
    answer = answers.matrix(native, *answers.engine([0, 1])) | {
        "warnings": ["not all blocks were read"]
    }
    notes = read_query_answer(answer, "a.json").notes
    assert notes == ("not all blocks were read", "1 native histograms were left out.")


def _matrix(*found):
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}


ERROR = {"status": "error", "errorType": "bad_data", "error": "unclosed parenthesis"}
RATE = {"metric": {"engine": "0"}, "values": [[1, "2"]]}
NAMED = {"__name__": "vllm:prompt_tokens_total"}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ERROR, "refusal of the server (bad_data): unclosed parenthesis"),
        (_matrix(), "without a single series"),
        (_matrix(RATE), "series without a name"),
        (_matrix({"values": []}), "without its labels"),
        (_matrix({"metric": NAMED | {"engine": 0}, "values": [[1, "2"]]}), "no text"),
        (_matrix({"metric": NAMED, "values": [[1, "many"]]}), "no pairs of time and number"),
        (_matrix({"metric": NAMED, "values": [[1, "2", "3"]]}), "no pairs of time and number"),
        (_matrix({"metric": NAMED, "values": [[2, "2"], [1, "3"]]}), "that rise"),
        (_matrix({"metric": NAMED, "values": [[-1, "2"]]}), "that rise"),
        (_matrix({"metric": NAMED, "values": [[1.7e12, "2"]]}), "that rise"),
        (_matrix({"metric": NAMED, "values": []}), "that rise"),
        (_matrix({"metric": NAMED}), "that rise"),
        (_matrix({"metric": NAMED, "histograms": []}), "native histograms only"),
        ({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}, "'scalar'"),
        ({"status": "success", "data": {"resultType": "matrix"}}, "'matrix'"),
    ],
)
def test_what_is_no_answer_about_counters_is_refused_with_a_remedy(answer, says):
    assert is_query_answer(answer)
    with pytest.raises(MetricsError) as caught:
        read_query_answer(answer, "a.json")
    assert says in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize(
    "other", [[], {"status": "success"}, {"status": "error"}, {"data": {"resultType": "matrix"}}]
)
def test_other_json_is_no_answer(other):
    assert not is_query_answer(other)


# --- looks -----------------------------------------------------------------------------------


def test_servers_that_were_looked_at_at_times_of_their_own_are_refused(answers):
    late = copy.deepcopy(answers.engine([0, 1, 2, 3], instance="b:8000"))
    for one in late:
        one["values"] = [[second + 7, value] for second, value in one["values"]]
    with pytest.raises(MetricsError, match="looked at at other times, 8 in all"):
        looks(
            read_query_answer(answers.matrix(*answers.engine([0, 1, 2, 3]), *late), "a.json"),
            "a.json",
        )


def test_pods_that_came_and_went_share_the_times_of_their_lives(answers):
    parts = [
        answers.engine(
            [None] * (4 * i) + [0, 1, 2, 3] + [None] * (16 - 4 * i), instance=f"{i}:8000"
        )
        for i in range(5)
    ]
    answer = answers.matrix(*(one for part in parts for one in part))
    (counts,) = counts_of(answer)
    assert sum(counts.requests) == 15
    assert len(counts.engines) == 5


def test_an_answer_about_something_else_names_what_to_ask_for(answers):
    with pytest.raises(MetricsError, match="no figure of an engine"):
        looks(read_query_answer(answers.matrix(answers.series("up", [1, 1])), "a.json"), "a.json")
    with pytest.raises(MetricsError, match="no engine that is known"):
        looks(read_query_answer(answers.matrix(answers.series("up", [1])), "a.json"), "a.json")


# --- counts ----------------------------------------------------------------------------------


def test_engines_of_one_llm_are_added_step_by_step(answers):
    answer = answers.matrix(
        *answers.engine([10, 12, 15]), *answers.engine([5, 5, 9], instance="b:8000")
    )
    (counts,) = counts_of(answer)
    assert counts.seconds == (answers.MONDAY_S, answers.MONDAY_S + 60, answers.MONDAY_S + 120)
    assert counts.requests == (2, 7)
    assert counts.watched == (True, True)
    assert counts.total.prompt_tokens == 900
    assert counts.total.output_tokens == 180
    assert counts.restarts == 0


def test_an_engine_that_began_anew_is_counted_from_nothing(answers):
    (counts,) = counts_of(answers.matrix(*answers.engine([10, 12, 1, 4])))
    assert counts.requests == (2, 1, 3)
    assert counts.total.prompt_tokens == 600
    assert counts.restarts == 1


def test_what_was_counted_before_an_engine_was_first_seen_is_no_traffic(answers):
    answer = answers.matrix(
        *answers.engine([0, 1, 2]), *answers.engine([None, 5000, 5001], instance="b:8000")
    )
    (counts,) = counts_of(answer)
    assert counts.requests == (1, 2)


def test_time_without_looks_is_not_watched(answers):
    (missing,) = counts_of(answers.matrix(*answers.engine([0, 1, 2, None, None, 50, 51, 52])))
    assert missing.watched == (True, True, False, True, True)
    assert missing.requests == (1, 1, 0, 1, 1)
    both = answers.matrix(
        *answers.engine([0, 1, None, 9]), *answers.engine([0, 0, 0, 0], model_name="other")
    )
    (gone, other) = counts_of(both)
    assert (gone.watched, gone.requests) == ((True, False, False), (1, 0, 0))
    assert other.watched == (True, True, True)


def test_requests_that_failed_do_not_count_as_ended(answers):
    aborted = answers.series("vllm:request_success_total", [0, 4], finished_reason="abort")
    (counts,) = counts_of(answers.matrix(*answers.engine([0, 6]), aborted))
    assert counts.requests == (6,)
    assert counts.total.counters["failed"] == 4


def test_first_tokens_count_requests_where_nothing_counts_their_ends(answers):
    first = [
        answers.series("sglang:time_to_first_token_seconds_count", [3, 8]),
        answers.series("sglang:time_to_first_token_seconds_sum", [1, 2]),
    ]
    (counts,) = counts_of(answers.matrix(*first))
    assert (counts.software, counts.requests) == ("sglang", (5,))


def test_buckets_of_lengths_are_differences_and_never_fall(answers):
    name = "vllm:request_prompt_tokens_bucket"
    buckets = [
        answers.series(name, [1, 5], le="100"),
        answers.series(name, [2, 8], le="200"),
        answers.series(name, [2, 8], le="+Inf"),
        # a server with other bounds knows nothing between its own
        answers.series(name, [0, 9], le="150", instance="b:8000"),
        answers.series(name, [0, 9], le="+Inf", instance="b:8000"),
        answers.series(name, [0, 9], le="no number"),
        answers.series(name, [0, 9], le="nan"),
    ]
    (counts,) = counts_of(
        answers.matrix(
            *answers.engine([0, 6]), *answers.engine([0, 9], instance="b:8000"), *buckets
        )
    )
    assert counts.prompts == ((100, 4), (150, 9), (200, 9), (float("inf"), 15))
    assert counts.outputs == ()


def test_the_recorded_server_is_counted_as_its_series_say():
    (counts,) = counts_of(json.loads(RECORDED.read_text()))
    values = recorded("vllm:request_success_total")
    assert (counts.software, counts.model) == ("vllm", "SmolLM2-135M-Instruct")
    assert sum(counts.requests) == steps_without_restart(values) > 50
    assert counts.watched.count(False) == 1  # it was down for 45 s, killed in the middle
    assert counts.prompts[-1] == (float("inf"), counts.outputs[-1][1])
    assert counts.outputs[-1][1] == sum(counts.requests)


# --- import ----------------------------------------------------------------------------------


def test_an_answer_over_a_range_is_imported_as_windows_with_rates():
    found = import_results(RECORDED)
    assert not found.failures
    first, second = found.observations
    assert [one.part for one in found.observations] == [
        "2026-11-30 18:43:13 to 18:47:13 UTC",
        "2026-11-30 18:47:13 to 18:51:28 UTC",
    ]
    assert (first.duration_s, second.duration_s) == (240.0, 255.0)
    together = first.completed + second.completed
    assert together == steps_without_restart(recorded("vllm:request_success_total"))
    drafted = first.speculation.drafted + second.speculation.drafted
    assert drafted == steps_without_restart(recorded("vllm:spec_decode_num_draft_tokens_total"))
    assert {flag.check for flag in second.flags} >= {"engine_restarted", "arrivals_unknown"}
    assert "engine_restarted" not in {flag.check for flag in first.flags}
    assert not found.usable_for("capacity")
    assert len(found.usable_for("acceptance")) == 2


def test_an_answer_of_one_moment_is_the_totals_since_the_start():
    (one,) = import_results(METRICS / "prometheus_instant.json").observations
    assert "since_start" in {flag.check for flag in one.flags}
    assert one.completed == recorded("vllm:request_success_total")[-1]


def test_windows_are_long_enough_to_say_something_and_at_most_one_a_step(answers, tmp_path):
    def windows(requests_a_step, steps):
        path = tmp_path / "a.json"
        path.write_text(
            json.dumps(
                answers.matrix(*answers.engine([i * requests_a_step for i in range(steps + 1)]))
            )
        )
        return import_results(path).observations

    assert len(windows(1, 20)) == 1
    assert len(windows(10, 12)) == 4
    assert len(windows(1000, 5)) == 5
    many = windows(1000, 240)
    assert len(many) == 24
    assert sum(one.completed for one in many) == 240_000
    assert {one.duration_s for one in many} == {600.0}


def test_windows_of_several_llms_are_named_by_them(answers, tmp_path):
    path = tmp_path / "a.json"
    both = answers.matrix(*answers.engine([0, 50]), *answers.engine([0, 70], model_name="other"))
    path.write_text(json.dumps(both))
    parts = {one.model: one.part for one in import_results(path).observations}
    assert parts["other"].startswith("other, 2026-09-28 00:00:00 to 00:01:00 UTC")
    assert parts["m"].startswith("m, 2026-09-28")


def test_a_window_over_midnight_says_both_days(answers, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(answers.matrix(*answers.engine([0, 50], step_s=90_000))))
    (one,) = import_results(path).observations
    assert one.part == "2026-09-28 00:00:00 to 2026-09-29 01:00:00 UTC"


@pytest.mark.parametrize("requests", [29, 30])
def test_identities_are_asked_of_windows_with_many_requests_only(answers, tmp_path, requests):
    def lat(name, mean_s, count=requests):
        return [
            answers.series(f"vllm:{name}_seconds_count", [0, count], answers.every(600, 2)),
            answers.series(f"vllm:{name}_seconds_sum", [0, count * mean_s], answers.every(600, 2)),
        ]

    path = tmp_path / "a.json"
    wrong = answers.matrix(
        *answers.engine([0, requests], step_s=600),
        *lat("e2e_request_latency", 10.0),
        *lat("time_to_first_token", 1.0),
        *lat("request_time_per_output_token", 0.01),
        *lat("inter_token_latency", 0.01, requests * 19),
    )
    path.write_text(json.dumps(wrong))
    (one,) = import_results(path).observations
    found = {flag.check for flag in one.flags} & {"end_to_end", "littles_law"}
    assert found == ({"end_to_end", "littles_law"} if requests == 30 else set())
