"""An option of a plan at every length: from the profile or the catalogue that it was made from."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from capplan.api.plans import plan_inputs
from capplan.errors import RequestError
from capplan.planning.inputs import PlanInputs
from capplan.planning.length_grid import evaluate_option
from capplan.planning.planner import search
from capplan.profiles.store import StoredProfile
from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption, PlanRequest, Tier

Planned = tuple[PlanInputs, PlanRequest, PlanOption]


def profiled(synthetic: Any) -> Planned:
    """A drafting option on the profiled machine; another profile of the target stands before."""
    lookup, pair = synthetic.profile(draft="ngram"), synthetic.profile()
    stored = [StoredProfile(one, arrays, Path("p.json")) for one, arrays in (lookup, pair)]
    asked = PlanRequest.model_validate(
        {
            "targets": ("org/target",),
            "budget_usd_per_month": 100,
            "gpu_price_usd_per_hour": {"profile": 0.1},
        }
    )
    request, inputs = plan_inputs(asked, stored)
    options = search(inputs, request).options
    return inputs, request, next(o for o in options if o.method is Method.DRAFT_MODEL)


@cache
def rented() -> Planned:
    asked = PlanRequest.model_validate(
        {
            "targets": ("Qwen/Qwen3-8B",),
            "budget_usd_per_month": 1e6,
            "drafts": ("Qwen/Qwen3-0.6B",),
            "assumed_acceptance": 0.8,
            "gpus": ("l40s",),
            "gpu_price_usd_per_hour": {"l40s": 1.0},
            "tensor_parallel": (1,),
        }
    )
    request, inputs = plan_inputs(asked)
    options = search(inputs, request).options
    return inputs, request, next(o for o in options if o.method is Method.DRAFT_MODEL)


def test_the_profile_of_the_pair_is_taken_not_that_of_another_way_to_draft(synthetic: Any) -> None:
    inputs, request, option = profiled(synthetic)
    found = evaluate_option(option, inputs, request)
    assert found.tier is Tier.PROFILED
    assert found.machine is not None
    assert found.machine.evidence.method is Method.DRAFT_MODEL


def test_a_profile_that_was_not_given_is_asked_for(synthetic: Any) -> None:
    inputs, request, option = profiled(synthetic)
    elsewhere = option.model_copy(update={"gpu": "profile:Other CPU", "gpu_name": "Other CPU"})
    with pytest.raises(RequestError, match="rests on a profile of Other CPU") as caught:
        evaluate_option(elsewhere, inputs, request)
    assert "--profile FILE" in caught.value.remedy


def test_a_gpu_that_is_in_no_catalogue_is_named() -> None:
    inputs, request, option = rented()
    with pytest.raises(RequestError, match="'l40s' is in no catalogue"):
        evaluate_option(option, replace(inputs, gpus={}), request)


def test_acceptance_that_nothing_at_hand_tells_is_asked_for() -> None:
    inputs, request, option = rented()
    assert evaluate_option(option, inputs, request).tier is Tier.DATASHEET
    silent = request.model_copy(update={"assumed_acceptance": None})
    with pytest.raises(RequestError, match=r"how often Qwen/Qwen3-8B accepts Qwen/Qwen3-0\.6B"):
        evaluate_option(option, inputs, silent)
