"""``capplan launch``: forms, overrides, exit codes, files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from capplan.cli.main import cli
from capplan.errors import CapplanError, PairingError, RequestError
from capplan.schema.pairing import Method


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["launch", *arguments], standalone_mode=False)


@pytest.fixture
def plan_file(tmp_path: Path, sample_plans: Any) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(sample_plans.make_plan().model_dump_json(), encoding="utf-8")
    return path


def plan_of(tmp_path: Path, sample_plans: Any, **option: Any) -> str:
    path = tmp_path / "one.json"
    plan = sample_plans.make_plan(options=(sample_plans.make_option(**option),))
    path.write_text(plan.model_dump_json(), encoding="utf-8")
    return str(path)


def notes_of(result: Result) -> str:
    """The comment lines, unwrapped."""
    return " ".join(result.output.replace("#", "").split())


def failure(result: Result) -> CapplanError:
    assert isinstance(result.exception, CapplanError)
    assert result.exception.remedy
    return result.exception


def test_the_recommended_option_is_the_default(plan_file: Path) -> None:
    plain, best = run(str(plan_file)), run(str(plan_file), "--best")
    assert plain.output == best.output
    assert "vllm serve Qwen/Qwen3-32B" in plain.output
    assert '"model":"Qwen/Qwen3-0.6B"' in plain.output


def test_another_option_is_launched_by_its_rank(plan_file: Path) -> None:
    assert '"method":"eagle3"' in run(str(plan_file), "--option", "2").output
    assert failure(run(str(plan_file), "--option", "99")).exit_code == 2


def test_a_command_is_one_that_a_shell_reads(plan_file: Path) -> None:
    text = run(str(plan_file), "--target-path", "/m/it's here").output
    done = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        ["sh"],
        input=text.replace("vllm serve", "printf '%s\\n'"),
        text=True,
        capture_output=True,
        check=True,
    )
    assert shown.stdout.splitlines()[0] == "/m/it's here"


def test_paths_replace_ids(plan_file: Path) -> None:
    text = run(str(plan_file), "--target-path", "/m/t", "--draft-path", "/m/d").output
    assert "vllm serve /m/t" in text
    assert '"model":"/m/d"' in text


def test_manifests_go_to_a_file_whole(plan_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "serve.yaml"
    done = run(str(plan_file), "--as", "kubernetes", "-o", str(out))
    assert done.return_value == 0
    kinds = [item["kind"] for item in yaml.safe_load_all(out.read_text(encoding="utf-8"))]
    assert kinds == ["Deployment", "Service"]
    assert list(tmp_path.iterdir()) == [out, plan_file] or len(list(tmp_path.iterdir())) == 2


def test_json_holds_the_text_and_what_it_is_made_of(plan_file: Path) -> None:
    answer = json.loads(run(str(plan_file), "--format", "json", "--engine", "vllm==0.32").output)
    assert answer["engine"] == "vllm==0.32.0"
    assert answer["settings"]["num_speculative_tokens"] == 3
    assert answer["text"].endswith("'\n")


def test_lengths_by_batch_are_checked_before_the_engine_would(plan_file: Path) -> None:
    text = run(str(plan_file), "--lengths", "[[1,16,3],[17,64,0]]").output
    assert '"num_speculative_tokens_per_batch_size":[[1,16,3],[17,64,0]]' in text
    assert "starts at batch 2" in failure(run(str(plan_file), "--lengths", "[[2,4,3]]")).message


def test_an_unknown_version_names_those_that_are_known(plan_file: Path) -> None:
    error = failure(run(str(plan_file), "--engine", "vllm==0.12"))
    assert isinstance(error, RequestError)
    assert "vllm==0.32, vllm==0.33" in error.remedy


def test_a_plan_without_an_option_is_an_answer(tmp_path: Path, sample_plans: Any) -> None:
    path = tmp_path / "plan.json"
    path.write_text(sample_plans.infeasible_plan().model_dump_json(), encoding="utf-8")
    done = run(str(path))
    assert done.return_value == 3
    assert "No plan fits 500 USD" in done.stderr


def test_mtp_is_refused_for_a_checkpoint_without_it(tmp_path: Path, sample_plans: Any) -> None:
    plan = plan_of(tmp_path, sample_plans, method=Method.MTP, draft="(built-in)")
    error = failure(run(plan))
    assert isinstance(error, PairingError)
    assert "no MTP layers" in error.message


def test_vocabularies_that_differ_are_mapped(tmp_path: Path, sample_plans: Any) -> None:
    plan = plan_of(
        tmp_path,
        sample_plans,
        target="Qwen/Qwen2.5-72B-Instruct",
        draft="Qwen/Qwen2.5-0.5B-Instruct",
    )
    text = run(plan).output
    assert '"use_heterogeneous_vocab":true' in text
    assert '"draft_sample_method":"greedy"' in text


def test_a_plan_for_a_cpu_gives_a_command_without_a_gpu(tmp_path: Path, sample_plans: Any) -> None:
    plan = plan_of(
        tmp_path,
        sample_plans,
        on_cpu=True,
        gpu="profile:x",
        tensor_parallel=1,
        method=Method.NGRAM,
        draft="ngram",
        prompt_lookup=(2, 4),
    )
    text = run(plan, "--engine", "vllm==0.32").output
    flags = [line for line in text.splitlines() if not line.startswith("#")]
    assert not [flag for flag in flags if "gpu" in flag or "cudagraph" in flag]
    assert "--kv-cache-memory-bytes" in text
    assert '"prompt_lookup_min":2' in text


def test_a_cpu_gets_the_version_whose_build_for_it_was_checked(
    tmp_path: Path, sample_plans: Any
) -> None:
    plan = plan_of(tmp_path, sample_plans, on_cpu=True, gpu="profile:x", tensor_parallel=1)
    assert json.loads(run(plan, "--format", "json").output)["engine"] == "vllm==0.32.0"
    asked = run(plan, "--format", "json", "--engine", "vllm==0.33").output
    assert json.loads(asked)["engine"] == "vllm==0.33.0"


def test_names_that_are_no_folder_are_said(tmp_path: Path, sample_plans: Any) -> None:
    plan = plan_of(tmp_path, sample_plans, target="demo-target", draft="demo-draft")
    assert "launch --target-path FOLDER --draft-path FOLDER" in notes_of(run(plan))
    half = notes_of(run(plan, "--target-path", "/m/t"))
    assert "capplan launch --draft-path FOLDER" in half
    whole = run(plan, "--target-path", "/m/t", "--draft-path", "/m/d")
    assert "FOLDER" not in whole.output


def test_drafts_are_drawn_as_the_plan_counted_them_unless_asked(
    tmp_path: Path, sample_plans: Any
) -> None:
    figure = sample_plans.make_option().acceptance
    counted = figure.model_copy(update={"draft_sampling": "greedy"})
    plan = plan_of(tmp_path, sample_plans, acceptance=counted)
    text = run(plan).output  # the sample's traffic is at temperature 0.7
    assert '"draft_sample_method":"greedy"' in text
    assert "greedy, as the plan's acceptance was counted" in text
    asked = run(plan, "--draft-sampling", "probabilistic").output
    assert '"draft_sample_method":"probabilistic"' in asked
    assert "was counted with greedy ones" in " ".join(asked.replace("#", "").split())


def test_an_engine_runs_in_the_number_format_that_was_profiled(
    tmp_path: Path, sample_plans: Any
) -> None:
    assert "--dtype float32" in run(plan_of(tmp_path, sample_plans, dtype="float32")).output
    assert "--dtype bfloat16" in run(plan_of(tmp_path, sample_plans)).output  # the checkpoint's


def test_an_old_command_is_rewritten_with_reasons(tmp_path: Path) -> None:
    old = "vllm serve a/b --speculative-model c/d --num-speculative-tokens 5 --swap-space 4"
    done = run("--migrate", old)
    assert done.return_value == 0
    assert "--swap-space 4 is gone" in done.output
    assert '"num_speculative_tokens":5' in done.output.splitlines()[-1]
    answer = json.loads(run("--migrate", old, "--format", "json").output)
    assert {change["old"] for change in answer["changes"]} >= {"--swap-space 4"}


@pytest.mark.parametrize(
    "arguments", [(), ("plan.json", "--migrate", "vllm serve x"), ("p", "--best", "--option", "2")]
)
def test_misuse_is_said(arguments: tuple[str, ...]) -> None:
    assert "Give either" in str(run(*arguments).exception)
