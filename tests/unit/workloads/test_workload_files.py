"""Workload files: what they hold, what is wrong with them, and that they survive writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from capplan.api.workloads import load_services, load_workload, save_workload, understand
from capplan.errors import RequestError, WorkloadError
from capplan.planning.peaks import traffic_assumptions
from capplan.reporting.workload_text import render_workload
from capplan.schema.plan import PlanRequest
from capplan.schema.services import Services
from capplan.schema.workload import Slo, Workload
from capplan.workloads.workload_file import read_workload_file, workload_yaml

CHAT = """
requests_per_s: 6
arrival: {peak_requests_per_s: 15}
prompt_lengths: {kind: lognormal, mean_tokens: 1500, p95_tokens: 5000}
output_lengths: {kind: fixed, tokens: 400}
task_shares: {chat: 0.75, code: 0.25}
temperature_shares: {0: 1, 0.8: 1}
thinking_share: 0.5
prefix_cache_hit_rate: 0.4
"""


def _file(tmp_path: Path, text: str, name: str = "chat.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def _one(services: Services) -> Workload:
    return services.services[0].workload


def test_a_file_is_read_and_its_shares_are_multiplied_out(tmp_path: Path) -> None:
    services = read_workload_file(_file(tmp_path, CHAT))
    load = _one(services)
    assert services.services[0].name == "chat"
    assert (load.prompt_tokens, load.output_tokens) == (1500, 400)
    assert len(load.mix) == 8
    hot_code = [p for p in load.mix if p.task == "code" and p.temperature == 0.8 and p.thinking]
    assert hot_code[0].share == pytest.approx(0.25 * 1 * 0.5)
    assert load.temperature == pytest.approx(0.4)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    services = read_workload_file(_file(tmp_path, CHAT))
    again = read_workload_file(_file(tmp_path, workload_yaml(services, "a remark"), "again.yaml"))
    assert _one(again).mix == _one(services).mix
    assert _one(again).prompt_lengths.mean_tokens == pytest.approx(1500, rel=1e-4)  # type: ignore[union-attr]
    save_workload(tmp_path / "saved.yaml", _one(services))
    assert _one(read_workload_file(tmp_path / "saved.yaml")).requests_per_s == 6


@pytest.mark.parametrize(
    ("shares", "total"),
    [
        ("task_shares: {chat: 0.7, code: 0.2}", "0.9"),
        ("task_shares: {chat: 70, code: 30}", "100"),
        ("temperature_shares: {0: 1, 0.8: 1}", "2"),
        ("mix: [{share: 0.5, task: a}, {share: 0.3, task: b}]", "0.8"),
    ],
)
def test_shares_that_are_not_parts_of_one_whole_are_put_in_proportion_and_it_is_said(
    tmp_path: Path, shares: str, total: str
) -> None:
    path = _file(tmp_path, f"requests_per_s: 1\n{shares}\n")
    said = f"add up to {total}, not to 1: they are put in proportion"
    report = understand([path])
    assert report.notes == (f"chat: the shares of the mix {said}",)
    assert said in render_workload(report)
    request = PlanRequest(targets=("t",), budget_usd_per_month=1, workload=load_workload(path))
    (mix,) = (one for one in traffic_assumptions(request) if one.name == "Mix")
    assert said in mix.value


@pytest.mark.parametrize("shares", ["{a: 0.7, b: 0.3}", "{a: 0.33, b: 0.33, c: 0.33}"])
def test_shares_that_add_up_but_for_rounding_are_not_remarked_on(
    tmp_path: Path, shares: str
) -> None:
    assert understand([_file(tmp_path, f"task_shares: {shares}\n")]).notes == ()


def test_several_services_are_put_together(tmp_path: Path) -> None:
    text = "services:\n  - {name: a, requests_per_s: 1}\n  - {name: b, requests_per_s: 3}\n"
    path = _file(tmp_path, text)
    assert load_workload(path).requests_per_s == pytest.approx(4)
    report = understand([path])
    assert [one.name for one in report.services] == ["a", "b"]
    assert report.together is not None
    assert report.together.figures.mean_requests_per_s == pytest.approx(4)


def test_a_service_may_ask_for_an_llm_and_for_limits(tmp_path: Path) -> None:
    text = (
        "services:\n"
        "  - {name: a, requests_per_s: 1, target: qwen3-32b, slo: {tpot_ms: 40, ttft_ms: 800}}\n"
        "  - {name: b, requests_per_s: 3}\n"
    )
    found = load_services(_file(tmp_path, text))
    first, second = found.services
    assert (first.target, first.slo) == ("qwen3-32b", Slo(tpot_ms=40, ttft_ms=800))
    assert (second.target, second.slo) == (None, Slo())
    assert read_workload_file(_file(tmp_path, workload_yaml(found), "again.yaml")) == found
    report = understand([tmp_path / "again.yaml"])
    assert report.together is None
    assert "different LLMs" in report.notes[0]
    shown = render_workload(report)
    assert "qwen3-32b" in shown
    assert "TPOT 40 ms, TTFT 800 ms" in shown


def test_services_of_two_utilisations_are_shown_and_not_put_together(tmp_path: Path) -> None:
    text = (
        "services:\n  - {name: a, requests_per_s: 1}\n"
        "  - {name: b, requests_per_s: 3, utilisation: 0.8}\n"
    )
    report = understand([_file(tmp_path, text)])
    assert report.together is None
    assert "utilisations of 0.6, 0.8" in report.notes[0]


def test_two_files_are_two_services_with_two_names(tmp_path: Path) -> None:
    one = _file(tmp_path, "requests_per_s: 1\n", "one.yaml")
    two = _file(tmp_path, "prompt_tokens: 10\n", "two.yaml")
    report = understand([one, two])
    assert report.together is None
    assert "two: no rate" in report.notes[0]
    with pytest.raises(RequestError, match="Two services are named 'one'"):
        understand([one, one])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("request_per_s: 6\n", r"unknown field request_per_s \(did you mean requests_per_s\?\)"),
        ("requests_per_s: -1\n", r"requests_per_s: got -1; expected greater than 0"),
        ("requests_per_s: fast\n", r"requests_per_s: got 'fast'; expected a valid number"),
        ("requests_per_s: yes\n", r"requests_per_s: got true; expected a number"),
        ("task_shares: {no: 1}\n", r"task_shares: got false"),
        ("requests_per_s: 1\nrequests_per_s: 2\n", r"line 2.*'requests_per_s' stands there twice"),
        ("requests_per_s: [1\n", "no YAML that can be read"),
        ("- 1\n", "expected fields"),
        ("", "got nothing"),
        ("task_shares: {code: 0}\n", r"task_shares.code: got 0; expected a share above 0"),
        ("task_shares: code\n", "expected pairs"),
        ("thinking_share: 2\n", "thinking_share: got 2; expected 0 to 1"),
        ("task_shares: {a: 1}\nmix: [{share: 1}]\n", "mix and task_shares say the same"),
        ("temperature_shares: {0: 1}\ntemperature: 1\n", "say the same"),
        ("arrival: {hour_of_day: [1, 2]}\n", "has 2 weights; expected 24"),
        ("arrival: {peak: 3}\n", "arrival.peak"),
        ("prompt_lengths: {kind: lognormal, mean_tokens: 9}\n", "give mean_tokens and p95"),
        ("services: []\n", "expected a list of services"),
        ("services: [{requests_per_s: 1}]\n", r"services\[0\].name: got None"),
        ("services: [3]\n", r"services\[0\]: expected fields"),
        ("services: [{name: a}]\nrequests_per_s: 1\n", "requests_per_s stands beside services"),
        ("services: [{name: a}, {name: a}]\n", "service 'a' stands there twice"),
        ("services: [{name: chat, prompt_tokens: 0}]\n", r"chat.prompt_tokens: got 0"),
        ("services: [{name: chat, target: 3}]\n", r"chat.target: got 3; expected the name"),
        ("services: [{name: chat, target: ''}]\n", r"chat.target: got ''"),
        ("services: [{name: chat, slo: 40}]\n", r"chat.slo: got 40; expected limits"),
        ("services: [{name: chat, slo: {tpot: 4}}]\n", r"chat.slo: got .*expected limits"),
        ("services: [{name: chat, slo: {tpot_ms: yes}}]\n", r"chat.slo.tpot_ms: got true"),
        ("services: [{name: chat, slo: {tpot_ms: -4}}]\n", r"chat.slo.tpot_ms: got -4"),
        ("target: qwen3-32b\n", r"unknown field target"),
    ],
)
def test_what_is_wrong_is_said_with_file_field_and_value(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(WorkloadError, match=said) as caught:
        read_workload_file(_file(tmp_path, text))
    assert "chat.yaml" in caught.value.message
    assert caught.value.remedy


def test_a_file_that_is_not_there_or_no_text_is_explained(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="No such file"):
        read_workload_file(tmp_path / "absent.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(WorkloadError, match="no UTF-8 text"):
        read_workload_file(tmp_path / "b.yaml")
