"""Ways to draft as they are listed, what blocks them, and heads counted as LLMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capplan.api.plans import plan_inputs
from capplan.errors import UnknownIdError
from capplan.planning.drafting import Drafting, draftings_for
from capplan.planning.heads import built_in_spec, head_spec
from capplan.planning.inputs import PlanInputs, usable_prices
from capplan.profiles.store import StoredProfile
from capplan.schema.cache import CacheLayers
from capplan.schema.llm import HeadFacts, LlmSpec
from capplan.schema.pairing import Method, Pairing
from capplan.schema.plan import PlanRequest
from capplan.schema.provenance import Kind, Source

SOURCE = Source(kind=Kind.CITED, reference="made for a test", date="2026-01-02")
TARGET_ID = "org/target"


def request(**fields: Any) -> PlanRequest:
    return PlanRequest.model_validate(
        {"targets": (TARGET_ID,), "budget_usd_per_month": 1e6, **fields}
    )


def stored(synthetic: Any, **of_profile: Any) -> StoredProfile:
    profile, arrays = synthetic.profile(**of_profile)
    return StoredProfile(profile, arrays, Path("p.json"))


def inputs_with(*profiles: StoredProfile, **fields: Any) -> PlanInputs:
    return plan_inputs(request(**fields), profiles)[1]


def listed(
    target: LlmSpec,
    pairings: Sequence[Pairing] = (),
    llms: Sequence[LlmSpec] = (),
    inputs: PlanInputs | None = None,
    **fields: Any,
) -> dict[str | None, Drafting]:
    """List the ways to draft; by the draft's id."""
    evidence = [machine.evidence for machine in inputs.machines] if inputs is not None else []
    known = {llm.id: llm for llm in llms}
    found = draftings_for(target, request(**fields), pairings, (), known, evidence)
    return {drafting.draft_id: drafting for drafting in found}


def pairing(draft: str, method: Method = Method.EAGLE3, **fields: Any) -> Pairing:
    return Pairing(target=TARGET_ID, draft=draft, method=method, source=SOURCE, **fields)


def test_of_two_profiles_of_a_pair_the_first_with_acceptance_counts(synthetic: Any) -> None:
    good = stored(synthetic, id="p-good", probability=0.9)
    other = stored(synthetic, id="p-other", probability=0.5)
    silent = stored(synthetic, id="p-silent", acceptance=())
    for order, expected in (
        ((good, other), "profile p-good"),
        ((other, good), "profile p-other"),
        ((silent, good), "profile p-good"),
        ((good, silent), "profile p-good"),
    ):
        drafting = listed(synthetic.llm(), inputs=inputs_with(*order))["org/draft"]
        assert drafting.acceptance is not None
        assert drafting.acceptance.source.reference == expected


def test_a_draft_that_was_never_published_is_blocked_whatever_is_assumed(synthetic: Any) -> None:
    rows = [pairing("org/never", exists=False, draft_params=1e8), pairing("org/unsized")]
    found = listed(synthetic.llm(), rows, assumed_acceptance=0.8)
    never, unsized = found["org/never"].blocked, found["org/unsized"].blocked
    assert never is not None
    assert (never.reason, never.text) == ("draft_unknown", "org/never was never published")
    assert unsized is not None
    assert "the head's size is not published" in unsized.text


def test_a_head_asked_for_by_name_is_open_once_its_acceptance_is_stated(synthetic: Any) -> None:
    facts = HeadFacts(method=Method.EAGLE3, target_hidden=2048)
    head = synthetic.llm("./head", head=facts, layers=1)
    stated = listed(synthetic.llm(), (), [head], drafts=("./head",), assumed_acceptance=0.8)
    assert stated["./head"].blocked is None
    silent = listed(synthetic.llm(), (), [head], drafts=("./head",))["./head"].blocked
    assert silent is not None
    assert silent.reason == "acceptance_unknown"
    assert "read the engine's own counters" in silent.remedy


def test_an_engine_that_compares_tokens_blocks_special_ones_that_differ(synthetic: Any) -> None:
    target = synthetic.llm(tokenizer_family="qwen3")
    draft = synthetic.llm("org/older", tokenizer_family="qwen2.5")
    asked: dict[str, Any] = {"drafts": (draft.id,), "assumed_acceptance": 0.8}
    blocked = listed(target, (), [draft], engine="sglang", **asked)[draft.id].blocked
    assert blocked is not None
    assert blocked.reason == "vocabulary"
    assert "sglang: STANDALONE compares every token" in blocked.text
    assert "4 special tokens differ" in blocked.text
    # vLLM compares sizes alone; of an engine without a rule nothing is known
    for engine in ("vllm", "own-engine"):
        assert listed(target, (), [draft], engine=engine, **asked)[draft.id].blocked is None


def mtp_target(synthetic: Any, **facts: Any) -> LlmSpec:
    cache = CacheLayers.parse("16 full 8x256 + 16 window 8x256 last 1024")
    given = {"mtp_layers": 2, "mtp_params": 1e8, "cache": cache, "weight_bytes": 1.0e9}
    spec: LlmSpec = synthetic.llm(**{**given, **facts})
    return spec


def test_mtp_layers_keep_what_as_many_whole_layers_of_the_target_do(synthetic: Any) -> None:
    # a billion parameters in a billion bytes (fp8): a tenth of both
    found = built_in_spec(mtp_target(synthetic))
    assert found is not None
    assert found.id == "org/target (MTP layers)"
    assert (found.layers, found.params_total, found.weight_bytes) == (2, 1e8, 1e8)
    # 2 layers x 8 heads x 256 elements x 2 bytes
    assert found.kv_bytes_per_token == 8192
    bare = built_in_spec(mtp_target(synthetic, cache=()))
    assert bare is not None
    assert bare.kv_bytes_per_token is None


def test_mtp_layers_that_are_not_there_or_not_counted_are_no_draft(synthetic: Any) -> None:
    assert built_in_spec(mtp_target(synthetic, mtp_layers=0)) is None
    assert built_in_spec(mtp_target(synthetic, mtp_params=None)) is None


def test_a_head_keeps_a_layer_of_the_target_however_its_layers_are_known(synthetic: Any) -> None:
    row = pairing("org/head", Method.EAGLE, draft_params=1e8)
    by_layers = head_spec(mtp_target(synthetic), row)
    assert by_layers is not None
    assert by_layers.kv_bytes_per_token == 4096
    # 65,536 bytes over 16 layers
    flat = head_spec(synthetic.llm(), row)
    assert flat is not None
    assert flat.kv_bytes_per_token == 4096
    unknown = head_spec(synthetic.llm(kv_bytes_per_token=None), row)
    assert unknown is not None
    assert unknown.kv_bytes_per_token is None
    assert head_spec(synthetic.llm(), pairing("org/head")) is None


def test_a_target_is_found_in_its_own_profile_then_in_the_catalogue(synthetic: Any) -> None:
    inputs = inputs_with(stored(synthetic))
    assert inputs.target(TARGET_ID).params_total == 1e9
    assert inputs.target("Qwen/Qwen3-8B").id == "Qwen/Qwen3-8B"
    with pytest.raises(UnknownIdError, match="Unknown target 'org/nobody'"):
        inputs.target("org/nobody")


def test_a_price_of_a_gpu_that_nobody_knows_is_refused(synthetic: Any) -> None:
    inputs = replace(inputs_with(stored(synthetic)), prices=())
    asked = request(gpu_price_usd_per_hour={"z9000": 1.0, "profile": 2.0})
    with pytest.raises(UnknownIdError, match="--gpu-price names an unknown GPU 'z9000'"):
        usable_prices(inputs, asked)
    # what the profiled machine costs is no offer of the catalogue's
    assert usable_prices(inputs, request(gpu_price_usd_per_hour={"profile": 2.0})) == []
