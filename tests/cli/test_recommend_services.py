"""``capplan recommend --workload`` of several services, and of a budget without a rate."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from capplan.cli.main import main

Call = Callable[..., tuple[int, str, str]]
FEW = ("--gpu", "l40s-48gb", "--gpu", "h100-sxm-80gb", "--max-n", "2")
LLAMA, QWEN = "meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B"
CHAT = "name: chat, requests_per_s: 8, prompt_tokens: 1200, output_tokens: 300"
EXTRACT = "name: extract, requests_per_s: 3, prompt_tokens: 6000, output_tokens: 60"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["capplan", "recommend", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return call


def services(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text("services:\n" + "".join(f"  - {{{line}}}\n" for line in lines))
    return path


def test_the_section_shows_every_way_and_why(run: Call, tmp_path: Path) -> None:
    path = services(tmp_path, f"{CHAT}, slo: {{tpot_ms: 12}}", EXTRACT)
    code, out, _ = run("--target", LLAMA, "--budget", "90k", "--workload", path, *FEW)
    assert code == 0
    assert out.startswith("Serve chat, extract ")
    section = out.partition("Services, 90,000 USD a month for all of them:")[2]
    assert "Apart, each on replicas of its own" in section
    assert "Shared, all of one LLM on the same replicas" in section
    assert "chat + extract: Llama-3.1-8B-Instruct" in section
    assert "(limit 12)" in section
    assert "Why shared costs" in section
    assert all(len(line) <= 100 for line in section.partition("Options, best")[0].splitlines())


def test_json_holds_the_ways_with_their_launch_texts(run: Call, tmp_path: Path) -> None:
    path = services(tmp_path, CHAT, f"{EXTRACT}, target: {QWEN}")
    asked = ("--target", LLAMA, "--budget", "90k", "--workload", path, *FEW)
    code, out, _ = run(*asked, "--format", "json")
    assert code == 0
    fleet = json.loads(out)["fleet"]
    (apart,) = fleet["ways"]
    assert [part["target"] for part in apart["parts"]] == [LLAMA, QWEN]
    assert all("vllm serve" in part["launch"] for part in apart["parts"])
    usd = sum(part["usd_per_month"]["mid"] for part in apart["parts"])
    assert apart["usd_per_month"]["mid"] == pytest.approx(usd)


def test_services_that_all_name_their_llm_need_no_target(run: Call, tmp_path: Path) -> None:
    named = (f"{CHAT}, target: {LLAMA}", f"{EXTRACT}, target: {QWEN}")
    code, out, _ = run("--budget", "90k", "--workload", services(tmp_path, *named), *FEW)
    assert code == 0
    assert "extract: Qwen3-8B" in out
    code, _, err = run("--budget", "90k", "--workload", services(tmp_path, named[0], EXTRACT))
    assert code == 2
    assert "target: in every service" in err


def test_one_service_keeps_its_own_target_and_limits(run: Call, tmp_path: Path) -> None:
    path = services(tmp_path, f"{CHAT}, target: {QWEN}, slo: {{tpot_ms: 25}}")
    asked = ("--budget", "90k", "--workload", path, "--slo-ttft", "2s", "--format", "json", *FEW)
    code, out, _ = run(*asked)
    plan = json.loads(out)
    assert code == 0
    assert plan["request"]["targets"] == [QWEN]
    assert plan["request"]["slo"] == {"tpot_ms": 25.0, "ttft_ms": 2000.0}
    assert plan["fleet"] is None


def test_a_fleet_above_the_budget_exits_with_three_and_says_what_it_takes(
    run: Call, tmp_path: Path
) -> None:
    path = services(tmp_path, CHAT, EXTRACT)
    code, out, _ = run("--target", LLAMA, "--budget", "300", "--workload", path, *FEW)
    assert code == 3
    assert "No way to serve chat, extract costs 300 USD a month or less." in out
    assert "above the budget" in out


def test_a_budget_without_a_rate_is_answered_in_tokens(run: Call) -> None:
    code, out, _ = run("--target", LLAMA, "--budget", "20k", *FEW)
    assert code == 0
    assert out.startswith("Most output tokens for 20,000 USD a month: ")
    code, out, _ = run("--target", LLAMA, "--budget", "20k", *FEW, "--format", "json")
    best, second = json.loads(out)["options"][:2]
    tokens = [one["output_tokens_per_month"] for one in (best, second)]
    assert tokens[0]["low"] < tokens[0]["mid"] < tokens[0]["high"]
    assert tokens[0]["mid"] >= tokens[1]["mid"]
