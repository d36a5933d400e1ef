"""``capplan calibrate`` and ``recommend --calibration``: from profiles to a plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from capplan.profiles.store import save_profile
from capplan.schema.cells import Role
from capplan.schema.measured_setup import Draft, ModelDraft, ProfiledLlm
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability, Verdict

Call = Callable[..., tuple[int, str, str]]
ASKED = ("--target", "Qwen/Qwen3-32B", "--budget", "40000", "--rate", "2")
GPUS = ("--gpu", "h100-sxm-80gb", "--gpu", "h200-sxm-141gb")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Profile], Path]:
    def save(profile: Profile) -> Path:
        path = tmp_path / f"{profile.id}.json"
        save_profile(path, profile, {})
        return path

    return save


@pytest.fixture
def three(planted_engine: Any, write: Callable[[Profile], Path]) -> list[Path]:
    llms = {"small": planted_engine.SMALL, "middle": planted_engine.MIDDLE}
    llms["large"] = planted_engine.LARGE
    return [
        write(planted_engine.profile(llm, name, planted_engine.cells(llm, seed=seed)))
        for seed, (name, llm) in enumerate(llms.items())
    ]


def test_profiles_become_a_file_with_its_errors_and_origins(
    run: Call, three: list[Path], planted_engine: Any, tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    code, out, err = run("calibrate", *three, "-o", file)
    assert (code, err) == (0, f"Written to {file}\n")
    written = json.loads(file.read_text())
    assert written["engine"] == "vllm"
    assert written["gpu"] == "h100-sxm-80gb"
    assert written["profiles"] == ["small", "middle", "large"]
    assert written["held_out_by"] == "llm"
    assert written["step"]["points"] == 108
    assert written["step"]["held_out_error"] < 0.04 < 0.1 < written["step"]["datasheet_error"]
    for constant in written["step"]["constants"]:
        assert constant["value"]["mid"] == pytest.approx(
            planted_engine.PLANTED[constant["name"]], rel=0.25
        )
        assert constant["name"].removesuffix("_s") in out
    assert "Qwen/Qwen3-8B" in out


def test_json_on_the_terminal_is_the_file(run: Call, three: list[Path]) -> None:
    code, out, _ = run("calibrate", *three, "--format", "json")
    assert code == 0
    assert json.loads(out)["schema_version"] == 1


def options(out: str, gpu: str) -> list[dict[str, Any]]:
    return [option for option in json.loads(out)["options"] if option["gpu"] == gpu]


def test_a_plan_uses_the_constants_on_that_gpu_alone(
    run: Call, three: list[Path], tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    run("calibrate", *three, "-o", file)
    asked = ("recommend", *ASKED, *GPUS, "--tp", "1", "--format", "json")
    _, plain, _ = run(*asked)
    code, calibrated, err = run(*asked, "--calibration", file)
    assert (code, err) == (0, "")
    changed, before = options(calibrated, "h100-sxm-80gb"), options(plain, "h100-sxm-80gb")
    assert {option["tier"] for option in changed} == {"anchored"}
    assert {option["tier"] for option in before} == {"datasheet"}
    error = json.loads(file.read_text())["step"]["held_out_error"]
    assert "c.json: constants of vllm 0.33 on h100-sxm-80gb" in changed[0]["tier_note"]
    assert f"left out were {error:.1%} off" in changed[0]["tier_note"]
    elsewhere = {o["id"]: o["tpot_ms"] for o in options(calibrated, "h200-sxm-141gb")}
    shipped = {o["id"]: o["tpot_ms"] for o in options(plain, "h200-sxm-141gb")}
    both = elsewhere.keys() & shipped.keys()
    assert both
    assert {key: elsewhere[key] for key in both} == {key: shipped[key] for key in both}


def test_the_interval_follows_the_held_out_error(
    run: Call, three: list[Path], tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    run("calibrate", *three, "-o", file)

    def spread(*more: object, tp: str = "1") -> float:
        asked = ("recommend", *ASKED, "--gpu", "h100-sxm-80gb", "--tp", tp, "--format", "json")
        _, out, _ = run(*asked, *more)
        plan = json.loads(out)
        plain = plan["baseline"]["tpot_ms"]
        return float(plain["high"] / plain["mid"])

    error = json.loads(file.read_text())["step"]["held_out_error"]
    assert spread() == pytest.approx(2.718281828 ** (1.96 * 0.09), rel=1e-3)
    assert spread("--calibration", file) == pytest.approx(2.718281828 ** (1.96 * error), rel=1e-3)
    # measured on one GPU: two of them keep the data sheet's interval
    assert spread("--calibration", file, tp="2") == pytest.approx(spread(tp="2"), rel=1e-3)


def test_from_one_llm_others_keep_the_interval_of_the_data_sheet(
    run: Call, three: list[Path], tmp_path: Path
) -> None:
    file = tmp_path / "c.json"
    code, out, _ = run("calibrate", three[1], "-o", file)
    assert code == 0
    assert "for other LLMs plans keep the wider interval" in out
    asked = ("--gpu", "h100-sxm-80gb", "--tp", "1", "--format", "json", "--calibration", file)
    _, plan, _ = run("recommend", *ASKED, *asked)
    baseline = json.loads(plan)["baseline"]
    assert (
        "Qwen/Qwen3-8B at TP 1, for others the interval of the data sheet"
        in (baseline["tier_note"])
    )
    assert baseline["tpot_ms"]["high"] / baseline["tpot_ms"]["mid"] > 1.19


def test_a_draft_llm_of_the_profile_is_one_of_the_llms(
    run: Call, planted_engine: Any, write: Callable[[Profile], Path], tmp_path: Path
) -> None:
    large, small = planted_engine.LARGE, planted_engine.SMALL
    draft: Draft = ModelDraft(llm=ProfiledLlm(spec=small, dtype="bfloat16"))
    timing = planted_engine.cells(large) + planted_engine.cells(small, role=Role.DRAFT, seed=1)
    code, out, _ = run(
        "calibrate",
        write(planted_engine.profile(large, timing=timing, draft=draft)),
        "--format",
        "json",
    )
    assert code == 0
    found = json.loads(out)
    assert found["llms"] == [large.id, small.id]
    layer = next(c for c in found["step"]["constants"] if c["name"] == "layer_s")["value"]
    assert layer["low"] <= planted_engine.PLANTED["layer_s"] <= layer["high"]
    assert layer["high"] / layer["low"] < 1.3


def refused(outcome: tuple[int, str, str], *words: str) -> None:
    code, out, err = outcome
    assert (code, out) == (1, "")
    for word in words:
        assert word in err
    assert "Traceback" not in err


def test_a_fit_no_better_than_shipped_is_refused_and_nothing_written(
    run: Call, planted_engine: Any, write: Callable[[Profile], Path], tmp_path: Path
) -> None:
    timing = planted_engine.cells(planted_engine.MIDDLE, constants={})
    path = write(planted_engine.profile(planted_engine.MIDDLE, timing=timing))
    outcome = run("calibrate", path, "-o", tmp_path / "c.json")
    refused(outcome, "the shipped constants of vllm", "the fit is no better")
    assert len(re.findall(r"\d\.\d% off", outcome[2])) == 2
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (
            {"kind": "cpu", "name": "AMD EPYC 9654"},
            ("taken on a CPU (AMD EPYC 9654)", "--profile"),
        ),
        ({"name": "NVIDIA Z9000"}, ("'NVIDIA Z9000' is no GPU of the catalogue",)),
        ({"mig": True}, ("MIG",)),
        ({"name": "Tesla V100-SXM2-32GB", "memory_bytes": 32768 * 2.0**20}, ("bf16",)),
    ],
)
def test_a_device_without_usable_rates_is_refused(
    run: Call,
    planted_engine: Any,
    write: Callable[[Profile], Path],
    device: dict[str, Any],
    words: tuple[str, ...],
) -> None:
    path = write(planted_engine.profile(planted_engine.MIDDLE, device=device))
    refused(run("calibrate", path), *words)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        ({"backend": {"name": "torch"}}, "engine: vllm, torch"),
        ({"backend": {"version": "0.30"}}, "engine version: 0.33, 0.30"),
        ({"backend": {"cuda_graphs": False}}, "CUDA graphs: True, False"),
        ({"device": {"name": "NVIDIA H200"}}, "device: NVIDIA H100 80GB HBM3, NVIDIA H200"),
    ],
)
def test_profiles_that_do_not_belong_together_are_refused(
    run: Call,
    planted_engine: Any,
    write: Callable[[Profile], Path],
    other: dict[str, Any],
    word: str,
) -> None:
    llm = planted_engine.MIDDLE
    first = write(planted_engine.profile(llm, "a"))
    second = write(planted_engine.profile(llm, "b", **other))
    refused(run("calibrate", first, second), word, "calibrate each by itself")


def test_the_same_profile_twice_is_refused(run: Call, three: list[Path]) -> None:
    refused(run("calibrate", three[0], three[0]), "given twice")


def test_an_invalid_profile_is_refused(
    run: Call, planted_engine: Any, write: Callable[[Profile], Path]
) -> None:
    verdict = Verdict(stability=Stability.INVALID)
    path = write(planted_engine.profile(planted_engine.MIDDLE, verdict=verdict))
    refused(run("calibrate", path), "judged itself invalid")


def test_a_noisy_profile_claims_half_as_much_error_again(
    run: Call, planted_engine: Any, write: Callable[[Profile], Path]
) -> None:
    llm = planted_engine.MIDDLE
    noisy = Verdict(stability=Stability.NOISY)
    paths = (
        write(planted_engine.profile(llm, "a")),
        write(planted_engine.profile(llm, "b", verdict=noisy)),
    )
    stable_error, noisy_error = (
        json.loads(run("calibrate", path, "--format", "json")[1])["step"]["held_out_error"]
        for path in paths
    )
    assert noisy_error == pytest.approx(1.5 * stable_error)


def test_a_profile_without_prompts_leaves_them_on_the_shipped_constants(
    run: Call, planted_engine: Any, write: Callable[[Profile], Path]
) -> None:
    llm = planted_engine.MIDDLE
    timing = [cell for cell in planted_engine.cells(llm) if cell.phase != "prefill"]
    code, out, _ = run("calibrate", write(planted_engine.profile(llm, timing=timing)))
    assert code == 0
    assert "Prompts: shipped constants. The profiles hold 0 usable timed passes" in out


def test_constants_of_another_engine_are_refused_by_a_plan(
    run: Call, planted_engine: Any, write: Callable[[Profile], Path], tmp_path: Path
) -> None:
    path = write(planted_engine.profile(planted_engine.MIDDLE, backend={"name": "torch"}))
    assert run("calibrate", path, "-o", tmp_path / "c.json")[0] == 0
    code, out, err = run("recommend", *ASKED, "--calibration", tmp_path / "c.json")
    assert (code, out) == (2, "")
    assert "constants of torch, and the plan is for vllm" in err


def test_two_calibrations_of_one_gpu_are_refused_by_a_plan(
    run: Call, three: list[Path], tmp_path: Path
) -> None:
    files = tmp_path / "c.json", tmp_path / "d.json"
    for profile, file in zip(three, files, strict=False):
        run("calibrate", profile, "-o", file)
    both = [part for file in files for part in ("--calibration", file)]
    code, _, err = run("recommend", *ASKED, *both)
    assert code == 2
    assert "c.json and d.json are both calibrations of h100-sxm-80gb" in err


def test_another_vendors_gpu_is_planned_once_it_is_calibrated(
    run: Call, planted_engine: Any, write: Callable[[Profile], Path], tmp_path: Path
) -> None:
    device = {"name": "AMD Instinct MI300X", "memory_bytes": 192e9}
    path = write(planted_engine.profile(planted_engine.MIDDLE, device=device))
    code, _, err = run("calibrate", path, "-o", tmp_path / "c.json")
    assert (code, err[:7]) == (0, "Written")
    asked = ("recommend", *ASKED, "--gpu", "mi300x-192gb", "--format", "json")
    code, out, _ = run(*asked)
    assert code == 3
    assert {r["reason"] for r in json.loads(out)["rejections"]} >= {"engine_unmeasured"}
    code, out, _ = run(*asked, "--calibration", tmp_path / "c.json")
    assert code == 0
    assert json.loads(out)["options"][0]["tier"] == "anchored"


def test_a_calibration_of_a_gpu_that_is_not_offered_is_named(
    run: Call, three: list[Path], tmp_path: Path
) -> None:
    run("calibrate", *three, "-o", tmp_path / "c.json")
    asked = ("--gpu", "h200-sxm-141gb", "--calibration", tmp_path / "c.json")
    code, _, err = run("recommend", *ASKED, *asked)
    assert code == 0
    assert "no option on h100-sxm-80gb is shown" in err


def test_a_profile_given_as_a_calibration_says_what_to_do(run: Call, three: list[Path]) -> None:
    code, _, err = run("recommend", *ASKED, "--calibration", three[0])
    assert code == 1
    assert "is a profile, not yet a calibration" in err
    assert "capplan calibrate" in err


def test_no_profile_is_misuse(run: Call) -> None:
    assert run("calibrate")[0] == 2
