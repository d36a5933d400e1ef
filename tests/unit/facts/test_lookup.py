"""Ids are found by what people type; nothing is guessed."""

from __future__ import annotations

import pytest

from capplan.errors import UnknownIdError
from capplan.facts.catalog import load_catalog
from capplan.facts.gpu_names import gpu_id_from_device_name
from capplan.facts.lookup import resolve


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
        ("qwen/qwen3-32b", "Qwen/Qwen3-32B"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
        (" Qwen3-8B ", "Qwen/Qwen3-8B"),
        ("Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B"),
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
    ],
)
def test_an_unambiguous_name_finds_its_llm(typed: str, found: str) -> None:
    assert load_catalog().llm(typed).id == found


@pytest.mark.parametrize(
    ("typed", "found"),
    [("H200", "h200-sxm-141gb"), ("l4", "l4"), ("L40S", "l40s"), ("mi300x", "mi300x")],
)
def test_an_unambiguous_name_finds_its_gpu(typed: str, found: str) -> None:
    assert load_catalog().gpu(typed).id == found


def test_an_ambiguous_name_lists_what_it_may_mean() -> None:
    with pytest.raises(UnknownIdError) as caught:
        load_catalog().gpu("h100")
    assert "ambiguous: 3 ids" in caught.value.message
    assert "h100-sxm-80gb" in caught.value.remedy


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("qwen3-23b", "Qwen/Qwen3-32B"), ("Llama-3.1-8B-Instrct", "Llama-3.1-8B-Instruct")],
)
def test_a_misspelt_llm_offers_the_nearest(typed: str, offered: str) -> None:
    with pytest.raises(UnknownIdError) as caught:
        load_catalog().llm(typed)
    assert "Did you mean" in caught.value.remedy
    assert offered in caught.value.remedy


def test_a_name_like_nothing_offers_nothing() -> None:
    with pytest.raises(UnknownIdError) as caught:
        resolve("zzzzzzzz", ["abc", "def"], "thing")
    assert caught.value.message == "No thing 'zzzzzzzz' in the catalogue."
    assert "Did you mean" not in caught.value.remedy


def test_a_target_known_only_by_its_heads_is_a_target_but_no_llm() -> None:
    catalog = load_catalog()
    assert catalog.target_id("ling-flash-2.0") == "inclusionAI/Ling-flash-2.0"
    with pytest.raises(UnknownIdError):
        catalog.llm("inclusionAI/Ling-flash-2.0")


def test_a_pair_without_figures_has_none() -> None:
    assert load_catalog().acceptance_for("Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B") == ()
    assert load_catalog().pairings_for("no/such") == ()


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA B200", "b200-sxm-180gb"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_a_drivers_name_finds_the_exact_board(name: str, gpu_id: str) -> None:
    assert gpu_id_from_device_name(name) == gpu_id


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA L40",
        "NVIDIA L20",
        "NVIDIA A10",
        "NVIDIA A800-SXM4-80GB",
        "NVIDIA H200 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090",
        "Tesla V100-PCIE-16GB",
        "NVIDIA",
        "",
    ],
)
def test_a_relative_of_a_known_board_is_not_taken_for_it(name: str) -> None:
    assert gpu_id_from_device_name(name) is None


def test_every_device_name_leads_to_a_gpu_of_the_catalogue() -> None:
    from capplan.facts import gpu_names

    assert set(gpu_names._ids_by_name().values()) == {gpu.id for gpu in load_catalog().gpus}
