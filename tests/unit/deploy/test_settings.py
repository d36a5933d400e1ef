"""From an option of a plan to settings: limits, drafts, graphs, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from capplan.deploy.fields import Place, engine_keywords, values_at
from capplan.deploy.from_option import (
    LaunchChoices,
    context_limit,
    counted_sampling,
    pair_config,
    settings_from_option,
    unsupported_reason,
)
from capplan.deploy.notes import launch_notes
from capplan.deploy.settings import Settings
from capplan.deploy.versions import parse_version
from capplan.errors import RequestError
from capplan.facts.catalog import load_catalog
from capplan.schema.pairing import Method
from capplan.schema.workload import Workload

HEAD = "AngelSlim/Qwen3-32B_eagle3"
V32, V33 = parse_version("vllm==0.32"), parse_version("vllm==0.33")


def settings(option: Any, **choices: Any) -> Settings:
    return settings_from_option(option, LaunchChoices(**choices))


def speculative(option: Any, **choices: Any) -> dict[str, Any]:
    return dict(values_at(settings(option, **choices), V33, Place.SPECULATIVE))


@pytest.mark.parametrize(
    ("method", "draft", "expected"),
    [
        (Method.DRAFT_MODEL, "Qwen/Qwen3-0.6B", {"method": "draft_model"}),
        (Method.NGRAM, "ngram", {"method": "ngram"}),
        (Method.SUFFIX, "suffix", {"method": "suffix"}),
        (Method.EAGLE, HEAD, {"method": "eagle"}),
        (Method.EAGLE3, HEAD, {"method": "eagle3"}),
        (Method.PEAGLE, HEAD, {"method": "eagle3", "parallel_drafting": True}),
        (Method.MTP, "(built-in)", {"method": "mtp"}),
        (Method.MTP, "org/mtp-head", {"method": "mtp", "model": "org/mtp-head"}),
        (Method.DFLASH, HEAD, {"method": "dflash"}),
        (Method.DSPARK, HEAD, {"method": "dspark"}),
    ],
)
def test_every_method_is_named_with_its_checkpoint(
    sample_plans: Any, method: Method, draft: str, expected: dict[str, Any]
) -> None:
    config = speculative(sample_plans.make_option(method=method, draft=draft))
    assert config.items() >= (expected | {"num_speculative_tokens": 3}).items()
    takes_checkpoint = draft not in ("ngram", "suffix", "(built-in)")
    assert config.get("model") == (draft if takes_checkpoint else None)


@pytest.mark.parametrize("method", [m for m in Method if m is not Method.NONE])
@pytest.mark.parametrize("tensor_parallel", [1, 8])
def test_a_draft_runs_over_the_gpus_of_its_target(
    sample_plans: Any, method: Method, tensor_parallel: int
) -> None:
    option = sample_plans.make_option(method=method, draft=HEAD, tensor_parallel=tensor_parallel)
    given = speculative(option).get("draft_tensor_parallel_size", tensor_parallel)
    assert given == tensor_parallel


def test_without_speculation_nothing_is_said_of_it(sample_plans: Any) -> None:
    baseline = settings(sample_plans.make_baseline(), draft_sampling="probabilistic")
    assert "speculative_config" not in engine_keywords(baseline, V33)


@pytest.mark.parametrize("version", ["0.33", "v0.33.0", "vllm==0.33.0", " vllm 0.33.1 "])
def test_patch_versions_are_the_same_engine(version: str) -> None:
    assert parse_version(version).minor == (0, 33)


@pytest.mark.parametrize("version", ["0.31.0", "0.34", "1", "latest", "0.330", "sglang==0.33", ""])
def test_a_version_never_checked_is_refused_with_those_that_were(version: str) -> None:
    with pytest.raises(RequestError, match="no launch text") as caught:
        parse_version(version)
    assert "vllm==0.32, vllm==0.33" in caught.value.remedy


def test_medusa_runs_on_the_last_version_that_had_it(sample_plans: Any) -> None:
    option = sample_plans.make_option(method=Method.MEDUSA, draft="org/medusa")
    assert unsupported_reason(option, V32) == ""
    assert "0.32 was the last" in unsupported_reason(option, V33)


def test_a_head_without_a_checkpoint_is_refused(sample_plans: Any) -> None:
    option = sample_plans.make_option(method=Method.EAGLE3, draft=None)
    assert "needs a draft checkpoint" in unsupported_reason(option, V33)


def test_mtp_is_refused_for_a_checkpoint_without_it(sample_plans: Any) -> None:
    plain = load_catalog().llm("Qwen/Qwen3-32B")
    option = sample_plans.make_option(method=Method.MTP, draft="(built-in)")
    assert "no MTP layers" in unsupported_reason(option, V33, plain)
    assert unsupported_reason(option, V33, plain.model_copy(update={"mtp_layers": 1})) == ""
    assert unsupported_reason(option, V33) == ""


def test_mtp_is_refused_for_a_length_that_its_layers_do_not_divide(sample_plans: Any) -> None:
    two = load_catalog().llm("Qwen/Qwen3-32B").model_copy(update={"mtp_layers": 2})
    option = sample_plans.make_option(method=Method.MTP, draft="(built-in)")
    assert "no multiple" in unsupported_reason(option, V33, two)
    assert (
        unsupported_reason(option.model_copy(update={"num_speculative_tokens": 4}), V33, two) == ""
    )


def test_limits_come_from_the_option(sample_plans: Any) -> None:
    made = settings(sample_plans.make_option(), max_model_len=8192)
    assert (made.tensor_parallel, made.max_num_seqs, made.max_model_len) == (2, 56, 8192)
    assert made.max_num_batched_tokens >= 8192 + 56


@pytest.mark.parametrize("sequences", [1, 400, 3000])
@pytest.mark.parametrize("method", [Method.DRAFT_MODEL, Method.PEAGLE, Method.EAGLE3])
def test_a_step_has_room_to_verify_every_sequence(
    sample_plans: Any, sequences: int, method: Method
) -> None:
    option = sample_plans.make_option(
        method=method, draft=HEAD, num_speculative_tokens=7, max_concurrency=sequences
    )
    slots = {Method.DRAFT_MODEL: 1, Method.PEAGLE: 6}.get(method, 0) * sequences
    assert settings(option).max_num_batched_tokens - slots >= max(8192, sequences * 8)


@pytest.mark.parametrize(
    ("share", "stated"), [(0.92, 0.92), (0.9, 0.9), (0.869, 0.86), (0.29, 0.29)]
)
def test_the_memory_share_is_rounded_down(sample_plans: Any, share: float, stated: float) -> None:
    memory = sample_plans.make_option().memory.model_copy(update={"usable_bytes": share * 85.0e9})
    assert settings(sample_plans.make_option(memory=memory)).gpu_memory_utilization == stated


def test_a_cpu_gets_a_kv_pool_and_nothing_of_a_gpu(sample_plans: Any) -> None:
    option = counted(sample_plans, "probabilistic", on_cpu=True, tensor_parallel=1,
                     max_concurrency=4)  # fmt: skip
    keywords = engine_keywords(settings(option, max_model_len=1024), V32)
    assert not {key for key in keywords if "gpu" in key or "cudagraph" in key}
    needed = 188416 * 1024 * 4
    assert keywords["kv_cache_memory_bytes"] >= needed
    assert keywords["kv_cache_memory_bytes"] % 2**30 == 0
    assert keywords["speculative_config"]["draft_sample_method"] == "greedy"


def counted(sample_plans: Any, sampling: str | None, **option: Any) -> Any:
    """An option whose acceptance was counted with such drafts."""
    figure = sample_plans.make_option().acceptance
    acceptance = figure.model_copy(update={"draft_sampling": sampling})
    return sample_plans.make_option(acceptance=acceptance, **option)


@pytest.mark.parametrize(
    ("method", "sampling", "expected"),
    [
        (Method.DRAFT_MODEL, "greedy", "greedy"),
        (Method.DRAFT_MODEL, "probabilistic", "probabilistic"),
        (Method.MTP, "probabilistic", "probabilistic"),
        (Method.EAGLE3, None, "greedy"),
        (Method.PEAGLE, "probabilistic", None),
        (Method.NGRAM, None, None),
    ],
)
def test_drafts_are_drawn_as_the_plans_acceptance_was_counted(
    sample_plans: Any, method: Method, sampling: str | None, expected: str | None
) -> None:
    option = counted(sample_plans, sampling, method=method, draft=HEAD)
    assert speculative(option).get("draft_sample_method") == expected


def test_whoever_launches_may_draw_drafts_otherwise(sample_plans: Any) -> None:
    option = counted(sample_plans, "greedy")
    config = speculative(option, draft_sampling="probabilistic")
    assert config["draft_sample_method"] == "probabilistic"


@pytest.mark.parametrize(
    ("asked", "sampling", "said"),
    [
        (None, "greedy", "greedy, as the plan's acceptance was counted"),
        (None, "probabilistic", "draft's distribution, as the plan's acceptance was counted"),
        (None, None, "does not say how its drafts were drawn"),
        ("probabilistic", "greedy", "acceptance was counted with greedy ones"),
        ("greedy", "probabilistic", "acceptance was counted with drawn ones"),
    ],
)
def test_the_text_says_whether_the_plan_counted_such_drafts(
    sample_plans: Any, asked: str | None, sampling: str | None, said: str
) -> None:
    option = counted(sample_plans, sampling)
    made = settings(option, draft_sampling=asked)
    notes = launch_notes(made, V33, 0.7, counted=counted_sampling(option))
    assert len([note for note in notes if said in note]) == 1


def test_mapped_vocabularies_draft_greedily(sample_plans: Any) -> None:
    config = speculative(counted(sample_plans, "probabilistic"), heterogeneous_vocabulary=True)
    assert config["use_heterogeneous_vocab"] is True
    assert config["draft_sample_method"] == "greedy"


def test_lookup_lengths_are_those_profiled_else_the_engines(sample_plans: Any) -> None:
    option = sample_plans.make_option(method=Method.NGRAM, draft="ngram", prompt_lookup=(2, 4))
    assert speculative(option)["prompt_lookup_min"] == 2
    assert speculative(option, prompt_lookup=(1, 3))["prompt_lookup_max"] == 3
    unknown = option.model_copy(update={"prompt_lookup": None})
    assert speculative(unknown)["prompt_lookup_min"] == 5


def test_lengths_by_batch_set_the_longest_round(sample_plans: Any) -> None:
    lengths = ((1, 8, 5), (9, 64, 0))
    config = speculative(sample_plans.make_option(), lengths=lengths)
    assert config["num_speculative_tokens"] == 5
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 8, 5], [9, 64, 0]]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"data_parallel": 2, "lengths_by_batch": ((1, 8, 3),)}, "data parallelism"),
        ({"lengths_by_batch": ((1, 8, 4),)}, "more than the 3 tokens"),
        ({"num_speculative_tokens": 0}, "0 drafted tokens"),
        ({"gpu_memory_utilization": None}, "memory is missing"),
        ({"heterogeneous_vocabulary": True, "draft_sample_method": "probabilistic"}, "greedily"),
        ({"prompt_lookup": (2, 4)}, "n-gram"),
        ({"method": Method.NGRAM, "prompt_lookup": (2, 4)}, "takes no draft"),
        ({"method": Method.NGRAM, "draft": None, "prompt_lookup": (5, 4)}, "5 to 4"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    sample_plans: Any, changes: dict[str, Any], why: str
) -> None:
    made = settings(sample_plans.make_option())
    with pytest.raises(ValueError, match=why):
        Settings.model_validate(made.model_dump() | changes)


def test_lengths_by_batch_are_refused_where_the_engine_ignores_them(sample_plans: Any) -> None:
    option = sample_plans.make_option(method=Method.SUFFIX, draft="suffix")
    with pytest.raises(ValueError, match="ignores lengths by batch for suffix"):
        settings(option, lengths=((1, 8, 3), (9, 64, 0)))


def test_the_context_limit_leaves_room_above_the_mean() -> None:
    load = Workload(prompt_tokens=1500, output_tokens=400)
    assert context_limit(load) == 8192
    assert context_limit(load, max_context=4096) == 4096


def test_a_pair_has_the_least_config(sample_plans: Any) -> None:
    assert pair_config(Method.DRAFT_MODEL, "a/b", 3, heterogeneous_vocabulary=True) == {
        "method": "draft_model",
        "model": "a/b",
        "num_speculative_tokens": 3,
        "use_heterogeneous_vocab": True,
    }
    assert pair_config(Method.MTP, "(built-in)", 1) == {
        "method": "mtp",
        "num_speculative_tokens": 1,
    }
    assert pair_config(Method.MEDUSA, "a/b", 3) == {}
    assert pair_config(Method.NONE, None, 0) == {}
