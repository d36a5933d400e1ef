"""The benchmark of three tiers, on tiny LLMs: what it foretells exactly, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from capplan.estimate.multilevel import NOT_DEPLOYABLE  # noqa: E402
from profiler.backends.speculative_three_runs import WayCounts  # noqa: E402

Scripts = Callable[[str], ModuleType]
SETTINGS = ((2, 1), (5, 2))


@pytest.fixture(scope="module")
def compared(benchmark_script: Scripts) -> ModuleType:
    return benchmark_script("three_tiers_compared")


@pytest.fixture(scope="module")
def llms_of(benchmark_script: Scripts) -> ModuleType:
    return benchmark_script("three_tiers_llms")


@pytest.fixture(scope="module")
def outcome(
    benchmark_script: Scripts,
    compared: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
    tiny_llms: Any,
) -> Any:
    folder = tmp_path_factory.mktemp("tiers")
    target = tiny_llms.save_target(folder / "target", layers=4)
    middle = tiny_llms.save_draft(target, folder / "middle")
    small = tiny_llms.save_draft(middle, folder / "small")
    llms = [tiny_llms.load(one) for one in (target, middle, small)]
    runs = benchmark_script("three_tiers_runs")
    measured = runs.decode_all(llms, SETTINGS, tiny_llms.prompts(6), 24)
    return compared.outcome_of(llms, SETTINGS, measured, "tiny")


def test_the_trace_foretells_the_targets_tokens_a_round_exactly(outcome: Any) -> None:
    for row in outcome.rows:
        assert row.outer_tokens[0] == pytest.approx(row.outer_tokens[1], rel=1e-9)
        assert 1.0 < row.outer_tokens[1] < row.num_speculative_tokens + 1


def test_texts_are_identical_and_tokens_of_the_pair_are_bounded(outcome: Any) -> None:
    assert outcome.identical_texts
    for row in outcome.rows:
        assert 1.0 <= row.inner_tokens[1] <= row.inner_num_speculative_tokens + 1
        # a round cut to what is wanted writes no more than a full one
        assert row.inner_tokens_cut <= row.inner_tokens[0]


def test_every_fact_is_printed_and_the_first_is_that_nothing_can_be_deployed(
    benchmark_script: Scripts, outcome: Any
) -> None:
    text = benchmark_script("three_tiers").text_of(outcome)
    assert text.startswith(NOT_DEPLOYABLE)
    assert text.count("| 2, 1 |") == text.count("| 5, 2 |") == 1
    stored = json.loads(json.dumps(asdict(outcome)))
    assert stored["note"] == NOT_DEPLOYABLE
    assert [row["num_speculative_tokens"] for row in stored["rows"]] == [2, 5]


def test_a_gain_by_hand(compared: ModuleType) -> None:
    three, other = (
        WayCounts((), sum(seconds), [10, 10], seconds) for seconds in ([1.0, 1.0], [2.0, 2.0])
    )
    assert compared.gains(three, other) == pytest.approx((1.0, 1.0, 1.0))


def test_layers_that_change_nothing_are_the_idlest(
    llms_of: ModuleType, tmp_path: Path, tiny_llms: Any
) -> None:
    llm = tiny_llms.load(tiny_llms.save_target(tmp_path / "target", layers=6))
    with torch.no_grad():
        for place in (1, 3):
            layer = llm.model.model.layers[place]
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    assert llms_of.idlest_layers(llm, [3, 1, 4, 1, 5], 2) == [1, 3]


def test_a_target_without_some_layers_has_the_others_in_order(
    llms_of: ModuleType, tmp_path: Path, tiny_llms: Any
) -> None:
    from safetensors.torch import load_file

    target = tiny_llms.save_target(tmp_path / "target", layers=4)
    whole = load_file(target / "model.safetensors")
    short = load_file(llms_of.without_layers(target, [1], tmp_path / "layers.safetensors"))
    name = "self_attn.q_proj.weight"
    for place, number in enumerate((0, 2, 3)):
        ours = short[f"model.layers.{place}.{name}"]
        assert np.array_equal(ours, whole[f"model.layers.{number}.{name}"])
    assert len(short) == 3 * sum(key.startswith("model.layers.0.") for key in whole)
