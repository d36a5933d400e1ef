"""Ways to draft without a draft are asked for by name, as drafts and as methods."""

from __future__ import annotations

from typing import Any

import pytest

import capplan
from capplan.errors import RequestError, UnknownIdError
from capplan.schema.pairing import Method
from capplan.schema.plan import Plan, PlanRequest

QWEN = "Qwen/Qwen3-32B"


def plan(**fields: Any) -> Plan:
    asked = PlanRequest(
        targets=(QWEN,), budget_usd_per_month=20_000, gpus=("h100-sxm-80gb",), **fields
    )
    return capplan.recommend(asked)


@pytest.mark.parametrize("name", ["ngram", "suffix", "NGRAM", " suffix "])
def test_a_lookup_is_a_draft_by_the_name_that_options_bear(name: str) -> None:
    found = plan(drafts=(name,), assumed_acceptance=0.5)
    wanted = name.strip().lower()
    assert {option.draft for option in found.options} == {None, wanted}
    assert found.request.drafts == (wanted,)
    again = plan(drafts=(wanted,), assumed_acceptance=0.5)
    assert again.options == found.options


@pytest.mark.parametrize("method", [Method.NGRAM, Method.SUFFIX])
def test_by_draft_and_by_method_are_the_same_plan(method: Method) -> None:
    by_draft = plan(drafts=(method.value,), assumed_acceptance=0.5)
    by_method = plan(methods=(method,), assumed_acceptance=0.5)
    assert by_draft.options == by_method.options


def test_a_lookup_beside_a_draft_model_gives_both() -> None:
    found = plan(drafts=("ngram", "Qwen/Qwen3-0.6B"), assumed_acceptance=0.6)
    assert {option.draft for option in found.options} == {None, "ngram", "Qwen/Qwen3-0.6B"}


@pytest.mark.parametrize("name", ["ngram", "suffix"])
def test_a_lookup_of_unknown_acceptance_is_a_rejection_that_says_how_to_state_it(
    name: str,
) -> None:
    rejected = {r.reason: r for r in plan(drafts=(name,)).rejections}["acceptance_unknown"]
    assert name in rejected.example
    assert f"--method {name} --assume-acceptance" in rejected.remedy


@pytest.mark.parametrize("name", ["mtp", "eagle3", "draft_model"])
def test_a_way_whose_drafts_have_names_is_refused_as_a_draft(name: str) -> None:
    with pytest.raises(RequestError, match="is a way to draft") as caught:
        plan(drafts=(name,))
    assert f"--method {name}" in caught.value.remedy


def test_a_name_that_nobody_knows_is_still_unknown() -> None:
    with pytest.raises(UnknownIdError):
        plan(drafts=("qwen9",))
