"""``capplan facts resolve`` as a user meets it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from capplan.cli.facts import command
from capplan.errors import UnknownIdError


def run(*arguments: str, stdin: str = "") -> Result:
    arguments = ("resolve", *arguments)
    return CliRunner().invoke(command, arguments, input=stdin, catch_exceptions=False)


def test_a_table_shows_count_form_and_memory() -> None:
    result = run("p4d.24xlarge", "NVIDIA H100 NVL")
    assert result.exit_code == 0
    head, first, second = result.stdout.splitlines()
    assert head.split()[:2] == ["name", "GPU"]
    assert first.split()[:6] == ["p4d.24xlarge", "a100-sxm-40gb", "8", "SXM4", "40", "320"]
    assert "h100-nvl-94gb" in second


def test_a_slice_is_said_once() -> None:
    lines = run("Tesla-T4-SHARED", "A10-4Q", "NVIDIA A30 MIG 1g.6gb").stdout.splitlines()
    shared, virtual, mig = lines[1:]
    assert shared.count("time-shared") == 1
    assert "vGPU A10-4Q" in virtual
    assert "MIG 1g.6gb" in mig


def test_json_is_a_list_with_exactly_these_fields() -> None:
    result = run("Standard_ND96asr_v4", "A10-4Q", "--format", "json")
    node, part = json.loads(result.stdout)
    assert result.exit_code == 0
    assert node == {
        "name": "Standard_ND96asr_v4",
        "gpu": "a100-sxm-40gb",
        "count": 8,
        "form_factor": "SXM4",
        "slice": None,
        "memory_gb_each": 40,
        "memory_gb_total": 320,
        "memory_bytes_each": 40_536 * 2**20,
        "how": "instance type of azure",
    }
    assert part["slice"] == {"kind": "vgpu", "profile": "A10-4Q", "compute_fraction": None}
    assert (part["memory_gb_each"], part["memory_bytes_each"]) == (4, 4 * 2**30)


def test_one_unresolved_name_fails_with_its_choices_and_shows_the_others() -> None:
    result = run("NVIDIA L4", "a100")
    assert result.exit_code == 1
    assert "l4" in result.stdout
    assert "ambiguous: 4 ids" in result.stderr
    assert "a100-sxm-40gb" in result.stderr


def test_an_unresolved_name_is_a_record_in_its_place() -> None:
    result = run("p5.96xlarge", "NVIDIA L4", "--format", "json")
    unknown, known = json.loads(result.stdout)
    assert result.exit_code == 1
    assert list(unknown) == ["name", "error", "reason", "choices"]
    assert unknown["reason"] == "unknown"
    assert "p5.48xlarge" in unknown["choices"]
    assert known["gpu"] == "l4"


def test_the_devices_memory_decides() -> None:
    result = run("NVIDIA H20", "--memory-mib", "143771", "--format", "json")
    (record,) = json.loads(result.stdout)
    assert record["gpu"] == "h20-sxm-141gb"
    assert record["memory_bytes_each"] == 143_771 * 2**20


def test_what_nvidia_smi_prints_can_be_piped_in() -> None:
    lines = "NVIDIA H20, 143771 MiB\n\nGPU 0: NVIDIA L40S (UUID: GPU-5f1c)\n"
    records = json.loads(run("-", "--format", "json", stdin=lines).stdout)
    assert [record["gpu"] for record in records] == ["h20-sxm-141gb", "l40s"]


def test_no_name_and_no_memory_are_misuse() -> None:
    assert run().exit_code == 2
    assert run("-", stdin="\n").exit_code == 2
    assert run("l4", "--memory-mib", "0").exit_code == 2


@pytest.mark.parametrize(
    ("name", "told", "remedy"),
    [
        ("RTX 4090 Laptop GPU", "'laptop' is no part", "rtx-4090"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "part of a GPU", "facts show h100-sxm-80gb"),
        ("p4d.24xlarge", "8 x a100-sxm-40gb", "facts show a100-sxm-40gb"),
        ("a100", "GPU 'a100' is ambiguous", "a100-pcie-80gb"),
        ("no-such-thing", "No id 'no-such-thing'", "capplan facts"),
    ],
)
def test_show_tells_why_a_name_is_no_gpu(name: str, told: str, remedy: str) -> None:
    result = CliRunner().invoke(command, ["show", name])
    assert isinstance(result.exception, UnknownIdError)
    assert told in result.exception.message
    assert remedy in result.exception.remedy


def test_show_takes_a_drivers_name() -> None:
    result = CliRunner().invoke(command, ["show", "NVIDIA-H100-80GB-HBM3"], catch_exceptions=False)
    assert "h100-sxm-80gb" in result.stdout
