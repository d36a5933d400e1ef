"""The three forms say the same, and none of them can be broken out of."""

from __future__ import annotations

import ast
import csv
import json
import shlex
from importlib.resources import files
from typing import Any

import pytest
import yaml
from hypothesis import given, settings as hypothesis_settings, strategies as st

from capplan.deploy.command import render_command, server_words
from capplan.deploy.fields import FIELDS, SPECULATIVE_KEYS, Place
from capplan.deploy.from_option import LaunchChoices, settings_from_option
from capplan.deploy.known_flags import flags_of, values_taken
from capplan.deploy.kubernetes import object_name, render_kubernetes
from capplan.deploy.python_text import render_python
from capplan.deploy.settings import Settings
from capplan.deploy.text import Form, write_launch
from capplan.deploy.versions import parse_version
from capplan.schema.pairing import Method

V32, V33 = parse_version("vllm==0.32"), parse_version("vllm==0.33")


def made(**changes: Any) -> Settings:
    fields: dict[str, Any] = {
        "target": "Qwen/Qwen3-32B",
        "draft": "Qwen/Qwen3-0.6B",
        "method": Method.DRAFT_MODEL,
        "num_speculative_tokens": 3,
        "tensor_parallel": 2,
        "max_model_len": 4096,
        "max_num_seqs": 56,
        "max_num_batched_tokens": 8448,
        "gpu_memory_utilization": 0.92,
        "graph_sizes": (4, 8, 16),
    }
    return Settings(**(fields | changes))


def shell_words(command: str) -> list[str]:
    """What a POSIX shell hands to vllm: comment lines dropped, quotes and continuations undone."""
    lines = [line for line in command.splitlines() if not line.startswith("#")]
    return shlex.split("\n".join(lines).replace("\\\n", " "))


def names_in(text: str) -> dict[str, Any]:
    """What a Python file sets at its top level, without running it."""
    tree = ast.parse(text)
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }


def manifests(text: str) -> list[dict[str, Any]]:
    assert "\t" not in text
    return list(yaml.safe_load_all(text))


def container(text: str) -> dict[str, Any]:
    found: dict[str, Any] = manifests(text)[0]["spec"]["template"]["spec"]["containers"][0]
    return found


NAMES = st.text(
    st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=30
)


@given(target=NAMES, draft=NAMES)
@hypothesis_settings(deadline=None)
def test_names_cannot_break_out_of_any_form(target: str, draft: str) -> None:
    settings = made(target=target, draft=draft)
    words = server_words(settings, V33)
    assert words[:3] == ["vllm", "serve", target]
    assert json.loads(words[-1])["model"] == draft
    assert shell_words(render_command(settings, V33)) == words
    assert names_in(render_python(settings, V33))["SERVER"] == words
    run = container(render_kubernetes(settings, V33))
    assert [*run["command"], *run["args"]] == words


def test_offline_keywords_are_the_servers_flags(sample_plans: Any) -> None:
    settings = made()
    engine = names_in(render_python(settings, V33))["ENGINE"]
    words = server_words(settings, V33)
    server_only = {"--host", "--port"}
    flags = {word for word in words if word.startswith("--")} - server_only
    named = {"--" + key.replace("_", "-") for key in engine if key != "model"}
    assert flags == named


@pytest.mark.parametrize("version", [V32, V33], ids=str)
@pytest.mark.parametrize("method", list(Method))
def test_every_flag_and_key_is_known_to_its_version(
    sample_plans: Any, version: Any, method: Method
) -> None:
    option = sample_plans.make_option(
        method=method,
        draft=None if method is Method.NONE else "a/b",
        num_speculative_tokens=0 if method is Method.NONE else 3,
    )
    words = server_words(
        settings_from_option(option, LaunchChoices(draft_sampling="probabilistic")), version
    )
    known = flags_of(version)
    flags = [word for word in words if word.startswith("--")]
    assert set(flags) <= known.keys()
    for flag in flags:
        after = words[words.index(flag) + 1 :]
        following = next((i for i, word in enumerate(after) if word.startswith("--")), len(after))
        assert {"0": following == 0, "1": following == 1, "+": following >= 1}[known[flag]], flag


def test_every_field_of_a_launch_stands_in_the_recorded_parsers() -> None:
    for version in (V32, V33):
        for field in FIELDS:
            if field.place is Place.SPECULATIVE:
                assert field.key in SPECULATIVE_KEYS
            else:
                assert field.flag in flags_of(version)


def test_the_recorded_flags_name_their_source() -> None:
    text = files("capplan.deploy").joinpath("flags.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len({row["flag"] for row in rows}) == len(rows) > 400
    assert all(row["source"] and row["values"] in ("0", "1", "?", "+") for row in rows)


def test_flags_are_known_as_the_parser_knows_them() -> None:
    assert values_taken("--kv-cache-memory", V33) == "1"  # the beginning of one flag
    assert values_taken("--max-num", V33) is None  # of several
    assert values_taken("--speculative-config.method", V33) == "1"
    assert values_taken("-O3", V33) == "0"
    assert values_taken("--disable-log-requests", V32) is None
    assert values_taken("--disable-log-requests", V33) == "0"


def test_replicas_are_said_on_a_comment_line_and_in_the_deployment() -> None:
    assert render_command(made(replicas=2), V33).startswith("# one of 2 replicas")
    assert "every group of 2 GPUs" in render_command(made(replicas=2), V33)
    assert render_command(made(), V33).startswith("vllm serve Qwen/Qwen3-32B \\\n  --host")
    assert manifests(render_kubernetes(made(replicas=3), V33))[0]["spec"]["replicas"] == 3


def test_the_python_file_is_valid_and_starts_nothing_when_imported() -> None:
    namespace: dict[str, Any] = {"__name__": "launch"}
    exec(compile(render_python(made(), V33, ("mind this",)), "launch.py", "exec"), namespace)
    assert namespace["ENGINE"]["model"] == "Qwen/Qwen3-32B"
    assert namespace["ENGINE"]["speculative_config"]["num_speculative_tokens"] == 3


def test_the_manifests_ask_for_what_the_replica_needs() -> None:
    deployment, service = manifests(render_kubernetes(made(), V33))
    pod = deployment["spec"]["template"]
    run = pod["spec"]["containers"][0]
    assert run["image"] == "vllm/vllm-openai:v0.33.0"
    assert run["resources"]["limits"] == {"nvidia.com/gpu": 2}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert run[probe]["httpGet"] == {"path": "/health", "port": "http"}
    env = {one["name"]: one for one in run["env"]}
    assert env["HF_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "token"
    mounted = {mount["name"]: mount["mountPath"] for mount in run["volumeMounts"]}
    assert env["HF_HOME"]["value"] == mounted["hub-cache"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
    assert {mount["name"] for mount in run["volumeMounts"]} == volumes.keys()
    labels = pod["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    assert service["spec"]["ports"][0]["targetPort"] == run["ports"][0]["name"]


def test_a_cpu_pod_asks_for_no_gpu_and_takes_the_cpu_image() -> None:
    settings = made(
        device="cpu",
        gpu_memory_utilization=None,
        graph_sizes=(),
        kv_cache_bytes=2**30,
        tensor_parallel=1,
    )
    run = container(render_kubernetes(settings, V32))
    assert run["image"] == "vllm/vllm-openai-cpu:v0.32.0"
    assert "resources" not in run


def test_checkpoints_of_the_node_are_mounted_where_they_lie() -> None:
    text = render_kubernetes(made(target="/models/t", draft="/models/d"), V33)
    mounts = {m["mountPath"]: m for m in container(text)["volumeMounts"]}
    assert mounts["/models/t"]["readOnly"] is mounts["/models/d"]["readOnly"] is True


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("Qwen/Qwen3-32B", "vllm-qwen3-32b"),
        ("/models/My Model_v1.5/", "vllm-my-model-v1-5"),
        ("///", "vllm-model"),
        ("投机", "vllm-model"),
        ("x" * 100, "vllm-" + "x" * 45),
    ],
)
def test_names_are_ones_that_kubernetes_takes(target: str, name: str) -> None:
    assert object_name(target) == name


@pytest.mark.parametrize("form", list(Form))
def test_known_troubles_stand_on_comment_lines(form: Form) -> None:
    settings = made(method=Method.MTP, draft=None, lengths_by_batch=((1, 8, 3), (9, 56, 0)))
    launch = write_launch(settings, V33, form, option="x")
    assert any("49548" in note for note in launch.notes)
    assert any("48494" in note for note in launch.notes)
    assert all(note.split()[0] in launch.text for note in launch.notes)
    assert "49548" in launch.text


def test_a_text_above_temperature_zero_is_warned_of_on_a_cpu() -> None:
    settings = made(device="cpu", gpu_memory_utilization=None, graph_sizes=(), tensor_parallel=1)
    launch = write_launch(settings, V32, Form.COMMAND, option="x", temperature=0.8)
    assert any("corrupts the text" in note for note in launch.notes)
    calm = write_launch(settings, V32, Form.COMMAND, option="x")
    assert not any("corrupts" in note for note in calm.notes)
