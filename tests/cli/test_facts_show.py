"""``capplan facts show``: the derivation of a checkpoint's figures, and what models_db knows."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from capplan.cli.facts import command
from capplan.errors import CapplanError, FactsError, UnknownIdError
from capplan.facts.catalog import load_catalog
from capplan.facts.contribution import check_file
from capplan.facts.derivation import to_text
from capplan.facts.find_llm import find_llm
from capplan.facts.llms import LLM_COLUMNS, load_llms

CHECKPOINTS = Path(__file__).parents[1] / "data" / "checkpoints"
TOP = ("params_total", "params_active", "weight_bytes", "kv_bytes_per_token")
TOP += ("state_bytes_per_request", "vocab_size")


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))


def show(*args: str | Path) -> Result:
    return CliRunner().invoke(command, ["show", *map(str, args)])


def output(*args: str | Path) -> str:
    result = show(*args)
    assert result.exit_code == 0, result.exception
    return result.output


def as_json(*args: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(output(*args, "--format", "json"))
    return content


def test_every_part_has_a_line_with_its_sum_and_totals_follow() -> None:
    text = output(CHECKPOINTS / "gpt-oss-120b")
    lines = {line.split("  ")[1].strip(): line for line in text.splitlines() if "  " in line}
    assert "36 x (128 x (3 x 2880 x 2880))" in text
    assert "116,829,156,672" in lines["total"]
    assert "4 of 128 experts a token" in lines["active"]
    assert "65,248,815,744" in lines["weight bytes"]
    assert "formula" in lines["weight bytes"]
    assert "last 128 tokens" in text
    for size, value in ((1, "36,864"), (2, "18,432"), (4, "9,216"), (8, "4,608")):
        assert any(f"TP {size}" in line and value in line for line in text.splitlines())
    assert "yarn, 4096 x 32" in text


def test_the_source_of_the_weight_bytes_is_named() -> None:
    text = output(CHECKPOINTS / "granite-3.1-1b-a400m")
    assert "2,669,283,096" in text
    assert "Git LFS pointers" in text
    assert "metadata.total_size" in output(CHECKPOINTS / "mixtral-8x22b")


def test_a_latent_cache_is_whole_on_every_gpu() -> None:
    text = output(CHECKPOINTS / "deepseek-v3")
    for size in (1, 2, 4, 8):
        assert any(f"TP {size}" in line and "70,272" in line for line in text.splitlines())


def test_json_has_the_main_figures_at_the_top_as_integers() -> None:
    content = as_json(CHECKPOINTS / "granite-3.1-1b-a400m")
    assert content["schema_version"] >= 1
    assert [content[key] for key in TOP] == [
        *(1_334_628_352, 428_658_688, 2_669_283_096, 49_152, 0, 49_155)
    ]
    assert all(isinstance(content[key], int) for key in TOP)
    assert content["max_context"] == 131_072
    assert content["mtp_params"] is None
    assert content["head"] is None
    total = next(line for line in content["derivation"] if line["quantity"] == "total")
    assert total["value"] == 1_334_628_352
    assert content["fact"]["family"] == content["family"]


def test_json_of_windowed_layers_states_what_full_windows_take() -> None:
    content = as_json(CHECKPOINTS / "gpt-oss-120b")
    assert content["window_bytes_per_request"] == 18 * 8 * 128 * 2 * 128
    assert content["quantisation"] == "mxfp4, groups of 32"


def test_json_of_an_llm_of_models_db_has_the_same_keys() -> None:
    content = as_json("qwen3-32b")
    assert content["params_total"] == 32_762_123_264
    assert all(isinstance(content[key], int) for key in TOP)
    assert content["fact"]["id"] == "Qwen/Qwen3-32B"
    assert content["pairings"]
    assert content["origin"] == "models_db"
    assert set(as_json(CHECKPOINTS / "deepseek-v3")) - set(content) == set()


def test_json_of_a_gpu_has_no_figures_of_an_llm() -> None:
    content = as_json("h100-sxm-80gb")
    assert content["fact"]["id"] == "h100-sxm-80gb"
    assert "params_total" not in content


def test_a_head_shows_its_method_and_target() -> None:
    content = as_json(CHECKPOINTS / "specforge-heads" / "llama3-70b-eagle3.json")
    assert content["head"]["method"] == "eagle3"
    assert content["head"]["draft_vocab_size"] == 32000
    assert "output vocabulary" in output(
        CHECKPOINTS / "specforge-heads" / "llama3-70b-eagle3.json"
    )


def test_an_llm_of_models_db_shows_its_cache_as_models_db_writes_it() -> None:
    assert "cache: 64 full 8x256" in output("qwen3-32b")


@pytest.mark.parametrize(
    "name", ["granite-3.1-1b-a400m", "gpt-oss-120b", "deepseek-v3", "devstral-small-2507"]
)
def test_csv_is_a_row_that_joins_models_db_unchanged(tmp_path: Path, name: str) -> None:
    text = output(CHECKPOINTS / name, "--format", "csv")
    (tmp_path / "mine.csv").write_text(text)
    row = next(csv.DictReader(io.StringIO(text)))
    assert tuple(row) == LLM_COLUMNS
    (spec,), incomplete = load_llms(tmp_path)
    assert not incomplete
    content = as_json(CHECKPOINTS / name)
    for key in ("params_total", "params_active", "weight_bytes", "kv_bytes_per_token"):
        assert getattr(spec, key) == content[key]
    assert spec.mtp_params == content["mtp_params"]
    checked = check_file(tmp_path / "mine.csv", load_catalog())
    assert not checked.problems


def test_csv_takes_the_id_that_the_configuration_states(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(CHECKPOINTS / "granite-3.1-1b-a400m", folder)
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "_name_or_path": "ibm/granite"}))
    assert output(folder, "--format", "csv").splitlines()[1].startswith("ibm/granite,")


def test_csv_of_something_else_than_an_llm_is_misuse() -> None:
    assert show("h100-sxm-80gb", "--format", "csv").exit_code == 2


@pytest.mark.parametrize(
    ("name", "error"),
    [("qwen3-33b", UnknownIdError), ("./nowhere", UnknownIdError), (".", FactsError)],
)
def test_a_refusal_is_one_message_with_a_remedy(
    name: str, error: type[CapplanError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = show(name)
    assert isinstance(result.exception, error)
    assert result.exception.remedy


def test_an_unknown_architecture_exits_with_1_and_names_it(tmp_path: Path) -> None:
    config = {"model_type": "brand_new", "architectures": ["BrandNewForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "capplan", "facts", "show", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert not done.stdout
    assert "brand_new" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_shows_examples() -> None:
    text = output("--help")
    assert "capplan facts show ./my-checkpoint" in text
    assert "--online" in text


def test_a_plan_takes_a_directory_as_its_target(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(CHECKPOINTS / "granite-3.1-1b-a400m", folder)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "capplan", "recommend", "--target", str(folder)),
            *("--budget", "5000", "--rate", "1/s", "--format", "json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["request"]["targets"] == [str(folder)]


@pytest.mark.parametrize("name", ["gpt-oss-120b", "deepseek-v3", "mixtral-8x22b"])
def test_on_a_terminal_of_80_columns_nothing_is_cut_or_longer(name: str) -> None:
    found = find_llm(str(CHECKPOINTS / name), load_catalog())
    text = to_text(found.lines, 80)
    assert all(len(line) <= 80 for line in text.splitlines())
    said = " ".join(text.split())
    for line in found.lines:
        assert " ".join(line.how.split()) in said or line.section != "warning"


def test_a_directory_needs_nothing_of_models_db(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("capplan.cli.facts_show.load_catalog", lambda: pytest.fail("loaded"))
    assert "116,829,156,672" in output(CHECKPOINTS / "gpt-oss-120b")
