"""Ids are found by what people type; nothing is guessed."""

from __future__ import annotations

import pytest

from capplan.errors import UnknownIdError
from capplan.facts.catalog import load_catalog
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
        # the names of Llama 3.1 until it was renamed
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Meta-Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"),
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
    ("known", "kind", "helps"),
    [
        (["aws", "gcp"], "provider", "Known: aws, gcp."),
        ([f"llm-{i}" for i in range(99)], "LLM", "capplan facts models"),
        ([f"gpu-{i}" for i in range(99)], "GPU", "capplan facts gpus"),
        ([f"api-{i}" for i in range(99)], "API model", "state its price"),
    ],
)
def test_where_nothing_is_near_the_remedy_says_where_to_look(
    known: list[str], kind: str, helps: str
) -> None:
    with pytest.raises(UnknownIdError) as caught:
        resolve("zzzzzzzz", known, kind)
    assert helps in caught.value.remedy
