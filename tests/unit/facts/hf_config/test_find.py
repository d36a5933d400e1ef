"""Finding an LLM by path or id: directory, Hugging Face cache, models_db, the hub."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from capplan.api.llms import load_llm
from capplan.errors import CapplanError, FactsError, MissingPackageError, UnknownIdError
from capplan.facts.catalog import load_catalog
from capplan.facts.find_llm import find_llm, is_path
from capplan.facts.hf_config.spec import FoundLlm, llm_from_config
from capplan.facts.hub import cache_dir, cached_snapshot
from capplan.facts.on_disk import with_checkpoints

CHECKPOINTS = Path(__file__).parents[3] / "data" / "checkpoints"
VARIABLES = (
    *("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"),
    *("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
)


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))


def find(name: str, *, online: bool = False) -> FoundLlm:
    return find_llm(name, load_catalog(), online=online)


def granite() -> dict[str, Any]:
    path = CHECKPOINTS / "granite-3.1-1b-a400m" / "config.json"
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def cache_checkpoint(root: Path, name: str, config: dict[str, Any], revision: str = "abc") -> Path:
    folder = root / f"models--{name.replace('/', '--')}"
    snapshot = folder / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(revision)
    (snapshot / "config.json").write_text(json.dumps(config))
    return snapshot


def test_a_directory_gives_a_spec_with_its_derivation() -> None:
    found = find(str(CHECKPOINTS / "granite-3.1-1b-a400m"))
    assert found.origin == "directory"
    assert found.spec.params_total == 1_334_628_352
    assert found.spec.params_active == 428_658_688
    assert found.spec.weight_bytes == 2_669_283_096
    assert found.spec.kv_bytes_per_token == 49_152
    assert found.spec.id == str(CHECKPOINTS / "granite-3.1-1b-a400m")
    totals = {line.quantity: line.value for line in found.lines if line.section == "parameters"}
    assert totals["total"] == 1_334_628_352


def test_a_config_file_is_as_good_as_its_directory() -> None:
    folder = CHECKPOINTS / "mixtral-8x22b"
    spec = find(str(folder / "config.json")).spec
    assert spec.weight_bytes == find(str(folder)).spec.weight_bytes == 281_241_268_224
    assert spec.params_total == 140_620_634_112
    assert spec.params_active == 39_152_031_744


def test_each_case_of_a_real_checkpoint_comes_out_right() -> None:
    devstral = find(str(CHECKPOINTS / "devstral-small-2507")).spec
    assert (devstral.params_total, devstral.kv_bytes_per_token) == (23_572_403_200, 163_840)
    oss = find(str(CHECKPOINTS / "gpt-oss-120b")).spec
    assert oss.weight_bytes == 65_248_815_744
    v3 = find(str(CHECKPOINTS / "deepseek-v3")).spec
    assert v3.params_total == pytest.approx(671_026_419_200, rel=1e-4)
    assert v3.mtp_params == pytest.approx(11.6e9, rel=0.01)
    assert v3.kv_bytes_per_token == 70_272


def test_the_cache_is_found_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_dir() == tmp_path / "hf-home" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "elsewhere"))
    assert cache_dir() == tmp_path / "elsewhere"
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "huggingface" / "hub"


def test_an_id_in_the_cache_is_read_from_there() -> None:
    snapshot = cache_checkpoint(cache_dir(), "ibm/granite", granite())
    (snapshot / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Granite\n")
    found = find("ibm/granite")
    assert (found.origin, found.folder) == ("cache", snapshot)
    assert found.spec.id == "ibm/granite"
    assert found.spec.licence == "apache-2.0"


def test_the_cache_wins_over_models_db_in_a_look_up_but_not_in_a_plan() -> None:
    cache_checkpoint(cache_dir(), "Qwen/Qwen3-8B", granite())
    assert find("Qwen/Qwen3-8B").origin == "cache"
    catalog = load_catalog()
    assert with_checkpoints(catalog, ["Qwen/Qwen3-8B"]) is catalog


def test_a_plan_takes_float32_as_an_engine_loads_it_in_16_bit() -> None:
    cache_checkpoint(cache_dir(), "a/float32", {**granite(), "torch_dtype": "float32"})
    cache_checkpoint(cache_dir(), "a/bfloat16", {**granite(), "torch_dtype": "bfloat16"})
    shown, plain = find("a/float32"), find("a/bfloat16")
    assert shown.spec.weight_bytes == 2 * plain.spec.weight_bytes
    assert (shown.is_cast, plain.is_cast) == (True, False)
    planned = {
        llm.id: llm for llm in with_checkpoints(load_catalog(), ["a/float32", "a/bfloat16"]).llms
    }
    assert planned["a/float32"].weight_bytes == planned["a/bfloat16"].weight_bytes
    assert planned["a/float32"].weight_bytes_active == planned["a/bfloat16"].weight_bytes_active
    assert planned["a/bfloat16"] == plain.spec


def test_a_cached_id_without_its_configuration_is_not_cached() -> None:
    snapshot = cache_checkpoint(cache_dir(), "Qwen/Qwen3-8B", granite())
    (snapshot / "config.json").unlink()
    assert cached_snapshot("Qwen/Qwen3-8B") is None
    assert find("Qwen/Qwen3-8B").origin == "models_db"


def test_a_single_snapshot_needs_no_ref() -> None:
    snapshot = cache_checkpoint(cache_dir(), "a/b", granite())
    (snapshot.parents[1] / "refs" / "main").unlink()
    assert cached_snapshot("a/b") == snapshot
    (snapshot.parent / "def").mkdir()
    assert cached_snapshot("a/b") is None


def test_models_db_knows_short_names_and_offers_the_nearest() -> None:
    assert find("qwen3-32b").spec.id == "Qwen/Qwen3-32B"
    assert load_llm("qwen3-32b").vocab_size == 151936
    with pytest.raises(UnknownIdError, match="qwen3-33b") as caught:
        find("qwen3-33b")
    assert "Qwen3-32B" in caught.value.remedy
    assert "--online" in caught.value.remedy


def test_an_llm_known_by_name_alone_says_what_is_missing() -> None:
    incomplete = load_catalog().incomplete_llms[0]
    with pytest.raises(UnknownIdError, match=incomplete.missing[0]):
        find(incomplete.id)


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/place", "../x", "a/b/c", "x.json"])
def test_a_path_that_leads_nowhere_is_said(name: str) -> None:
    assert is_path(name)
    with pytest.raises(UnknownIdError, match="no file or directory"):
        find(name)


@pytest.mark.parametrize(
    "name", ["", " ", "a\x00b", "./a\x00b", "..", "x" * 5000, "/" + "y" * 5000]
)
def test_a_strange_name_is_an_error_and_no_crash(name: str) -> None:
    with pytest.raises(CapplanError):
        find(name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("{", "is not JSON"),
        ("[1]", "expected a JSON object"),
        ("null", "expected a JSON object"),
        ('{"a": NaN, "b": ', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS pointer"),
        ("{}", "model_type"),
        ('{"model_type": "a_new_kind", "architectures": ["NewForCausalLM"]}', "a_new_kind"),
    ],
)
def test_a_bad_config_is_an_error_that_names_it(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(FactsError, match=said) as caught:
        find(str(tmp_path))
    assert caught.value.remedy


def test_a_config_in_another_encoding_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{\x00}\x00")
    with pytest.raises(FactsError, match="UTF-8"):
        find(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("model.gguf", "only GGUF"),
        ("adapter_config.json", "only an adapter"),
        ("params.json", "vendor's own format"),
        ("tokenizer.json", "only a tokenizer"),
        ("notes.txt", "no config.json"),
    ],
)
def test_a_folder_without_a_config_says_what_it_holds(
    tmp_path: Path, file: str, said: str
) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(FactsError, match=said) as caught:
        find(str(tmp_path))
    assert caught.value.remedy


def test_a_folder_of_an_ids_name_without_a_config_does_not_hide_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find("Qwen/Qwen3-8B").origin == "models_db"
    (tmp_path / "Qwen" / "Qwen3-8B" / "config.json").write_text(json.dumps(granite()))
    assert find("Qwen/Qwen3-8B").origin == "directory"


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_hidden_layers", 10**9), ("hidden_size", 1e308), ("vocab_size", 10**400)],
)
def test_a_size_beyond_any_llm_is_refused_before_it_is_counted(field: str, value: float) -> None:
    with pytest.raises(FactsError, match=field):
        llm_from_config({**granite(), field: value}, name="test")


def test_settings_beside_the_config_count(tmp_path: Path) -> None:
    plain = json.loads((CHECKPOINTS / "wizard-vicuna-30b-gptq" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(plain))
    beside = {"bits": 4, "group_size": 128, "desc_act": False, "sym": True}
    (tmp_path / "quantize_config.json").write_text(json.dumps(beside))
    spec = find(str(tmp_path)).spec
    assert spec.quantisation == "gptq 4 bit, groups of 128"
    assert spec.weight_bytes == pytest.approx(17_554_104_608, rel=0.002)


def test_offline_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FactsError, match="HF_HUB_OFFLINE"):
        find("nobody/nothing", online=True)


def test_the_hub_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingPackageError, match="huggingface_hub"):
        find("nobody/nothing", online=True)


def test_the_hub_is_never_asked_without_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UnknownIdError):
        find("nobody/nothing")


def test_the_hub_gives_a_configuration_and_sizes_and_no_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = pytest.importorskip("huggingface_hub.errors")
    (tmp_path / "config.json").write_text(json.dumps(granite()))
    asked: list[str] = []

    def download(name: str, file: str) -> str:
        asked.append(file)
        return str(tmp_path / file)

    files = {"config.json": 900, "model.safetensors": 2_669_283_096, "README.md": None}
    files["tokenizer.json"] = 9_000_000  # a pair compares vocabularies
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in files.items()]
    api = SimpleNamespace(model_info=lambda name, **_: SimpleNamespace(siblings=siblings))
    library = SimpleNamespace(HfApi=lambda: api, hf_hub_download=download, errors=errors)
    # the network is not there in tests: the library's answers are, in its own shape
    monkeypatch.setattr("capplan.facts.hub._library", lambda: library)
    found = find("ibm/granite-on-hub", online=True)
    assert (found.origin, found.spec.weight_bytes) == ("hub", 2_669_283_096)
    assert asked == ["config.json", "tokenizer.json"]


def test_without_a_network_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = pytest.importorskip("huggingface_hub.errors")

    def unreachable(_name: str, **_: object) -> None:
        raise OSError("Name or service not known")

    api = SimpleNamespace(model_info=unreachable)
    library = SimpleNamespace(HfApi=lambda: api, hf_hub_download=None, errors=errors)
    monkeypatch.setattr("capplan.facts.hub._library", lambda: library)
    with pytest.raises(FactsError, match="cannot be reached for nobody/nothing") as caught:
        find("nobody/nothing", online=True)
    assert "directory" in caught.value.remedy


FIELDS = st.sampled_from(
    [
        *("model_type", "architectures", "hidden_size", "num_hidden_layers", "vocab_size"),
        *("num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size"),
        *("num_local_experts", "num_experts_per_tok", "tie_word_embeddings", "torch_dtype"),
        *("max_position_embeddings", "rope_scaling", "quantization_config", "text_config"),
        *("sliding_window", "layer_types", "kv_lora_rank", "draft_vocab_size", "dtype", "model"),
        *("speculators_config", "eagle_config", "transformer_layer_config", "n_routed_experts"),
    ]
)
ODD = st.sampled_from(
    [
        *(None, True, False, 0, -1, 1, 2, 7, 10**6, 10**30, 0.5, 1e308, float("nan"), "", "x"),
        *(
            [],
            [None],
            ["full_attention"],
            [1, 2],
            {},
            {"a": None},
            {"factor": "x"},
            "float8_e4m3fn",
        ),
        *({"quant_method": "fp8"}, {"verifier": 3}, {"model_type": "llama"}, ["LlamaEagle3"]),
    ]
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    base=st.sampled_from(["granite-3.1-1b-a400m", "gpt-oss-120b", "deepseek-v3", "mixtral-8x22b"]),
    changed=st.dictionaries(FIELDS, ODD, min_size=1, max_size=4),
)
def test_odd_fields_give_a_spec_or_a_deliberate_error(base: str, changed: dict[str, Any]) -> None:
    config = {**json.loads((CHECKPOINTS / base / "config.json").read_text()), **changed}
    try:
        spec = llm_from_config(config, name="test").spec
    except CapplanError:
        return
    assert spec.params_active <= spec.params_total
    assert 0 < spec.weight_bytes_active <= spec.weight_bytes
