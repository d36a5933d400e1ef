"""The script for borrowed GPUs: its findings on known times, its configurations, a dry run."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capplan.facts.catalog import load_catalog
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import Backend, Device, Environment, ProfiledLlm
from capplan.schema.profile import PowerRecord, Profile
from capplan.schema.provenance import Kind, Source
from capplan.schema.verdict import Stability, Verdict

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"
STABLE = Verdict(stability=Stability.STABLE)
BATCHES, TOKENS, CONTEXTS = (1, 8, 64), (1, 2, 5), (1024, 4096)


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def device_findings() -> Any:
    return module("device_findings")


def profile_of(*, mu: float = 0.0, decode_s: float = 4e-3, name: str = "NVIDIA H200") -> Profile:
    """A profile whose verification reads the context ``1 + mu * (q - 1)`` times."""
    spec = LlmSpec(
        id="made/up",
        family="made up",
        params_total=8e9,
        params_active=8e9,
        weight_bytes=16e9,
        weight_bytes_active=16e9,
        layers=32,
        hidden=4096,
        vocab_size=100_000,
        kv_bytes_per_token=100_000,
        kv_heads=8,
        dtype="bfloat16",
        source=Source(kind=Kind.ASSUMED, reference="made up for this test"),
    )
    timing = [
        TimingCell(
            role=Role.TARGET,
            phase=Phase.DECODE if q == 1 else Phase.VERIFY,
            batch=b,
            tokens_per_sequence=q,
            context=s,
            seconds=(decode_s + 1e-6 * b * q + 1e-8 * b * s * (1 + mu * (q - 1)),) * 3,
            cuda_graph=True,
            verdict=STABLE,
        )
        for b in BATCHES
        for q in TOKENS
        for s in CONTEXTS
    ]
    return Profile(
        id="profile-0",
        created_at="2026-01-01T00:00:00+00:00",
        capplan_version="0.1.0",
        complete=True,
        request={},
        environment=Environment(
            device=Device(kind="cuda", name=name, memory_bytes=141e9), python="3.12", libraries={}
        ),
        backend=Backend(name="torch", version="2.11.0", cuda_graphs=True),
        target=ProfiledLlm(spec=spec, weights="dummy", dtype="bfloat16"),
        timing=tuple(timing),
        power=(PowerRecord(phase=Phase.DECODE, batch=8, joules=600, seconds=2, tokens=4000),),
        verdict=STABLE,
    )


@pytest.mark.parametrize(
    ("mu", "answer"),
    [
        (0.0, "the context is read once a pass"),
        (1.0, "the context is read once a verified token"),
        (0.5, "between once a pass and once a verified token"),
    ],
)
def test_context_reads_are_recovered(device_findings: Any, mu: float, answer: str) -> None:
    found = device_findings.context_reads(profile_of(mu=mu))
    assert found["mu"] == pytest.approx(mu, abs=1e-6)
    assert found["answer"] == answer
    assert found["multiplicity_by_tokens"][5] == pytest.approx(1 + 4 * mu)


def test_context_reads_need_two_contexts(device_findings: Any) -> None:
    one = tuple(cell for cell in profile_of().timing if cell.context == CONTEXTS[0])
    assert device_findings.context_reads(profile_of().model_copy(update={"timing": one})) is None


def test_decode_is_held_against_the_bytes_it_reads(device_findings: Any) -> None:
    profile = profile_of()
    untied = device_findings.decode_against_bandwidth(profile, tied_embeddings=False)
    tied = device_findings.decode_against_bandwidth(profile, tied_embeddings=True)
    # 100,000 tokens x 4,096 x 2 bytes of input embedding are looked up, not read
    assert tied["bytes_read"] - untied["bytes_read"] == 100_000 * 4096 * 2
    assert tied["bytes_read"] == 16e9 + 100_000 * CONTEXTS[0]
    peak = load_catalog().gpu("h200").memory_bytes_per_s
    assert tied["times_the_limit"] == pytest.approx(tied["seconds"] * peak / tied["bytes_read"])


def test_bandwidth_of_an_unknown_device_is_not_guessed(device_findings: Any) -> None:
    profile = profile_of(name="NVIDIA H200 of another make")
    found = device_findings.decode_against_bandwidth(profile, tied_embeddings=True)
    assert found["times_the_limit"] is None


def test_power_is_energy_over_time_and_tokens(device_findings: Any) -> None:
    assert device_findings.power(profile_of()) == [
        {"batch": 8, "watts": 300.0, "joules_per_token": 0.15}
    ]


def test_fit_of_exact_times_has_no_error(device_findings: Any) -> None:
    assert device_findings.held_out(profile_of(), Role.TARGET) < 0.02
    assert device_findings.held_out(profile_of(), Role.DRAFT) is None


def configurations() -> list[Path]:
    return sorted((TOOLS / "configs").glob("*/*/config.json"))


def test_there_is_a_configuration_for_every_llm_of_the_check() -> None:
    names = {str(path.parent.relative_to(TOOLS / "configs")) for path in configurations()}
    script = (TOOLS / "device_check.py").read_text(encoding="utf-8")
    assert len(names) == 5
    assert all(f'"{name}"' in script for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("path", configurations(), ids=lambda path: path.parent.name)
def test_configuration_counts_as_many_parameters_as_the_catalogue(path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    known = load_catalog().llm(str(path.parent.relative_to(TOOLS / "configs")))
    config = transformers.AutoConfig.from_pretrained(path.parent)
    with torch.device("meta"):
        llm = transformers.AutoModelForCausalLM.from_config(config)
    assert sum(tensor.numel() for tensor in llm.parameters()) == known.params_total
    width = getattr(config, "head_dim", config.hidden_size // config.num_attention_heads)
    kv_bytes = 2 * 2 * config.num_hidden_layers * config.num_key_value_heads * width
    assert kv_bytes == known.kv_bytes_per_token


@pytest.mark.slow
def test_dry_run_on_a_cpu_writes_readable_profiles(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    environment = {**os.environ, "PYTHON": sys.executable, "OUT": str(tmp_path)}
    done = subprocess.run(
        [str(TOOLS / "device_check.sh"), "--smoke"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert [run["target"] for run in summary["runs"]] == [
        "Qwen/Qwen3-8B",
        "meta-llama/Llama-3.1-8B-Instruct",
        "Qwen/Qwen3-30B-A3B",
    ]
    for run in summary["runs"]:
        assert run["readable"], run
        assert run["timing_cells"] > 0, run
        stored = json.loads((tmp_path / run["profile"]).read_text(encoding="utf-8"))
        # named as in the catalogue, so that a plan finds the committed profile
        assert stored["target"]["spec"]["id"] == run["target"]
        assert stored["acceptance"] == []
    assert "Qwen/Qwen3-30B-A3B" in done.stdout
