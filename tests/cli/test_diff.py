"""``capplan diff`` and ``capplan prompts`` as a user runs them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from capplan.api.comparing import diff
from capplan.api.plans import recommend
from capplan.cli.main import cli
from capplan.errors import ProfileFormatError, RequestError
from capplan.profiles.store import load_profile, save_profile
from capplan.reporting.jsonout import render_json
from capplan.schema.plan import PlanRequest
from capplan.schema.verdict import Stability
from capplan.schema.workload import Workload

TASKS = {"chat": 0.35, "code": 0.75, "notes": 0.55}
REQUESTS, TOKENS = 16, 60


def write(synthetic: Any, path: Path, *, slower: float = 1.0, weaker: float = 0.0, **more: Any):
    """Write a profile of three sets of prompts; requests differ among each other."""
    rng = np.random.default_rng(3)
    cells, arrays = [], {}
    for index, (task, accept) in enumerate(TASKS.items()):
        each = np.clip(accept - weaker + 0.05 * rng.standard_normal(REQUESTS), 0.02, 0.98)
        flat = np.repeat(each, TOKENS).astype(np.float32)
        cells.append(synthetic.acceptance_cell(REQUESTS, TOKENS, task=task))
        arrays[f"acceptance/{index}/offsets"] = np.arange(REQUESTS + 1) * TOKENS
        arrays[f"acceptance/{index}/prompt_tokens"] = np.full(REQUESTS, 1000)
        arrays[f"acceptance/{index}/accept_greedy"] = flat
        arrays[f"acceptance/{index}/accept_probabilistic"] = flat
    base, _ = synthetic.profile(acceptance=tuple(cells), **more)
    timing = tuple(
        cell.model_copy(update={"seconds": tuple(s * slower for s in cell.seconds)})
        for cell in base.timing
    )
    save_profile(path, base.model_copy(update={"timing": timing}), arrays)
    return path


@pytest.fixture(scope="module")
def files(synthetic: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("diff")
    found = {
        "before": write(synthetic, folder / "before.json"),
        "same": write(synthetic, folder / "same.json", id="p-0002"),
        "weaker": write(synthetic, folder / "weaker.json", id="p-0003", weaker=0.25),
        "slower": write(synthetic, folder / "slower.json", id="p-0004", slower=1.2),
        "invalid": write(
            synthetic, folder / "invalid.json", id="p-0005", stability=Stability.INVALID
        ),
    }
    request = PlanRequest(
        targets=("org/target",),
        budget_usd_per_month=1e6,
        workload=Workload(requests_per_s=20.0, prompt_tokens=200, output_tokens=100),
        gpu_price_usd_per_hour={"profile": Decimal("2.00")},
    )
    plan = recommend(request, [load_profile(found["before"])])
    assert plan.options[0].num_speculative_tokens > 0
    found["plan"] = folder / "plan.json"
    found["plan"].write_text(render_json(plan))
    return found


def run(*words: object) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_what_did_not_change_is_not_called_changed(files: dict[str, Path]) -> None:
    done = run("diff", files["before"], files["same"], "--fail-over", 0)
    assert done.exit_code == 0, done.output
    assert "\n0 of " in done.output
    assert "passed" in done.output


def test_a_weaker_draft_fails_the_gate_and_is_named(files: dict[str, Path]) -> None:
    done = run("diff", files["before"], files["weaker"], "--fail-over", 5, "--format", "json")
    assert done.exit_code == 1
    found = json.loads(done.output)
    changed = {
        row["label"]
        for row in found["changes"]
        if row["difference"]["high"] < 0 and row["quality"] == "tokens_per_round"
    }
    assert {f"{task}, temperature 0" for task in TASKS} < changed
    assert found["gate"]["failed"]
    assert found["gate"]["worsening"]["mid"] > 0.05


def test_a_large_allowance_passes_and_certain_is_stricter_to_fail(files: dict[str, Path]) -> None:
    before, weaker = files["before"], files["weaker"]
    assert run("diff", before, weaker, "--fail-over", 90).exit_code == 0
    found = diff(before, weaker)
    speedups = [row for row in found.changes if row.quality.value == "speedup"]
    worst = max(speedups, key=lambda row: -row.relative.mid)
    between = 100 * (-worst.relative.mid - 0.005)
    assert run("diff", before, weaker, "--fail-over", between).exit_code == 1
    assert (
        run("diff", before, weaker, "--fail-over", between, "--fail-on", "certain").exit_code == 0
    )


def test_slower_steps_are_found_though_the_speedup_stays(files: dict[str, Path]) -> None:
    done = run("diff", files["before"], files["slower"], "--fail-over", 5)
    assert done.exit_code == 0, done.output
    line = next(one for one in done.output.splitlines() if one.startswith("  target decode  "))
    assert "+20.0 %" in line
    assert line.rstrip().endswith("changed")


def test_an_invalid_profile_is_described_and_fails_the_gate(files: dict[str, Path]) -> None:
    done = run("diff", files["before"], files["invalid"], "--fail-over", 5)
    assert done.exit_code == 1
    assert "judged itself invalid" in done.output
    assert "Tokens a round" in done.output


def test_a_plan_stands_under_the_same_and_not_under_a_useless_draft(
    synthetic: Any, files: dict[str, Path], tmp_path: Path
) -> None:
    done = run("diff", files["before"], files["same"], "--plan", files["plan"])
    assert done.exit_code == 0, done.output
    assert "The plan stands" in done.output
    useless = write(synthetic, tmp_path / "useless.json", weaker=0.9)
    done = run("diff", files["before"], useless, "--plan", files["plan"])
    assert "The plan no longer pays" in done.output


def test_by_context_and_by_hour(files: dict[str, Path]) -> None:
    done = run("diff", files["before"], files["weaker"], "--by", "context", "--by", "hour")
    assert "512-1,023 tokens" in done.output
    assert "1,024-2,047 tokens, temperature 0" in done.output
    assert "a trace has no clock" in done.output


def test_markdown_is_a_table_that_names_do_not_break(files: dict[str, Path]) -> None:
    done = run("diff", files["before"], files["weaker"], "--format", "markdown")
    rows = [line for line in done.output.splitlines() if line.startswith("|")]
    assert "| --- | --- | --- | --- | --- |" in rows
    assert len({line.replace("\\|", "").count("|") for line in rows if "N=" in line}) == 1


def test_the_suffix_of_the_file_chooses_the_format(files: dict[str, Path], tmp_path: Path) -> None:
    for name, begin in (("d.json", "{"), ("d.md", "###"), ("d.txt", str(files["before"]))):
        assert run("diff", files["before"], files["same"], "-o", tmp_path / name).exit_code == 0
        assert (tmp_path / name).read_text().startswith(begin)


def test_plans_add_up_to_the_cent(sample_plans: Any, tmp_path: Path) -> None:
    cheap, dear = sample_plans.make_plan(), sample_plans.make_plan()
    bill = sample_plans.bill(3)
    option = dear.options[0].model_copy(
        update={
            "bill": bill,
            "replicas": 3,
            "gpus_rented": bill.gpus_paid,
            "planned_output_tokens_per_s": 3600.0,
        }
    )
    dear = dear.model_copy(update={"options": (option, *dear.options[1:])})
    paths = []
    for name, plan in (("a.json", cheap), ("b.json", dear)):
        (tmp_path / name).write_text(render_json(plan))
        paths.append(tmp_path / name)
    found = diff(*paths)
    assert sum(part.usd for part in found.parts) == found.usd_after - found.usd_before
    assert found.parts[0].cause == "load"
    back = diff(*paths[::-1])
    assert {p.cause: p.usd for p in back.parts} == {p.cause: -p.usd for p in found.parts}
    rise = 100 * (float(found.usd_after / found.usd_before) - 1)
    assert run("diff", *paths, "--fail-over", rise - 1).exit_code == 1
    assert run("diff", *paths, "--fail-over", rise + 1).exit_code == 0
    assert run("diff", *paths[::-1], "--fail-over", 0).exit_code == 0


def test_a_plan_without_an_option_is_worse_than_any(sample_plans: Any, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(render_json(sample_plans.make_plan()))
    (tmp_path / "b.json").write_text(render_json(sample_plans.infeasible_plan()))
    done = run("diff", tmp_path / "a.json", tmp_path / "b.json", "--fail-over", 50)
    assert done.exit_code == 1
    assert "no option to compare" in done.output


def test_files_of_two_kinds_are_refused(files: dict[str, Path]) -> None:
    with pytest.raises(RequestError, match="cannot be compared"):
        diff(files["before"], files["plan"])
    with pytest.raises(RequestError, match="go with two profiles"):
        diff(files["plan"], files["plan"], files["plan"])
    with pytest.raises(ProfileFormatError):
        diff(files["before"], files["before"].with_name("absent.json"))


def test_prompts_side_by_side_with_what_they_are_worth(files: dict[str, Path]) -> None:
    done = run("prompts", files["before"], "--plan", files["plan"], "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert [figure["task"] for figure in found["figures"]] == ["code", "notes", "chat"]
    usd = [figure["worth"]["usd_per_month_unrounded"] for figure in found["figures"]]
    assert usd == sorted(usd)
    for figure in found["figures"]:
        saved = figure["worth"]["saved_usd_per_month"]
        assert saved["low"] <= saved["mid"] <= saved["high"]
    assert all(row["difference"]["high"] < 0 for row in found["differences"])
    assert "USD a month cheaper" in found["verdict"]


def test_prompts_without_a_plan_say_that_dollars_need_one(files: dict[str, Path]) -> None:
    done = run("prompts", files["before"], "--by", "context")
    assert done.exit_code == 0, done.output
    assert "code -> chat" in done.output
    assert "--plan PLAN" in done.output


def test_a_length_that_was_not_traced_and_a_profile_without_traces_are_refused(
    synthetic: Any, files: dict[str, Path], tmp_path: Path
) -> None:
    empty, arrays = synthetic.profile(draft=None)
    save_profile(tmp_path / "plain.json", empty, arrays)
    done = run("prompts", tmp_path / "plain.json")
    assert "holds no acceptance trace" in str(done.exception)
