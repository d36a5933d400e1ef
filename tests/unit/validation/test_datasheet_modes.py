"""Modes that start from data sheets: what they reach, and that nothing of a row leaks into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from capplan.facts.catalog import load_catalog
from capplan.resources import models_db_dir
from capplan.validation.folder import read_published
from capplan.validation.modes import (
    datasheet,
    datasheet_family,
    decode,
    decode_datasheet,
    serving,
    serving_ttft,
)
from capplan.validation.rows import PublishedRows
from capplan.validation.scoring import score
from capplan.validation.specs import Specs, bytes_per_param, plain_name

CATALOG = load_catalog()
SPECS = Specs(CATALOG.llms, CATALOG.gpus, CATALOG.pairings)
ROWS = read_published(models_db_dir() / "published").sound()


@pytest.mark.parametrize(
    ("predict", "rows", "most"),
    [
        (decode.predict, 112, 0.045),
        (decode_datasheet.predict, 112, 0.20),
        (serving.predict, 160, 0.060),
        (serving_ttft.predict, 160, 0.20),
        (datasheet.predict, 402, 0.15),
        (datasheet_family.predict, 402, 0.08),
    ],
    ids=lambda value: getattr(value, "__module__", "").rpartition(".")[2] or None,
)
def test_a_mode_stays_within_its_bar(predict: Callable[..., list], rows: int, most: float) -> None:  # type: ignore[type-arg]
    found = score(predict(ROWS, SPECS))
    assert found.n == rows
    assert found.mape <= most
    assert 0.85 <= found.coverage <= 0.96


def test_speedups_fall_on_the_right_side_of_one() -> None:
    across, family = (score(m.predict(ROWS, SPECS)) for m in (datasheet, datasheet_family))
    assert across.sign_accuracy is not None
    assert across.sign_accuracy > 0.96
    assert family.sign_accuracy is not None
    assert family.sign_accuracy > 0.97


def test_what_a_row_measured_does_not_enter_its_own_prediction() -> None:
    # all rows of the pair are left out together, so twice the latency changes none of them
    doubled = tuple(
        replace(row, tpot_ms=2 * row.tpot_ms)
        if row.tpot_ms and row.model == "Qwen/Qwen3-32B" and row.gpu == "h100_sxm"
        else row
        for row in ROWS.serving_baseline
    )
    changed = PublishedRows(serving_baseline=doubled)
    before, after = (
        [s.predicted for s in serving.predict(rows, SPECS) if "Qwen3-32B" in s.label]
        for rows in (ROWS, changed)
    )
    assert after == pytest.approx(before, rel=5e-3)


def test_a_source_left_out_leaves_its_own_speedups_without_influence() -> None:
    spoiled = tuple(
        replace(row, measured_speedup=3 * row.measured_speedup)
        if row.source_key == "specbundle" and row.measured_speedup
        else row
        for row in ROWS.speedup
    )
    before, after = (
        [s.predicted for s in datasheet.predict(rows, SPECS) if s.source == "specbundle"]
        for rows in (ROWS, replace(ROWS, speedup=spoiled))
    )
    assert after == pytest.approx(before)


def test_one_row_alone_is_predicted_from_the_typical_factors() -> None:
    single = PublishedRows(serving_baseline=ROWS.serving_baseline[-1:])
    chosen = [r for r in ROWS.serving_baseline if r.engine == "vllm"][:1]
    found = serving.predict(replace(single, serving_baseline=tuple(chosen)), SPECS)
    assert len(found) == 1
    assert abs(found[0].relative_error) < 0.5
    assert found[0].low < found[0].predicted < found[0].high


def test_rows_of_unknown_llms_or_gpus_are_left_out_not_guessed() -> None:
    rows = tuple(replace(row, model="Unheard-of-7B") for row in ROWS.baseline_decode[:3])
    gpus = tuple(replace(row, gpu="Quantum 9000") for row in ROWS.baseline_decode[:3])
    assert decode.predict(PublishedRows(baseline_decode=rows + gpus), SPECS) == ()
    assert serving.predict(PublishedRows(), Specs()) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Llama3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),
        ("LLaMA-3-70B", "meta-llama/Llama-3.1-70B-Instruct"),
        ("Llama2-7B-32K", "meta-llama/Llama-2-7b-chat-hf"),
        ("LLaMA2-Chat 13B", "meta-llama/Llama-2-13b-chat-hf"),
        ("Qwen-2.5-32B", "Qwen/Qwen2.5-32B-Instruct"),
        ("Mistral-7B-v0.3", "mistralai/Mistral-7B-Instruct-v0.3"),
    ],
)
def test_published_names_find_their_llm(name: str, meant: str) -> None:
    llm = SPECS.llm(name)
    assert llm is not None
    assert llm.id == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("H100 (inferred)", "h100-sxm-80gb"),
        ("A100-80GB (330 W limit)", "a100-sxm-80gb"),
        ("b200_sxm", "b200-sxm-180gb"),
        ("RTX 6000 Ada", "rtx-6000-ada"),
    ],
)
def test_published_names_find_their_gpu(name: str, meant: str) -> None:
    gpu = SPECS.gpu(name)
    assert gpu is not None
    assert gpu.id == meant


def test_a_table_that_names_no_gpu_gets_none() -> None:
    assert SPECS.gpu("not stated for this table") is None
    assert SPECS.llm("T5-XXL 11B") is None


def test_number_formats_are_read_as_written() -> None:
    llm = CATALOG.llm("meta-llama/Llama-3.1-8B-Instruct")
    sizes = {text: bytes_per_param(text, llm) for text in ("nvfp4", "fp8_block", "Q4_K_M", "F16")}
    assert sizes == {"nvfp4": 0.5625, "fp8_block": 1.0, "Q4_K_M": 0.60625, "F16": 2.0}
    assert bytes_per_param("", llm) == 2.0
    assert plain_name("meta-llama/Llama-3.1-8B-Instruct") == "llama318b"
