"""``capplan recommend`` from the command line: exit codes, messages, the shape of its JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import capplan
from capplan.api.adaptive import schedule
from capplan.api.schedule_loads import ScheduleWishes
from capplan.cli.main import main
from capplan.profiles.store import load_profile, save_profile

QWEN = ("--target", "Qwen/Qwen3-32B")
FEASIBLE = (*QWEN, "--budget", "20000", "--rate", "2", "--gpu", "h100-sxm-80gb")

FIGURES = (
    "usd_per_month",
    "usd_per_million_output_tokens",
    "output_tokens_per_s",
    "tpot_ms",
    "speedup",
)


class Outcome:
    """What a run of the command line left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["capplan", "recommend", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        code = caught.value.code
        return Outcome(code if isinstance(code, int) else 1, captured.out, captured.err)

    return call


def test_an_answer_has_exit_code_zero_and_says_what_to_run(run: Any) -> None:
    outcome = run(*FEASIBLE)
    assert outcome.code == 0
    assert "Qwen3-32B" in outcome.out
    assert "H100" in outcome.out


@pytest.mark.parametrize("budget", ["nan", "-5", "0", "inf", "-inf", "lots", "1e999"])
def test_a_budget_that_is_no_budget_is_misuse(run: Any, budget: str) -> None:
    outcome = run(*QWEN, f"--budget={budget}")
    assert outcome.code == 2
    assert "--budget" in outcome.err
    assert "dollar amount" in outcome.err
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def test_no_budget_is_misuse(run: Any) -> None:
    outcome = run(*QWEN)
    assert outcome.code == 2
    assert "--budget" in outcome.err


def test_no_target_and_no_profile_is_misuse_and_says_where_to_look(run: Any) -> None:
    outcome = run("--budget", "100")
    assert outcome.code == 2
    assert "--target" in outcome.err
    assert "capplan facts models" in outcome.err


def test_two_ways_to_state_the_load_are_misuse(run: Any) -> None:
    outcome = run(*QWEN, "--budget", "100", "--rate", "2", "--tokens-per-month", "1e9")
    assert outcome.code == 2
    assert "--rate" in outcome.err
    assert "--tokens-per-month" in outcome.err


@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--slo-tpot", "40parsecs", "units: ms, s"),
        ("--rate", "6/fortnight", "units"),
        ("--rate", "0", "positive"),
        ("--method", "psychic", "known: draft_model"),
        ("--max-n", "17", "16"),
        ("--gpu-price", "h100", "GPU=USD_PER_HOUR"),
        ("--gpu-price", "h100-sxm-80gb=-1", "positive"),
        ("--assume-acceptance", "1.5", "0<=x<=1"),
        ("--utilisation", "0", "above 0"),
        ("--temperature", "nan", "temperature"),
        ("--assume-acceptance", "nan", "assume"),
        ("--utilisation", "nan", "utilisation"),
        ("--temperature", "inf", "temperature"),
    ],
)
def test_a_value_out_of_range_is_misuse(run: Any, option: str, value: str, word: str) -> None:
    outcome = run(*QWEN, "--budget", "20000", option, value)
    assert outcome.code == 2
    assert word in outcome.err
    assert "Traceback" not in outcome.err


def test_an_unknown_target_is_an_error_with_the_nearest_names(run: Any) -> None:
    outcome = run("--target", "Qwen/Qwen3-23B", "--budget", "100")
    assert outcome.code == 1
    assert "Qwen/Qwen3-23B" in outcome.err
    assert "Did you mean" in outcome.err
    assert "Qwen/Qwen3-32B" in outcome.err


@pytest.mark.parametrize(
    ("option", "value"), [("--gpu", "h1000"), ("--provider", "lambada"), ("--draft", "qwen9")]
)
def test_an_unknown_filter_is_an_error_that_names_it(run: Any, option: str, value: str) -> None:
    outcome = run(*QWEN, "--budget", "100", option, value)
    assert outcome.code == 1
    assert value in outcome.err


def test_a_budget_too_small_is_an_answer_with_what_it_would_take(run: Any) -> None:
    outcome = run(*QWEN, "--budget", "50", "--rate", "2", "--format", "json")
    assert outcome.code == 3
    plan = json.loads(outcome.out)
    assert plan["options"] == []
    assert plan["verdict"]["feasible"] is False
    assert "more than the budget" in plan["verdict"]["needed"]
    table = run(*QWEN, "--budget", "50", "--rate", "2")
    assert table.code == 3
    assert "more than the budget" in " ".join(table.out.split())


def assert_figure(value: Any) -> None:
    assert set(value) == {"low", "mid", "high"}
    assert value["low"] <= value["mid"] <= value["high"]


def test_json_has_the_promised_shape(run: Any) -> None:
    outcome = run(*FEASIBLE, "--format", "json")
    plan = json.loads(outcome.out)
    assert {"schema_version", "request", "verdict", "options", "rejections", "baseline"} <= set(
        plan
    )
    assert plan["schema_version"] == 1
    assert plan["verdict"]["feasible"] is True
    speculating = [option for option in plan["options"] if option["num_speculative_tokens"] > 0]
    assert speculating
    assert plan["baseline"]["method"] == "none"
    for option in plan["options"]:
        assert {
            "target", "draft", "method", "num_speculative_tokens", "gpu", "tensor_parallel",
            "replicas", "provider", "acceptance",
        } <= set(option)  # fmt: skip
        for name in FIGURES:
            assert_figure(option[name])
    for option in speculating:
        acceptance = option["acceptance"]
        assert_figure(acceptance["tokens_per_round"])
        assert_figure(acceptance["acceptance_rate"])
        assert acceptance["definition"]
        assert acceptance["source"]["reference"]
    for rejection in plan["rejections"]:
        assert set(rejection) == {"reason", "count", "example", "remedy"}


@pytest.mark.parametrize(
    ("written", "limit_ms"), [("40ms", 40.0), ("0.04s", 40.0), ("40", 40.0), ("1,000ms", 1000.0)]
)
def test_durations_take_units(run: Any, written: str, limit_ms: float) -> None:
    plan = json.loads(run(*FEASIBLE, "--slo-tpot", written, "--format", "json").out)
    assert plan["request"]["slo"]["tpot_ms"] == pytest.approx(limit_ms)


@pytest.mark.parametrize(("written", "per_s"), [("6/s", 6.0), ("300/min", 5.0), ("7200/h", 2.0)])
def test_rates_take_units(run: Any, written: str, per_s: float) -> None:
    arguments = (*QWEN, "--budget", "1,000,000", "--rate", written, "--format", "json")
    plan = json.loads(run(*arguments).out)
    assert plan["request"]["workload"]["requests_per_s"] == pytest.approx(per_s)


def test_short_names_are_resolved_into_ids(run: Any) -> None:
    arguments = ("--target", "qwen3-32b", "--gpu", "H200", "--budget", "50000")
    plan = json.loads(run(*arguments, "--format", "json").out)
    assert plan["request"]["targets"] == ["Qwen/Qwen3-32B"]
    assert plan["request"]["gpus"] == ["h200-sxm-141gb"]


def test_output_goes_to_the_file_and_the_sentence_to_stderr(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    outcome = run(*FEASIBLE, "-o", str(file))
    assert outcome.out == ""
    assert "Written to" in outcome.err
    assert json.loads(file.read_text(encoding="utf-8"))["schema_version"] == 1


def test_the_plan_can_be_written_beside_the_table(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    outcome = run(*FEASIBLE, "--plan-json", str(file))
    assert "Qwen3-32B" in outcome.out
    assert json.loads(file.read_text(encoding="utf-8"))["options"]


def test_a_profile_that_is_not_there_is_an_error(run: Any, tmp_path: Path) -> None:
    outcome = run("--profile", str(tmp_path / "none.json"), "--budget", "100")
    assert outcome.code == 1
    assert "none.json" in outcome.err


def test_a_price_for_a_profile_that_was_not_given_is_misuse(run: Any) -> None:
    outcome = run(*QWEN, "--budget", "100", "--gpu-price", "profile=0.1")
    assert outcome.code == 2
    assert "--profile" in outcome.err


@pytest.mark.parametrize(
    ("target", "draft", "why"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", ("152,064", "151,936")),
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B", ("no acceptance is measured or published",)),
    ],
)
def test_a_draft_asked_for_that_cannot_be_planned_is_explained_in_the_answer(
    target: str, draft: str, why: tuple[str, ...]
) -> None:
    plan = capplan.recommend(
        capplan.PlanRequest(targets=(target,), drafts=(draft,), budget_usd_per_month=60000)
    )
    assert "without speculation" in plan.verdict.sentence
    assert all(part in plan.verdict.sentence for part in why)


def test_a_tier_that_nobody_offers_is_named_with_those_that_exist(run: Any) -> None:
    outcome = run(*FEASIBLE, "--tier", "nosuch")
    assert outcome.code == 1
    assert "'nosuch'" in outcome.err
    assert "marketplace" in outcome.err


@pytest.mark.parametrize("budget", ["20k", "20K", "0.02M", "20,000"])
def test_a_budget_may_be_written_short(run: Any, budget: str) -> None:
    outcome = run(*FEASIBLE, "--budget", budget, "--format", "json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["request"]["budget_usd_per_month"] == 20000


@pytest.mark.parametrize("way", ["mtp", "ngram", "suffix"])
def test_a_way_of_drafting_is_no_draft(run: Any, way: str) -> None:
    outcome = run(*FEASIBLE, "--draft", way)
    assert outcome.code == 2
    assert f"--method {way}" in outcome.err


def test_the_example_of_a_missed_limit_is_the_nearest_miss(run: Any) -> None:
    outcome = run(
        *QWEN, "--budget", "1M", "--rate", "2", "--slo-tpot", "0.1ms", "--format", "json"
    )
    assert outcome.code == 3
    plan = json.loads(outcome.out)
    (missed,) = (r for r in plan["rejections"] if r["reason"] == "tpot")
    best_ms = float(missed["example"].split("TPOT is ")[1].split(" ms")[0])
    # one H100 alone takes tens of milliseconds for this LLM
    assert best_ms < 10
    assert missed["example"] in plan["verdict"]["needed"]


@pytest.fixture
def cpu_plan(run: Any, tmp_path: Path, synthetic: Any) -> Path:
    profile, plan = tmp_path / "profile.json", tmp_path / "plan.json"
    save_profile(profile, *synthetic.profile())
    outcome = run(
        "--profile", str(profile), "--gpu-price", "profile=0.10", "--budget", "200",
        "--prompt-tokens", "64", "--output-tokens", "32", "--plan-json", str(plan),
    )  # fmt: skip
    assert outcome.code == 0
    return plan


def test_a_profile_of_a_cpu_is_launched_as_capplan_launch_would(cpu_plan: Path) -> None:
    plan = capplan.load_plan(cpu_plan)
    assert plan.options
    for rank, option in enumerate(plan.options, start=1):
        assert option.on_cpu
        assert "vllm serve" in option.launch
        assert capplan.launch(plan, rank=rank).text.strip() == option.launch


def test_passes_of_torch_are_said_to_be_no_steps_of_the_engine(
    run: Any, tmp_path: Path, synthetic: Any
) -> None:
    found, arrays = synthetic.profile()
    in_torch = found.backend.model_copy(update={"name": "torch"})
    save_profile(tmp_path / "p.json", found.model_copy(update={"backend": in_torch}), arrays)
    outcome = run(
        "--profile", str(tmp_path / "p.json"), "--gpu-price", "profile=0.10", "--budget", "200"
    )
    said = " ".join(outcome.out.replace("#", "").split())
    assert "capplan profile --backend vllm times them" in said


def test_a_machine_without_a_gpu_is_a_cpu_host_in_all_sentences(cpu_plan: Path) -> None:
    plan = capplan.load_plan(cpu_plan)
    assert "(CPU host)" in plan.verdict.sentence
    (price,) = (one for one in plan.assumptions if one.name == "Price")
    assert "a CPU host-hour" in price.value


def test_a_plan_holds_the_lengths_that_capplan_schedule_computes(cpu_plan: Path) -> None:
    plan = capplan.load_plan(cpu_plan)
    (held,) = plan.schedules
    profile = load_profile(cpu_plan.with_name("profile.json"))
    contexts = tuple(row.context_tokens for row in held.at_context)
    assert len(contexts) == 3
    computed = schedule(plan, ScheduleWishes(contexts=contexts), profiles=[profile])
    assert computed == held
    assert held.captured_tokens is None  # a CPU captures no graphs
