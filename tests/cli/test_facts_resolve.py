"""``capplan facts resolve`` as a user meets it."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from capplan.cli.facts import command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["resolve", *arguments], catch_exceptions=False)


def test_a_table_shows_count_form_and_memory() -> None:
    result = run("p4d.24xlarge", "NVIDIA H100 NVL")
    assert result.exit_code == 0
    head, first, second = result.stdout.splitlines()
    assert head.split()[:2] == ["name", "GPU"]
    assert first.split()[:6] == ["p4d.24xlarge", "a100-sxm-40gb", "8", "SXM4", "40", "320"]
    assert "h100-nvl-94gb" in second


def test_json_is_a_list_with_slices_and_totals() -> None:
    result = run("Standard_ND96asr_v4", "A10-4Q", "--format", "json")
    node, part = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (node["gpu"], node["count"], node["total_memory_gb_nominal"]) == (
        "a100-sxm-40gb",
        8,
        320,
    )
    assert part["slice"] == {"kind": "vgpu", "profile": "A10-4Q", "compute_fraction": None}
    assert part["memory_gib"] == 4


def test_one_unresolved_name_fails_with_its_choices_and_shows_the_others() -> None:
    result = run("NVIDIA L4", "a100")
    assert result.exit_code == 1
    assert "l4" in result.stdout
    assert "ambiguous: 4 ids" in result.stderr
    assert "a100-sxm-40gb" in result.stderr


def test_an_unresolved_name_is_a_record_too() -> None:
    result = run("p5.96xlarge", "--format", "json")
    (record,) = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (record["resolved"], record["reason"]) == (False, "unknown")
    assert "p5.48xlarge" in record["choices"]


def test_the_devices_memory_decides() -> None:
    result = run("NVIDIA H20", "--memory-mib", "143771", "--format", "json")
    (record,) = json.loads(result.stdout)
    assert record["gpu"] == "h20-sxm-141gb"
    assert record["memory_bytes"] == 143_771 * 2**20


def test_no_name_and_no_memory_are_misuse() -> None:
    assert run().exit_code == 2
    assert run("l4", "--memory-mib", "0").exit_code == 2
