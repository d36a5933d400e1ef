"""``capplan schedule``: from a profile or a plan to the engine's table of lengths."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import capplan
from capplan.profiles.store import save_profile

Call = Callable[..., tuple[int, str, str]]
TARGET = "meta-llama/Llama-3.1-8B-Instruct"


def burst(synthetic: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A profile whose requests differ, so that its interval is not empty."""
    found, arrays = synthetic.profile(**options)
    rng = np.random.default_rng(0)
    for name, values in arrays.items():
        if "accept_" in name:
            arrays[name] = (rng.random(len(values)) < 0.7).astype(np.float32)
    return found, arrays


@pytest.fixture
def profile_file(tmp_path: Path, synthetic: Any) -> Path:
    path = tmp_path / "p.json"
    save_profile(path, *burst(synthetic))
    return path


@pytest.fixture(scope="module")
def plan() -> capplan.Plan:
    load = capplan.Workload(requests_per_s=20, prompt_tokens=300, output_tokens=300)
    return capplan.recommend(
        capplan.PlanRequest(
            targets=(TARGET,),
            budget_usd_per_month=60_000,
            workload=load,
            methods=(capplan.Method.EAGLE3,),
        )
    )


@pytest.fixture
def plan_file(tmp_path: Path, plan: capplan.Plan) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(plan.model_dump_json())
    return path


def covers(ranges: list[list[int]], largest: int) -> bool:
    """Whether ranges start at 1, leave no gap and end at the largest batch."""
    ends = [0, *(last for _, last, _ in ranges)]
    return [first for first, _, _ in ranges] == [e + 1 for e in ends[:-1]] and ends[-1] == largest


def test_a_profile_gives_a_table_without_gaps(run: Call, profile_file: Path) -> None:
    code, out, err = run("schedule", profile_file, "--format", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert covers(found["ranges"], 16)
    assert found["num_speculative_tokens"] == max(n for _, _, n in found["ranges"])
    assert found["gain"]["low"] <= found["gain"]["mid"] <= found["gain"]["high"]


def test_the_text_holds_what_the_engine_takes(run: Call, profile_file: Path) -> None:
    _, out, _ = run("schedule", profile_file)
    line = next(line for line in out.splitlines() if "per_batch_size" in line)
    assert set(json.loads("{" + line.strip() + "}")) == {
        "num_speculative_tokens",
        "num_speculative_tokens_per_batch_size",
    }


def test_graphs_that_end_early_switch_drafting_off_or_leave_it_to_one_length(
    run: Call, profile_file: Path
) -> None:
    _, out, _ = run(
        "schedule", profile_file, "--captured-tokens", 24, "--load", "1:0.5,16:0.5",
        "--format", "json",
    )  # fmt: skip
    found = json.loads(out)
    for first, last, n in found["ranges"]:
        assert n == 0 or last * (n + 1) <= 24, (first, last, n)
    assert found["ranges"][-1][2] == 0
    assert found["tax_paid"] > 0
    # on half the time nothing is drafted, and that costs a tax that plain serving does not pay
    assert found["recommended"] == "fixed"
    assert "49548" in " ".join(found["notes"])


def test_a_plan_is_planned_for_its_own_load(run: Call, plan_file: Path) -> None:
    code, out, _ = run("schedule", plan_file, "--format", "json")
    assert code == 0
    found = json.loads(out)
    plan = capplan.load_plan(plan_file)
    option = next(o for o in plan.options if o.draft)
    assert found["mean_batch"] == pytest.approx(option.concurrency, rel=0.01)
    assert covers(found["ranges"], option.max_concurrency)
    fixed = {row["batch"]: row for row in found["at_batch"]}
    point = next(p for p in option.load_curve if p.concurrency == 32)
    assert fixed[32]["plain_tpot_ms"] == pytest.approx(point.baseline_tpot_ms, rel=1e-6)


def test_lengths_of_a_plan_are_those_of_its_load_curve(run: Call, plan_file: Path) -> None:
    _, out, _ = run("schedule", plan_file, "--merge-loss", 0, "--format", "json")
    found = json.loads(out)
    option = next(o for o in capplan.load_plan(plan_file).options if o.draft)
    for point in option.load_curve:
        n = next(n for a, b, n in found["ranges"] if a <= point.concurrency <= b)
        if point.best_num_speculative_tokens > 0:
            assert n == point.best_num_speculative_tokens


def test_contexts_are_listed_beside_each_other(run: Call, plan_file: Path) -> None:
    code, out, _ = run("schedule", plan_file, "--context", 450, "--context", 4000)
    assert code == 0
    assert "By context" in out
    assert "4,000 tokens" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--load", "8"), 2, "BATCH:SHARE"),
        (("--load", "8:0"), 2, "above 0"),
        (("--load", "8:1,8:1"), 2, "twice"),
        (("--load", "999:1"), 2, "largest batch measured is 16"),
        (("--load", "1:1", "--requests-at-once", "2"), 2, "once"),
        (("--requests-at-once", "17"), 2, "16"),
        (("--option", "1"), 2, "no options"),
    ],
)
def test_what_cannot_be_answered_is_explained(
    run: Call, profile_file: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    got, out, err = run("schedule", profile_file, *arguments)
    assert got == code
    assert out == ""
    assert words in err


def test_a_profile_without_a_draft_is_refused(run: Call, tmp_path: Path, synthetic: Any) -> None:
    path = tmp_path / "plain.json"
    save_profile(path, *synthetic.profile(draft=None))
    code, _, err = run("schedule", path)
    assert code == 1
    assert "no draft" in err
    assert "capplan profile" in err


def test_a_plan_that_drafts_nothing_is_refused(
    run: Call, tmp_path: Path, plan: capplan.Plan
) -> None:
    plain = [option for option in plan.options if option.draft is None]
    path = tmp_path / "plain.json"
    path.write_text(plan.model_copy(update={"options": tuple(plain)}).model_dump_json())
    code, _, err = run("schedule", path)
    assert code == 2
    assert "No option of the plan speculates" in err


def test_a_file_that_is_neither_is_refused(run: Call, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    code, _, err = run("schedule", path)
    assert code == 1
    assert "not a plan" in err


def test_json_goes_to_a_file_that_ends_so(run: Call, profile_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    code, out, _ = run("schedule", profile_file, "-o", path)
    assert (code, out) == (0, "")
    assert capplan.LengthSchedule.model_validate_json(path.read_text()).ranges


def test_the_library_takes_what_the_command_takes(profile_file: Path) -> None:
    stored = capplan.load_profile(profile_file)
    wishes = capplan.ScheduleWishes(load={1: 1.0, 16: 3.0})
    assert capplan.schedule(stored, wishes) == capplan.schedule(str(profile_file), wishes)


def test_a_lookup_pays_only_for_rounds_that_draft(tmp_path: Path, synthetic: Any) -> None:
    path = tmp_path / "ngram.json"
    save_profile(path, *synthetic.profile(draft="ngram"))
    found = capplan.schedule(path)
    assert found.method == "ngram"
    assert found.at_batch[0].tpot_ms < found.at_batch[0].plain_tpot_ms
