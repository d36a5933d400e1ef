"""Real configurations: totals that the checkpoints themselves or their authors state."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import FactsError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.hf_config.architectures.read import read_architecture
from capplan.facts.hf_config.parts import Architecture
from capplan.schema.cache import CacheKind, kv_bytes_per_token

CONFIGS = Path(__file__).parents[3] / "data" / "configs"

REFUSED = ("deepseek-ai--DeepSeek-V4-Flash", "moonshotai--Kimi-K3")
STORED = sorted(path.stem for path in CONFIGS.glob("*.json") if path.stem not in REFUSED)

SAME_SHAPE = {
    "deepseek-ai--DeepSeek-V3": ("deepseek-ai/DeepSeek-R1",),
    "google--gemma-4-26B-A4B": ("google/gemma-4-26B-A4B-it",),
    "meta-llama--Llama-3.2-3B": ("meta-llama/Llama-3.2-3B-Instruct",),
    "meta-llama--Meta-Llama-3.1-8B": ("meta-llama/Llama-3.1-8B-Instruct",),
    "meta-llama--Meta-Llama-3.1-70B": (
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-3.3-70B-Instruct",
    ),
    "mistralai--Mixtral-8x7B-v0.1": ("mistralai/Mixtral-8x7B-Instruct-v0.1",),
    "zai-org--GLM-5.2": ("zai-org/GLM-5.2-FP8",),
}
"""Rows of models_db, besides the one of the same name, that a file describes."""


def config_of(stem: str) -> dict[str, Any]:
    return json.loads((CONFIGS / f"{stem}.json").read_text("utf-8"))


def architecture_of(stem: str) -> Architecture:
    return read_architecture(config_of(stem), stem)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


# Bytes of the weight files / 2, the number the hub shows, or the sum in a model card.
@pytest.mark.parametrize(
    ("stem", "params"),
    [
        ("mistralai--Devstral-Small-2507", 47_144_806_400 // 2),
        ("stvlynn--Qwen-7B-Chat-Cantonese", 15_442_649_088 // 2),
        ("meta-llama--Llama-3.2-3B", 6_425_499_648 // 2),
        ("tbressers--WizardLM-2-8x22B", 281_241_268_224 // 2),
        ("ibm-granite--granite-3.1-1b-a400m-instruct", 1_334_628_352),
        ("deepseek-ai--DeepSeek-V3", 671_026_419_200),
        ("moonshotai--Kimi-K2-Instruct", 1_026_408_232_448),
        ("nvidia--Llama-3_3-Nemotron-Super-49B-v1", 49_867_145_216),
        ("Qwen--Qwen3-0.6B", 596_049_920),
    ],
)
def test_parameters_are_those_of_the_checkpoint(stem: str, params: int) -> None:
    assert architecture_of(stem).params_total == params


@pytest.mark.parametrize(
    ("stem", "billions"),
    [
        ("openai--gpt-oss-120b", 116.83),
        ("MiniMaxAI--MiniMax-M2.5", 229),
        ("XiaomiMiMo--MiMo-V2-Flash", 309),
        ("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.6),
        ("meta-llama--Llama-4-Scout-17B-16E-Instruct", 107.8),
        ("Qwen--Qwen3.5-397B-A17B", 397),
    ],
)
def test_parameters_agree_with_the_published_size(stem: str, billions: float) -> None:
    assert architecture_of(stem).params_total / 1e9 == pytest.approx(billions, rel=0.002)


@pytest.mark.parametrize(
    ("stem", "active"),
    [
        ("ibm-granite--granite-3.1-1b-a400m-instruct", 428_658_688),
        ("tbressers--WizardLM-2-8x22B", 39_152_031_744),
    ],
)
def test_a_token_reads_its_experts_and_everything_else(stem: str, active: int) -> None:
    assert architecture_of(stem).params_active == active


@pytest.mark.parametrize(
    ("stem", "kv_bytes"),
    [
        ("mistralai--Devstral-Small-2507", 40 * 8 * 2 * 128 * 2),
        ("stvlynn--Qwen-7B-Chat-Cantonese", 32 * 32 * 2 * 128 * 2),
        ("deepseek-ai--DeepSeek-V3", 61 * (512 + 64) * 2),
        ("deepseek-ai--DeepSeek-V3.2", 61 * (2 * (512 + 64) + 132)),
        ("Qwen--Qwen3.5-27B", 16 * 4 * 2 * 256 * 2),
        ("google--gemma-4-26B-A4B", 5 * 2 * 2 * 512 * 2),
    ],
)
def test_a_token_takes_so_many_bytes_of_cache(stem: str, kv_bytes: int) -> None:
    assert kv_bytes_per_token(architecture_of(stem).cache) == kv_bytes


def test_gpt_oss_alternates_between_full_and_windowed_layers() -> None:
    cache = architecture_of("openai--gpt-oss-120b").cache
    assert [str(group) for group in cache] == ["18 full 8x128", "18 window 8x128 last 128"]


def test_an_indexer_is_kept_on_the_layers_that_have_one() -> None:
    groups = [str(group) for group in architecture_of("zai-org--GLM-5.2").cache]
    assert groups == ["78 latent 1x576", "21 latent 1x132 @1B"]


def test_gated_delta_layers_keep_a_state_of_constant_size() -> None:
    (state,) = [
        group
        for group in architecture_of("Qwen--Qwen3.5-27B").cache
        if group.kind is CacheKind.STATE
    ]
    convolution = (2 * 16 * 128 + 48 * 128) * 3 * 2
    recurrent = 48 * 128 * 128 * 4
    assert (state.layers, state.state_bytes) == (48, convolution + recurrent)


def test_the_mtp_layer_is_apart_and_as_large_as_its_authors_say() -> None:
    found = architecture_of("deepseek-ai--DeepSeek-V3")
    assert found.mtp_layers == 1
    assert sum(part.params for part in found.mtp_parts) == pytest.approx(11.5e9, rel=0.02)


@pytest.mark.parametrize(
    ("stem", "context", "field"),
    [
        ("meta-llama--Llama-3.2-3B", 131_072, "max_position_embeddings"),
        ("stvlynn--Qwen-7B-Chat-Cantonese", 8_192, "seq_length"),
        ("deepseek-ai--DeepSeek-V3", 163_840, "yarn"),
        ("openai--gpt-oss-120b", 131_072, "yarn"),
    ],
)
def test_the_context_and_what_says_so(stem: str, context: int, field: str) -> None:
    found = architecture_of(stem)
    assert found.max_context == context
    assert any(f"Context {context}" in note and field in note for note in found.notes)


@pytest.mark.parametrize("stem", REFUSED)
def test_a_network_that_cannot_be_counted_is_refused_by_name(stem: str) -> None:
    config = config_of(stem)
    with pytest.raises(FactsError, match=config["model_type"]) as caught:
        read_architecture(config, stem)
    assert "models_db" in caught.value.remedy


@pytest.mark.parametrize("stem", STORED)
def test_parts_write_out_the_sums_that_they_are(stem: str) -> None:
    for part in architecture_of(stem).parts:
        assert part.params == eval(part.how.replace(" x ", " * "))
        assert 0 < part.active <= part.params


WRONG: tuple[Any, ...] = (None, "x", -1, 0, 1.5, True, 7, [], {}, [1], ["x"], {"a": 1})


def outcome_of(config: dict[str, Any], where: str) -> str:
    """Return the message of the error, empty if the configuration is counted."""
    try:
        read_architecture(config, where)
    except FactsError as error:
        return error.message
    return ""


def test_whatever_a_field_holds_the_answer_is_a_count_or_an_error_that_names_the_file() -> None:
    wrong = itertools.cycle(WRONG)
    messages = []
    for stem in STORED[::2]:
        config = config_of(stem)
        inner = config.get("text_config", config)
        for name in inner:
            broken = {**inner, name: next(wrong)}
            whole = broken if inner is config else {**config, "text_config": broken}
            messages.append(outcome_of(whole, "here/config.json"))
    assert all(message.startswith("here/config.json") for message in messages if message)
    assert len(messages) > 300


@pytest.mark.parametrize("stem", STORED)
def test_models_db_agrees_exactly(stem: str, catalog: Catalog) -> None:
    ids = (stem.replace("--", "/"), *SAME_SHAPE.get(stem, ()))
    rows = [llm for llm in catalog.llms if llm.id in ids]
    found = architecture_of(stem)
    for row in rows:
        assert row.params_total == found.params_total
        assert row.params_active == found.params_active
        assert row.cache == found.cache
        assert (row.layers, row.hidden, row.heads) == (found.layers, found.hidden, found.heads)
        assert (row.vocab_size, row.max_context) == (found.vocab_size, found.max_context)
        assert row.experts == found.experts
        assert row.experts_per_token == found.experts_per_token
        assert row.mtp_layers == found.mtp_layers
        assert (row.mtp_params or 0) == sum(part.params for part in found.mtp_parts)


def test_most_stored_files_have_a_row(catalog: Catalog) -> None:
    ids = {llm.id for llm in catalog.llms}
    named = {stem: (stem.replace("--", "/"), *SAME_SHAPE.get(stem, ())) for stem in STORED}
    assert sum(bool(ids.intersection(names)) for names in named.values()) >= 20
