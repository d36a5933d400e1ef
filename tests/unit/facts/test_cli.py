"""``capplan facts`` as a user meets it."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from capplan.cli.facts import command
from capplan.errors import UnknownIdError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


FAMILIES = ["gpus", "models", "pairings", "acceptance", "prices", "claims"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_listed_as_table_json_and_csv(family: str) -> None:
    table = run(family)
    records = json.loads(run(family, "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(run(family, "--format", "csv"))))
    assert records["schema_version"] == 1
    assert len(table.splitlines()) == len(records[family]) + 1 == len(rows) + 1
    assert all(row["source_reference"] for row in rows)


def test_prices_are_filtered_and_the_cheapest_comes_first() -> None:
    output = run("prices", "--gpu", "h200", "--purchase", "on-demand", "--format", "json")
    prices = json.loads(output)["prices"]
    assert {p["gpu"] for p in prices} == {"h200-sxm-141gb"}
    rates = [p["usd_per_gpu_hour"] for p in prices]
    assert rates == sorted(rates)
    assert len(rates) == 10


def test_pairings_of_a_target_say_which_have_published_acceptance() -> None:
    output = run("pairings", "--target", "llama-3.3-70b", "--format", "json")
    figures = {p["draft"]: p["acceptance_figures"] for p in json.loads(output)["pairings"]}
    assert figures["meta-llama/Llama-3.2-1B-Instruct"] == 0
    assert figures["lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-SpecForge"] == 21


def test_models_with_unknown_figures_are_listed_only_on_request() -> None:
    assert "DeepSeek-V4-Pro" not in run("models")
    assert "unknown: params_total" in run("models", "--all")


def test_show_a_gpu_gives_its_source_and_prices() -> None:
    output = run("show", "h100-sxm-80gb")
    assert "memory_bytes_per_s: 3,350,000,000,000" in output
    assert "source: cited; aiconfigurator-core" in output
    assert "p5.48xlarge" in output


def test_show_a_head_gives_its_pairing_and_acceptance() -> None:
    shown = json.loads(run("show", "nvidia/Kimi-K2.6-Eagle3", "--format", "json"))
    assert shown["fact"] is None
    assert [p["target"] for p in shown["pairings"]] == ["moonshotai/Kimi-K2.6"]
    assert [f["tokens_per_round"] for f in shown["acceptance"]] == [2.62, 2.67]


def test_show_a_claim_says_what_speaks_against_it() -> None:
    assert "neither exists" in run("show", "pair-qwen3.5-72b-speedup")


def test_an_empty_result_says_so() -> None:
    assert run("prices", "--gpu", "mi355x") == "No prices match.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "qwen3-33b"),
        ("prices", "--provider", "lamda"),
        ("pairings", "--target", "qwen3-33b"),
    ],
)
def test_an_unknown_name_offers_the_nearest(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UnknownIdError) as caught:
        run(*arguments)
    assert "Did you mean" in caught.value.remedy


def test_the_whole_program_reports_it_with_exit_code_1() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "capplan", "facts", "show", "h2000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == "Error: No GPU 'h2000' in the catalogue."
    assert "h200-sxm-141gb" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", [*FAMILIES, "show", None])
def test_help_is_documented(name: str | None) -> None:
    output = run(*([name] if name else []), "--help")
    assert "Usage:" in output
    if name is None:
        assert "capplan facts show h200" in output


def test_a_gpu_name_that_claims_also_begin_with_means_the_gpus() -> None:
    with pytest.raises(UnknownIdError) as caught:
        run("show", "a100")
    assert "ambiguous: 4 ids" in caught.value.message
    assert "a100-sxm-80gb" in caught.value.remedy


def test_show_a_provider_gives_its_offers() -> None:
    assert "gpu_8x_h100_sxm5" in run("show", "lambda")
