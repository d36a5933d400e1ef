"""One engine on one GPU of 80 GiB, in figures worked out by hand: verdict, notes, remedies."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.errors import RequestError
from capplan.facts.catalog import load_catalog
from capplan.facts.engines import load_engine
from capplan.planning.memory_use import Subject, memory_use
from capplan.schema.cache import CacheLayers
from capplan.schema.llm import LlmSpec
from capplan.schema.memory import MemoryRequest, MemoryUse
from capplan.schema.pairing import Method
from capplan.schema.provenance import Kind, Source
from capplan.units import BYTES_PER_GIB

GIB = BYTES_PER_GIB
GPU = load_catalog().gpu("h100-sxm-80gb")
ENGINE = load_engine("vllm")
OLD = "0.11"
"""A version that takes 0.9 of the GPU and sets nothing aside for CUDA graphs."""
MEASURED = {
    "gpu_memory_bytes": 80 * GIB,
    "weight_bytes": 60 * GIB,
    "activation_bytes": 4 * GIB,
    "non_torch_bytes": 1 * GIB,
    "engine_version": OLD,
}
"""0.9 of 80 GiB are 72, less 60, 4 and 1: a pool of 7 GiB."""


def llm(name: str = "org/target", cache: str = "32 full 8x256", **facts: Any) -> LlmSpec:
    """An LLM of 131,072 KV bytes a token: 32 layers x 8 heads x 256 elements x 2 bytes."""
    size = float(facts.pop("weight_bytes", 60 * GIB))
    given: dict[str, Any] = {
        "id": name,
        "family": "toy",
        "params_total": size / 2,
        "params_active": size / 2,
        "weight_bytes": size,
        "weight_bytes_active": size,
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "vocab_size": 32_000,
        "max_context": 131_072,
        "dtype": "bfloat16",
        "cache": CacheLayers.parse(cache) if cache else (),
        "source": Source(kind=Kind.DERIVED, reference="made for a test"),
    }
    return LlmSpec(**{**given, **facts})


DRAFT = llm("org/draft", "8 full 8x256", weight_bytes=4 * GIB, layers=8)
"""A quarter of the target's layers, and of its KV bytes."""


def use(target: LlmSpec | None = None, draft: LlmSpec | None = None, **asked: Any) -> MemoryUse:
    target = target if target is not None else llm()
    fields = {"target": target.id, "gpu": GPU.id, "max_model_len": 16_000} | MEASURED | asked
    if draft is not None:
        drafts = {"draft": draft.id, "method": Method.DRAFT_MODEL, "num_speculative_tokens": 3}
        fields = drafts | fields
    request = MemoryRequest.model_validate(fields)
    return memory_use(request, Subject(target, draft, GPU, ENGINE))


def estimated(**asked: Any) -> dict[str, Any]:
    """What is asked where nothing but the card's memory was measured."""
    nothing = dict.fromkeys(("weight_bytes", "activation_bytes", "non_torch_bytes"))
    return {**nothing, **asked}


def test_a_pool_is_what_weights_and_run_time_leave_of_the_engines_share() -> None:
    found = use()
    assert found.usable_bytes == pytest.approx(72 * GIB)
    assert found.kv_pool_bytes == pytest.approx(7 * GIB)
    # 16,000 tokens are 1,000 blocks of 2 MiB
    assert found.request_bytes == 1000 * 2 * 2**20
    assert found.max_concurrency == pytest.approx(7 * 1024 / 2000)
    assert found.fits
    assert found.lacking_bytes == 0
    assert found.verdict == "fits, with 5.05 GiB a GPU beyond one request of 16,000 tokens"
    assert (found.remedies, found.notes) == ((), ())


def test_requests_of_the_workload_are_counted_with_the_tokens_drafted_ahead() -> None:
    found = use(draft=DRAFT, prompt_tokens=1000, output_tokens=200)
    assert found.workload_tokens == 1000 + 200 + 3 + 1
    # 76 blocks of 16 tokens, 2 MiB of the target and 0.5 MiB of the draft
    assert found.workload_concurrency == pytest.approx(7 * 1024 / (76 * 2.5))
    assert use().workload_tokens is None


def test_a_request_longer_than_the_pool_is_told_what_lacks_and_each_change_that_helps() -> None:
    found = use(max_model_len=65_536)
    assert not found.fits
    assert found.lacking_bytes == pytest.approx(1 * GIB)
    assert found.verdict == (
        "does not fit by 1.00 GiB a GPU: one request of 65,536 tokens needs 8.00 GiB of KV, "
        "7.00 GiB are left"
    )
    # 7 GiB are 57,344 tokens; 73 of 80 GiB are 0.9125
    assert found.remedies == (
        "--max-model-len 57344",
        "--utilisation 0.92",
        "--kv-dtype fp8",
        "--tp 2",
    )


def test_of_fp8_there_is_no_half_and_beyond_97_per_cent_no_share() -> None:
    # 600,000 tokens of 24,576 bytes are 13.7 GiB: with 65 GiB of the rest 98.4 % of the card
    long = llm(max_context=10**6, heads=3, cache="32 full 3x256")
    found = use(long, max_model_len=600_000, kv_dtype="fp8")
    assert not found.fits
    assert all(not remedy.startswith(("--kv-dtype", "--util")) for remedy in found.remedies)
    # three heads are shared by 1 GPU alone among the sizes tried
    assert all(not remedy.startswith("--tp") for remedy in found.remedies)


def test_weights_that_are_too_large_alone_are_said_to_be() -> None:
    found = use(weight_bytes=75 * GIB)
    assert found.verdict == "does not fit: weights alone are 3.00 GiB a GPU too large"
    assert found.kv_pool_bytes == pytest.approx(-8 * GIB)
    assert found.remedies == ("--tp 2",)


def test_run_time_that_leaves_no_room_is_told_from_weights_that_do() -> None:
    found = use(weight_bytes=68 * GIB)
    assert found.verdict == (
        "does not fit: weights and run time leave -1.00 GiB a GPU for KV, "
        "one request of 16,000 tokens needs 1.95"
    )
    # 72 + 1 + 1.953 of 80 GiB are 0.9369
    assert found.remedies == ("--utilisation 0.94", "--tp 2")


def test_an_llm_that_no_group_tried_holds_has_no_remedy() -> None:
    found = use(llm(weight_bytes=5000 * GIB), **estimated())
    assert not found.fits
    assert found.remedies == ()


def test_a_pool_asked_for_outright_is_taken_and_what_it_leaves_too_little_of_is_said() -> None:
    taken = use(kv_cache_memory_bytes=10 * GIB)
    assert taken.fits
    assert taken.kv_pool_bytes == 10 * GIB
    assert taken.notes == ("The pool was asked for outright: the utilisation plays no part.",)
    # 80 - 60 - 4 - 1 are 15 GiB
    most = use(kv_cache_memory_bytes=15 * GIB)
    assert most.fits
    over = use(kv_cache_memory_bytes=20 * GIB)
    assert not over.fits
    assert over.lacking_bytes == pytest.approx(5 * GIB)
    assert over.verdict == (
        "does not fit by 5.00 GiB a GPU: the pool of 20.00 GiB asked for leaves too little for "
        "weights and run time"
    )
    assert not any("utilisation" in remedy for remedy in over.remedies)


def test_fewer_sequences_are_named_only_where_they_make_room() -> None:
    """The sampler's trial run takes 38.19 bytes a sequence and vocabulary entry."""
    wide = llm(vocab_size=400_000, weight_bytes=56 * GIB)
    many = use(wide, **estimated(max_num_seqs=1024))
    # 1,024 sequences: 14.6 GiB, 256 of them: 3.6 GiB
    assert many.activation_bytes == pytest.approx(1024 * 400_000 * 38.19, rel=0.02)
    assert not many.fits
    assert "--max-num-seqs 256" in many.remedies
    assert use(wide, **estimated(max_num_seqs=256)).fits
    # measured activation says nothing of fewer sequences
    assert not any("num-seqs" in text for text in use(max_model_len=65_536).remedies)


def test_without_its_draft_an_engine_may_fit_and_measured_weights_are_estimated_again() -> None:
    target = llm(weight_bytes=60 * GIB)
    draft = llm("org/draft", "8 full 8x256", weight_bytes=8 * GIB, layers=8)
    fields = estimated(activation_bytes=4 * GIB, non_torch_bytes=GIB, kv_dtype="fp8")
    found = use(target, draft, **fields)
    # 72 - 60 - 8 - 5 leave -1 GiB; without the draft 7
    assert found.kv_pool_bytes == pytest.approx(-1 * GIB)
    assert "no draft" in found.remedies
    measured = use(target, draft, **{**fields, "weight_bytes": 68 * GIB})
    assert "no draft" in measured.remedies


def test_a_printed_pool_is_held_against_the_parts() -> None:
    assert use(kv_pool_bytes=7 * GIB).notes == ()
    (note,) = use(kv_pool_bytes=12 * GIB).notes
    # 60 + 4 + 1 + 12 of 80 are 0.9625
    assert note == (
        "A KV pool of 12.00 GiB does not follow from a utilisation of 0.90: the parts imply "
        "0.96, at 0.90 7.00 GiB would be left."
    )


def test_requests_beyond_the_checkpoints_own_limit_are_noted() -> None:
    (note,) = use(llm(max_context=8192)).notes
    assert note.startswith("The checkpoint's own limit is 8,192 tokens")
    assert use(llm(max_context=16_000)).notes == ()


def test_graphs_that_a_version_does_not_count_come_on_top() -> None:
    (note,) = use(cuda_graph_bytes=2 * GIB).notes
    assert note.startswith("CUDA graphs (2.00 GiB) come on top of the utilisation")
    counted = use(cuda_graph_bytes=2 * GIB, engine_version="0.33")
    assert counted.notes == ()
    assert counted.cuda_graph_bytes == 2 * GIB


def test_a_draft_that_a_version_does_not_count_lowers_the_share_that_is_safe() -> None:
    fields = estimated(activation_bytes=4 * GIB, non_torch_bytes=GIB, engine_version="0.8")
    (note,) = use(None, DRAFT, **fields).notes
    # at u the pool is 80u - 65 GiB, the draft's KV a quarter of that, its weights 4 GiB:
    # 65 + 1.25 (80u - 65) + 4 = 0.98 * 80 at u = 0.9065, and 0.91 would be too much
    assert "its weights (4.00 GiB)" in note
    assert "--utilisation 0.90 at most" in note


def test_a_draft_that_is_not_split_is_noted_where_the_target_is() -> None:
    (note,) = use(None, DRAFT, **estimated(tensor_parallel=2, draft_tensor_parallel=1)).notes
    assert note.startswith("The draft lies on 1 of 2 GPUs: the first GPU holds 4.00 GiB more")
    for same in (2, None):
        fields = estimated(tensor_parallel=2, draft_tensor_parallel=same)
        assert use(None, DRAFT, **fields).notes == ()


def test_layers_of_two_kinds_are_printed_otherwise_by_other_versions() -> None:
    mixed = llm(cache="16 full 8x256 + 16 window 8x256 last 1024")
    (old,) = use(mixed).notes
    (new,) = use(mixed, engine_version="0.33").notes
    assert "2 groups, among which this version shares out the blocks" in old
    assert "vLLM 0.10 to 0.20 print" in new
    # the older one prints blocks of 1 MiB for 16 tokens shared out to both kinds, the newer one
    # the requests at once times their length
    capacity = use(mixed).max_concurrency * 16_000
    assert int(old.split()[-2].replace(",", "")) == pytest.approx(capacity, abs=1)
    pool = use(mixed, engine_version="0.33").kv_pool_bytes
    assert f"print {int(pool / 2**20) // 2 * 16:,} tokens" in new
    # a pool that is not there has no size to compare
    assert use(mixed, weight_bytes=75 * GIB).notes == ()


def test_more_sequences_than_blocks_for_their_states_are_refused_by_the_engine() -> None:
    states = llm(cache="8 full 8x256 + 24 state 4194304B", weight_bytes=60 * GIB)
    found = use(states, max_num_seqs=1024)
    note = next(note for note in found.notes if "block for its state" in note)
    blocks = int(note.split("the pool has ")[1].split(":")[0].replace(",", ""))
    assert 0 < blocks < 1024
    assert f"Add --max-num-seqs {blocks} or fewer." in note
    fewer = use(states, max_num_seqs=blocks)
    assert not any("block for its state" in note for note in fewer.notes)


@pytest.mark.parametrize(
    ("target", "draft", "asked", "message"),
    [
        (llm(heads=24), None, {"tensor_parallel": 16}, "24 query heads, which 16 GPUs"),
        (llm(), llm("org/d", heads=14), {"tensor_parallel": 4}, "org/d has 14 query heads"),
        (llm(cache=""), None, {}, "org/target: what its layers keep of a request is not known"),
        (llm(), llm("org/d", cache=""), {}, "org/d: what its layers keep"),
        (llm(max_context=None), None, {"max_model_len": None}, "longest context of org/target"),
        (llm(), None, {"engine_version": "0.99"}, "How vllm 0.99 allots memory is not known"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(
    target: LlmSpec, draft: LlmSpec | None, asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        use(target, draft, **asked)


def test_the_longest_context_of_the_checkpoint_is_the_default() -> None:
    assert use(llm(max_context=4096), max_model_len=None).max_model_len == 4096


def test_a_patch_of_the_latest_version_is_allotted_as_that() -> None:
    assert use(engine_version=f"{ENGINE.version}.1").usable_bytes == pytest.approx(0.92 * 80 * GIB)
