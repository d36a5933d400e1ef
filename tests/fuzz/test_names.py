"""No name in a file leads out of the folder that the file lies in."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import (
    CheckpointError,
    ExecutorError,
    FactsError,
    JobsFileError,
    ProfileFormatError,
    UnknownIdError,
)
from capplan.facts.engines import load_engine
from capplan.facts.find_llm import find_path
from capplan.facts.hub import cached_snapshot
from capplan.inputs.names import is_bare_name
from capplan.jobs.answers import sidecar_of
from capplan.jobs.jobfile import load_jobs, parse_jobs
from capplan.jobs.ray_host import JobHost
from capplan.profiles.store import load_profile
from profiler.backends.checkpoints import find_checkpoint

CORPUS = Path(__file__).parents[2] / "tools" / "fuzz" / "corpus"
ESCAPES = (
    *("../x.npz", "/etc/passwd", "..", ".", "", "a/b.npz", "a\\b.npz", "C:x.npz", "\\\\host\\x"),
    *("x\x00.npz", "x\n.npz", "\ud800.npz", "\x1b[2J.npz", "é" * 200),
)


@pytest.mark.parametrize("name", [*ESCAPES, None, 7, ["x"]], ids=repr)
def test_a_name_that_leads_elsewhere_is_none(name: object) -> None:
    assert not is_bare_name(name)


@pytest.mark.parametrize("name", ["p-0123456789abcdef.npz", "model-00001-of-00002.safetensors"])
def test_a_name_of_the_folder_is_one(name: str) -> None:
    assert is_bare_name(name)


@pytest.mark.parametrize("name", [name for name in ESCAPES if name])
def test_a_sidecar_lies_beside_its_profile(tmp_path: Path, name: str) -> None:
    document = json.loads((CORPUS / "profile" / "small.json").read_text()) | {"sidecar": name}
    (tmp_path / "p.json").write_text(json.dumps(document))
    with pytest.raises(ProfileFormatError) as caught:
        load_profile(tmp_path / "p.json")
    assert caught.value.remedy
    assert sidecar_of(json.dumps(document).encode()) is None


def test_a_job_carries_no_other_file_than_arrays_along() -> None:
    assert sidecar_of(b'{"sidecar": "p-0123456789abcdef.npz"}') == "p-0123456789abcdef.npz"
    assert sidecar_of(b'{"sidecar": "id_rsa"}') is None


@pytest.mark.parametrize("name", ["../../model.safetensors", "/etc/passwd", "a/b.safetensors"])
def test_an_index_names_files_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.json").write_bytes((CORPUS / "config" / "llama.json").read_bytes())
    weights = (CORPUS / "safetensors" / "two.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights)
    index = {"metadata": {"total_size": 96}, "weight_map": {"model.norm.weight": name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="no file of its folder"):
        find_checkpoint(str(tmp_path))
    assert find_path(str(tmp_path)).checkpoint_bytes == 96  # of the file that lies there


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", ".hidden", "x" * 65, "a\n", ""])
def test_a_job_is_called_by_a_word(name: str) -> None:
    with pytest.raises(JobsFileError):
        parse_jobs({"jobs": [{"name": name, "recommend": {"target": "x"}}]})


@pytest.mark.parametrize("option", ["output=/etc/x", "o", "-o", "Output", "output ", "a\nb", "é"])
def test_an_option_of_a_job_brings_no_other_along(option: str) -> None:
    jobs: dict[str, Any] = {"jobs": [{"name": "a", "recommend": {option: "y"}}]}
    if option in ("o", "-o"):  # one letter is a word, and no long name of any option
        assert parse_jobs(jobs)[0].options == {"o": "y"}
        return
    with pytest.raises(JobsFileError, match="no option"):
        parse_jobs(jobs)


def test_a_host_takes_no_file_outside_a_job(tmp_path: Path) -> None:
    host = JobHost()
    task = {
        "name": "a",
        "arguments": ["doctor"],
        "output": "x.json",
        "measures": False,
        "limit_s": 1.0,
    }
    try:
        for name in ("../x", "/tmp/x", "inputs/../../x"):
            with pytest.raises(ExecutorError):
                host.run(json.dumps(task), {name: b""}, has_gpus=False)
    finally:
        host.end()


@pytest.mark.parametrize("name", ["../gpus/x", "/etc/x", "vllm/../vllm", "\x00", ""])
def test_an_engine_is_looked_up_among_ours_alone(name: str) -> None:
    with pytest.raises(UnknownIdError):
        load_engine(name)


@pytest.mark.parametrize("named", ["../../../../secret", "/secret", "a/b", ""])
def test_a_cache_leads_to_no_other_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    refs = tmp_path / "models--org--x" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text(named)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "config.json").write_text("{}")
    assert cached_snapshot("org/x") is None


def test_a_header_of_2_to_the_60_bytes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((CORPUS / "config" / "llama.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")
    with pytest.raises(CheckpointError, match="length of a header"):
        find_checkpoint(str(tmp_path))


def test_a_file_of_jobs_with_an_unknown_home_is_explained(tmp_path: Path) -> None:
    (tmp_path / "j.yaml").write_text("jobs: [{name: a, recommend: {profile: '~nobody-x/p.json'}}]")
    assert load_jobs(tmp_path / "j.yaml")[0].options == {"profile": "~nobody-x/p.json"}
    with pytest.raises(FactsError):
        find_path("~nobody-x/p")
