"""Files of jobs: what is asked, what is refused, what makes two jobs the same."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from capplan.cli.batch_check import check_options, command_of
from capplan.errors import JobsFileError
from capplan.jobs.gpus import parse_listing
from capplan.jobs.job import Job
from capplan.jobs.jobfile import load_jobs, parse_jobs
from capplan.jobs.kinds import COMMANDS, words
from capplan.jobs.preparing import prepare


def test_defaults_are_completed_by_the_job_and_keys_may_have_either_dash(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "defaults:\n  recommend: {budget: 20k, target: [a, b], slo_tpot: 40ms}\n"
        "jobs:\n- {name: chat, recommend: {budget: 5k, rate: 2}, timeout_minutes: 3}\n"
        "- {name: h, gpu-type: H100, profile: {target: t, temperature: [0, 0.8]}}\n"
    )
    chat, profile = load_jobs(file)
    assert chat.options == {"budget": "5k", "target": ("a", "b"), "slo-tpot": "40ms", "rate": 2}
    assert chat.timeout_minutes == 3
    assert (profile.kind, profile.gpu_type) == ("profile", "H100")


def test_options_become_the_words_of_the_command() -> None:
    options = {
        "target": "Qwen/Qwen3-8B",
        "temperature": (0, 0.8),
        "demo": False,
        "thinking": False,
        "observe": 30,
        "no-check-text": True,
    }
    assert words("profile", options) == (
        *("--temperature=0", "--temperature=0.8", "--no-thinking", "--observe=30"),
        *("--no-check-text", "--", "Qwen/Qwen3-8B"),
    )
    prices = {"gpu-price": {"h100-sxm-80gb": 2.5, "profile": 1}}
    assert words("recommend", prices) == ("--gpu-price=h100-sxm-80gb=2.5", "--gpu-price=profile=1")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "no list of jobs"),
        ({"jobs": []}, "no list of jobs"),
        ({"jobs": [{"name": "a"}]}, "job 1 (a): says nothing to do"),
        ({"jobs": [{"name": "a", "recommend": {}, "profile": {}}]}, "profile and recommend"),
        ({"jobs": [{"name": "a", "reccomend": {}}]}, "did you mean recommend?"),
        ({"jobs": [{"name": "a b", "recommend": {}}]}, "job 1 (a b): name"),
        ({"jobs": [{"name": "a", "recommend": {}, "gpus": -1}]}, "gpus: "),
        ({"jobs": [{"name": "a", "recommend": {}, "timeout-minutes": 0}]}, "timeout_minutes: "),
        ({"jobs": [{"name": "a", "recommend": "x"}]}, "expected options by name, got 'x'"),
        ({"jobs": [{"name": n, "recommend": {}} for n in "aA"]}, "2 jobs are called a"),
        ({"jobs": [{"name": "a", "recommend": {"output": "x"}}]}, "output is set by the batch"),
        ({"jobs": [{"name": "a", "profile": {"device": "cuda:1"}}]}, "names one GPU"),
        ({"jobs": [{"name": "a", "recommend": {"profile": "job:b"}}]}, "wants job:b"),
        ({"jobs": [{"name": "a", "recommend": {}}], "default": {}}, "did you mean defaults?"),
        ({"jobs": [{"name": "a", "recommend": {}}], "defaults": {"x": {}}}, "unknown key 'x'"),
    ],
)
def test_a_file_that_makes_no_sense_is_explained(document: object, message: str) -> None:
    with pytest.raises(JobsFileError) as caught:
        parse_jobs(document)
    assert message in caught.value.message


def test_a_file_that_does_not_parse_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("jobs:\n- {name: a, recommend: {}\n")
    with pytest.raises(JobsFileError, match="line 3"):
        load_jobs(file)
    with pytest.raises(JobsFileError, match="No such file"):
        load_jobs(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (Job(name="a", kind="recommend", options={"budgett": "2k"}), "--budget"),
        (Job(name="a", kind="recommend", options={"budget": "lots"}), "dollar amount"),
        (Job(name="a", kind="recommend"), "Missing option '--budget'"),
        (Job(name="a", kind="profile", options={"device": "tpu"}), "none of auto, cpu, cuda"),
    ],
)
def test_options_are_held_to_the_command_before_anything_runs(job: Job, message: str) -> None:
    with pytest.raises(JobsFileError) as caught:
        check_options([job], "jobs.yaml")
    assert "job 'a'" in caught.value.message
    assert message in caught.value.message


@pytest.mark.parametrize("kind", COMMANDS)
def test_every_file_a_command_reads_is_carried_along(kind) -> None:
    command = COMMANDS[kind]
    params = [p for p in command_of(kind).params if isinstance(p, click.Option)]
    paths = {p.opts[-1] for p in params if isinstance(p.type, click.Path)}
    known = command.files | command.ours
    assert {path.lstrip("-") for path in paths} <= known
    assert command.negatable == {
        p.opts[0].lstrip("-") for p in params if p.secondary_opts and p.default is None
    }


def one(tmp_path: Path, **options: object) -> str:
    return prepare(Job(name="a", kind="recommend", options=options), tmp_path, 60.0).id


def test_a_job_is_what_it_asks_and_what_its_files_hold(tmp_path: Path) -> None:
    for name, text in (("p.csv", "1"), ("same.csv", "1"), ("q.csv", "2")):
        (tmp_path / name).write_text(text)
    first = one(tmp_path, budget="20k", **{"price-file": "p.csv"})
    assert one(tmp_path, **{"price-file": ("same.csv",)}, budget="20k") == first
    assert one(tmp_path, budget="20k", **{"price-file": "q.csv"}) != first
    assert one(tmp_path, budget="21k", **{"price-file": "p.csv"}) != first
    (tmp_path / "p.csv").write_text("3")
    assert one(tmp_path, budget="20k", **{"price-file": "p.csv"}) != first


def test_more_time_for_a_profile_does_not_make_it_another(tmp_path: Path) -> None:
    ids = {
        prepare(
            Job(name="a", kind="profile", options={"target": "t", "budget-minutes": minutes}),
            tmp_path,
            60.0,
        ).id
        for minutes in (1, 20)
    }
    assert len(ids) == 1


def test_a_changed_checkpoint_makes_another_job(tmp_path: Path) -> None:
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "config.json").write_text("{}")
    job = Job(name="a", kind="profile", options={"target": "llm"})
    before = prepare(job, tmp_path, 60.0)
    assert before.task.arguments[-1] == str(tmp_path / "llm")
    (tmp_path / "llm" / "model.safetensors").write_bytes(b"123")
    assert prepare(job, tmp_path, 60.0).id != before.id


def test_a_profile_is_carried_with_its_arrays(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps({"sidecar": "p-1.npz"}))
    (tmp_path / "p-1.npz").write_bytes(b"arrays")
    job = Job(name="a", kind="recommend", options={"profile": "p.json"})
    prepared = prepare(job, tmp_path, 60.0)
    (folder,) = {Path(name).parent.as_posix() for name in prepared.inputs}
    assert {Path(name).name for name in prepared.inputs} == {"p.json", "p-1.npz"}
    assert f"--profile={folder}/p.json" in prepared.task.arguments


def test_a_file_that_is_not_there_is_named_with_its_job(tmp_path: Path) -> None:
    job = Job(name="chat", kind="recommend", options={"calibration": "none.json"})
    with pytest.raises(JobsFileError, match=r"'chat': cannot read .*none\.json \(calibration\)"):
        prepare(job, tmp_path, 60.0)


def test_a_gpu_cut_into_slices_is_given_slice_by_slice() -> None:
    text = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-1)\n"
        "  MIG 3g.20gb     Device  1: (UUID: MIG-2)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-77)\n"
    )
    found = parse_listing(text)
    assert [(gpu.id, gpu.label) for gpu in found] == [
        ("MIG-1", "GPU 0/0"),
        ("MIG-2", "GPU 0/1"),
        ("GPU-77", "GPU 1"),
    ]
    assert "3g.20gb" in found[0].name
    assert parse_listing("") == ()
