from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from capplan.deploy.vllm import (
    context_limit,
    launch_command,
    speculative_config,
    unsupported_reason,
)
from capplan.errors import RequestError
from capplan.schema.pairing import Method
from capplan.schema.workload import Workload

HEAD = "AngelSlim/Qwen3-32B_eagle3"


def _arguments(command: str) -> list[str]:
    """What a POSIX shell hands to vllm: comment lines dropped, quotes and continuations undone."""
    lines = [line for line in command.splitlines() if not line.startswith("#")]
    return shlex.split("\n".join(lines).replace("\\\n", " "))


def _config(command: str) -> dict[str, Any]:
    words = _arguments(command)
    parsed: dict[str, Any] = json.loads(words[words.index("--speculative-config") + 1])
    return parsed


def _flag(command: str, name: str) -> str:
    words = _arguments(command)
    return words[words.index(name) + 1]


@pytest.mark.parametrize(
    ("method", "draft", "expected"),
    [
        (
            Method.DRAFT_MODEL,
            "Qwen/Qwen3-0.6B",
            {"method": "draft_model", "model": "Qwen/Qwen3-0.6B"},
        ),
        (Method.NGRAM, "ngram", {"method": "ngram"}),
        (Method.SUFFIX, "suffix", {"method": "suffix"}),
        (Method.EAGLE, HEAD, {"method": "eagle", "model": HEAD}),
        (Method.EAGLE3, HEAD, {"method": "eagle3", "model": HEAD}),
        (Method.PEAGLE, HEAD, {"method": "eagle3", "model": HEAD, "parallel_drafting": True}),
        (Method.MTP, "(built-in)", {"method": "mtp"}),
        (Method.MTP, "org/mtp-head", {"method": "mtp", "model": "org/mtp-head"}),
        (Method.DFLASH, HEAD, {"method": "dflash", "model": HEAD}),
        (Method.DSPARK, HEAD, {"method": "dspark", "model": HEAD}),
    ],
)
def test_every_method_is_named_explicitly(
    sample_plans: Any, method: Method, draft: str, expected: dict[str, Any]
) -> None:
    option = sample_plans.make_option(method=method, draft=draft)
    assert _config(launch_command(option)) == expected | {"num_speculative_tokens": 3}


def test_without_speculation_there_is_no_speculative_config(sample_plans: Any) -> None:
    command = launch_command(sample_plans.make_baseline())
    assert command.splitlines()[1].startswith("vllm serve Qwen/Qwen3-32B")
    assert "speculative" not in command


def test_medusa_has_no_command_and_a_reason(sample_plans: Any) -> None:
    option = sample_plans.make_option(method=Method.MEDUSA, draft="org/medusa")
    assert launch_command(option) == ""
    assert "removed Medusa" in unsupported_reason(option)


def test_a_head_without_a_checkpoint_has_no_command(sample_plans: Any) -> None:
    option = sample_plans.make_option(method=Method.EAGLE3, draft=None)
    assert launch_command(option) == ""
    assert "needs a draft checkpoint" in unsupported_reason(option)


@pytest.mark.parametrize("method", list(Method))
def test_draft_parallelism_is_never_set(sample_plans: Any, method: Method) -> None:
    option = sample_plans.make_option(method=method, draft=HEAD, tensor_parallel=8)
    assert "draft_tensor_parallel_size" not in launch_command(option)


@pytest.mark.parametrize("version", ["0.33", "0.33.0", "vllm==0.33.0", " 0.33.1 "])
def test_patch_versions_are_the_same_engine(sample_plans: Any, version: str) -> None:
    option = sample_plans.make_option()
    assert launch_command(option, version=version) == launch_command(option)


@pytest.mark.parametrize("version", ["0.32.0", "0.34", "1", "latest", "0.330"])
def test_a_version_never_checked_is_refused(sample_plans: Any, version: str) -> None:
    with pytest.raises(RequestError, match=r"no launch text") as caught:
        launch_command(sample_plans.make_option(), version=version)
    assert "0.33" in caught.value.remedy


def test_batch_limits_and_memory_are_always_set(sample_plans: Any) -> None:
    command = launch_command(sample_plans.make_option(), max_model_len=8192)
    assert _flag(command, "--tensor-parallel-size") == "2"
    assert _flag(command, "--max-num-seqs") == "56"
    assert _flag(command, "--max-model-len") == "8192"
    assert _flag(command, "--gpu-memory-utilization") == "0.92"
    assert int(_flag(command, "--max-num-batched-tokens")) >= 8192 + 56


@pytest.mark.parametrize("sequences", [1, 400, 3000])
@pytest.mark.parametrize("method", [Method.DRAFT_MODEL, Method.PEAGLE, Method.EAGLE3])
def test_a_step_has_room_to_verify_every_sequence(
    sample_plans: Any, sequences: int, method: Method
) -> None:
    option = sample_plans.make_option(
        method=method, draft=HEAD, num_speculative_tokens=7, max_concurrency=sequences
    )
    slots = {Method.DRAFT_MODEL: 1, Method.PEAGLE: 6}.get(method, 0) * sequences
    budget = int(_flag(launch_command(option), "--max-num-batched-tokens")) - slots
    assert budget >= max(8192, sequences * 8)


@pytest.mark.parametrize(
    ("share", "flag"), [(0.92, "0.92"), (0.9, "0.90"), (0.869, "0.86"), (0.29, "0.29")]
)
def test_the_memory_share_is_rounded_down(sample_plans: Any, share: float, flag: str) -> None:
    memory = sample_plans.make_option().memory.model_copy(update={"usable_bytes": share * 85.0e9})
    command = launch_command(sample_plans.make_option(memory=memory))
    assert _flag(command, "--gpu-memory-utilization") == flag


def test_capture_is_widened_only_where_the_default_falls_short(sample_plans: Any) -> None:
    def command(sequences: int) -> str:
        return launch_command(sample_plans.make_option(max_concurrency=sequences))

    assert "cudagraph" not in command(128)
    assert _flag(command(129), "--max-cudagraph-capture-size") == "528"
    assert _flag(command(2000), "--max-cudagraph-capture-size") == "1024"


def test_names_cannot_break_out_of_the_shell(sample_plans: Any) -> None:
    target, draft = "/models/my model; rm -rf ~", "it's $(whoami)"
    command = launch_command(sample_plans.make_option(target=target, draft=draft))
    assert _arguments(command)[:3] == ["vllm", "serve", target]
    assert _config(command)["model"] == draft


def test_a_profiled_machine_and_a_local_path_have_a_command(sample_plans: Any) -> None:
    option = sample_plans.make_option(
        gpu="profile:abc", target="/models/smol", draft="ngram", method=Method.NGRAM, replicas=1
    )
    assert launch_command(option).startswith("vllm serve /models/smol \\\n")


def test_lookup_lengths_and_draft_sampling_follow_the_profile(sample_plans: Any) -> None:
    ngram = sample_plans.make_option(method=Method.NGRAM, draft="ngram")
    config = speculative_config(ngram, prompt_lookup=(2, 4), draft_sample_method="probabilistic")
    assert (config["prompt_lookup_min"], config["prompt_lookup_max"]) == (2, 4)
    assert "draft_sample_method" not in config
    sampled = speculative_config(
        sample_plans.make_option(), prompt_lookup=(2, 4), draft_sample_method="probabilistic"
    )
    assert sampled["draft_sample_method"] == "probabilistic"
    assert "prompt_lookup_min" not in sampled


def test_replicas_are_said_on_a_comment_line(sample_plans: Any) -> None:
    assert launch_command(sample_plans.make_option(replicas=2)).startswith("# one of 2 replicas")
    assert launch_command(sample_plans.make_option(replicas=1)).startswith("vllm serve")


def test_the_context_limit_leaves_room_above_the_mean() -> None:
    load = Workload(prompt_tokens=1500, output_tokens=400)
    assert context_limit(load) == 8192
    assert context_limit(load, max_context=4096) == 4096
