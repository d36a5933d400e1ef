"""Old commands made new: what is changed and why, and what is left as it was written."""

from __future__ import annotations

import contextlib
import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from capplan.deploy.known_flags import flags_of
from capplan.deploy.migrate import Migration, migrate_command
from capplan.deploy.migrate_text import render_migration
from capplan.deploy.old_flags import OLD_FLAGS
from capplan.deploy.shell_words import Kind, cut
from capplan.deploy.versions import parse_version
from capplan.errors import RequestError

V32, V33 = parse_version("vllm==0.32"), parse_version("vllm==0.33")


def migrated(command: str, version: Any = V33) -> Migration:
    return migrate_command(command, version)


def words(migration: Migration) -> list[str]:
    return shlex.split(migration.command.replace("\\\n", " "))


def config(migration: Migration) -> dict[str, Any]:
    given = words(migration)
    parsed: dict[str, Any] = json.loads(given[given.index("--speculative-config") + 1])
    return parsed


OF_THE_GUIDE = r"""python -m vllm.entrypoints.openai.api_server \
    --model org/target-72b-awq \
    --quantization awq \
    --tensor-parallel-size 4 \
    \
    # Speculative decoding
    --speculative-model org/draft-3b-awq \
    --num-speculative-tokens 5 \
    --speculative-draft-tensor-parallel-size 1 \
    --use-v2-block-manager
"""


def test_a_guides_command_comes_out_whole() -> None:
    new = migrated(OF_THE_GUIDE)
    assert words(new)[:3] == ["vllm", "serve", "org/target-72b-awq"]
    assert config(new) == {
        "method": "draft_model",
        "model": "org/draft-3b-awq",
        "num_speculative_tokens": 5,
        "draft_tensor_parallel_size": 4,
    }
    assert "--quantization" in words(new)
    assert "block-manager" not in new.command
    assert any("comment" in note for note in new.notes)


def test_every_change_has_a_reason() -> None:
    new = migrated(OF_THE_GUIDE)
    assert len(new.changes) == 8
    assert all(change.reason for change in new.changes)
    text = render_migration(new)
    assert "--use-v2-block-manager is gone: removed with the V0 engine" in " ".join(
        text.replace("#", "").split()
    )
    commands = [line for line in text.splitlines() if not line.startswith("#")]
    assert "\n".join(commands) == new.command


@pytest.mark.parametrize("flag", sorted(OLD_FLAGS))
def test_every_old_flag_is_gone_from_the_command(flag: str) -> None:
    value = {"0": "", "?": ""}.get(OLD_FLAGS[flag].values, "5")
    new = migrated(f"vllm serve a/b --num-speculative-tokens 3 {flag} {value} --seed 7")
    assert flag not in words(new)
    assert words(new)[3:5] != [flag, value]
    assert words(new)[words(new).index("--seed") + 1] == "7"
    left = {word.partition(".")[0] for word in words(new) if word.startswith("--")}
    assert left <= flags_of(V33).keys()


def test_what_needs_no_change_is_given_back_as_it_was() -> None:
    command = (
        """vllm serve a/b -tp 2  --spec-method ngram --spec-tokens 3 --served-model-name x y"""
    )
    new = migrated(command)
    assert new.command == command
    assert new.changes == ()
    assert "nothing to change" in render_migration(new)


def test_what_nobody_knows_is_kept_and_said() -> None:
    new = migrated("vllm serve a/b --frobnicate 'a b' --swap-space 4")
    assert new.command == "vllm serve a/b --frobnicate 'a b'"
    kept = next(change for change in new.changes if change.old == change.new)
    assert "no flag of vLLM 0.33" in kept.reason


def test_variables_quotes_and_what_stands_around_survive() -> None:
    command = (
        'cd /srv && HF_HOME=/big CUDA_VISIBLE_DEVICES=$GPUS nohup vllm serve "$MODEL" '
        "--chat-template \"$(cat 't a.jinja')\" --swap-space 4 > log.txt 2>&1 & tail -f log.txt"
    )
    new = migrated(command)
    assert new.command.startswith(
        'cd /srv && HF_HOME=/big CUDA_VISIBLE_DEVICES=$GPUS nohup vllm serve "$MODEL"'
    )
    assert "\"$(cat 't a.jinja')\"" in new.command
    assert new.command.endswith("> log.txt 2>&1 & tail -f log.txt")
    assert "swap" not in new.command


def test_a_draft_that_only_the_shell_knows_is_handed_over_key_by_key() -> None:
    new = migrated('vllm serve a/b --speculative-model "$DRAFT" --num-speculative-tokens 4')
    assert '--speculative-config.model "$DRAFT"' in new.command
    assert "--speculative-config.num_speculative_tokens 4" in new.command


def test_json_that_only_the_shell_knows_is_kept_and_said() -> None:
    command = 'vllm serve a/b --speculative-config "$SPEC" --port 80'
    new = migrated(command)
    assert new.command == command
    assert "was not checked" in new.notes[0]


def test_a_limit_on_the_batch_becomes_a_table_of_lengths() -> None:
    new = migrated(
        "vllm serve a/b --max-num-seqs 64 --speculative-model c/d --num-speculative-tokens 4 "
        "--speculative-disable-by-batch-size 16"
    )
    assert config(new)["num_speculative_tokens_per_batch_size"] == [[1, 16, 4], [17, 64, 0]]
    assert any("49548" in note for note in new.notes)


def test_lookup_keeps_what_was_its_default() -> None:
    new = migrated(
        "vllm serve a/b --speculative-model '[ngram]' --ngram-prompt-lookup-max 4 "
        "--num-speculative-tokens 3"
    )
    assert config(new) == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_min": 1,
        "prompt_lookup_max": 4,
    }


@pytest.mark.parametrize("method", ["medusa", "mlp_speculator"])
def test_a_removed_method_leaves_no_speculation_and_says_so(method: str) -> None:
    command = f"vllm serve a/b --speculative-config.method {method} --speculative-config.model c/d"
    new = migrated(command)
    assert new.command == "vllm serve a/b"
    assert "does not speculate" in new.changes[0].reason
    assert migrated(command + " --spec-tokens 3", V32).command == command + " --spec-tokens 3"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"method": "deepseek_mtp", "num_speculative_tokens": 1}, {"method": "mtp"}),
        (
            {"method": "eagle3", "model": "c/eagle3", "rejection_sample_method": "strict"},
            {"rejection_sample_method": "standard"},
        ),
        (
            {"method": "eagle3", "model": "c/eagle3", "rejection_sample_method": "probabilistic"},
            {"rejection_sample_method": "standard", "draft_sample_method": "probabilistic"},
        ),
        (
            {"model": "c/eagle-x", "tensor_parallel_size": 1},
            {"method": "eagle", "draft_tensor_parallel_size": 1},
        ),
    ],
)
def test_json_of_any_age_is_brought_up_to_date(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    new = migrated(f"vllm serve a/b -tp 4 --speculative-config {shlex.quote(json.dumps(given))}")
    assert config(new).items() >= expected.items()


def test_a_head_that_looks_like_no_head_is_doubted() -> None:
    new = migrated(
        "vllm serve a/b --speculative-model c/d --speculative-method eagle "
        "--num-speculative-tokens 5"
    )
    assert any("trained for this very target" in note for note in new.notes)


def test_typical_acceptance_is_gone_and_not_replaced_by_another_lossy_rule() -> None:
    new = migrated(
        "vllm serve a/b --speculative-model c/d --num-speculative-tokens 5 "
        "--spec-decoding-acceptance-method typical_acceptance_sampler "
        "--typical-acceptance-sampler-posterior-threshold 0.1"
    )
    assert config(new)["rejection_sample_method"] == "standard"
    assert "posterior" not in new.command


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/opt/v/bin/python3.11 -m vllm.entrypoints.openai.api_server", "/opt/v/bin/vllm serve"),
        ("python3 -u -m vllm.entrypoints.openai.api_server", "vllm serve"),
        ("python -m vllm.entrypoints.api_server", "vllm serve"),
    ],
)
def test_the_program_is_the_one_of_the_same_environment(old: str, new: str) -> None:
    assert migrated(f"{old} --model a/b --port 80").command == f"{new} a/b --port 80"


def test_an_image_gets_the_tag_of_the_version() -> None:
    new = migrated("docker run --gpus all -p 80:8000 vllm/vllm-openai:v0.6.3 --model a/b")
    assert new.command == "docker run --gpus all -p 80:8000 vllm/vllm-openai:v0.33.0 a/b"


def test_a_graph_size_that_the_engine_would_cut_is_raised() -> None:
    new = migrated("vllm serve a/b --max_cudagraph_capture_size=42")
    assert new.command == "vllm serve a/b --max-cudagraph-capture-size 48"
    assert "to 40" in new.changes[0].reason


def test_variables_that_are_not_read_any_more_are_said() -> None:
    assert "VLLM_USE_V1" in migrated("VLLM_USE_V1=0 vllm serve a/b").notes[0]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "no vLLM server"),
        ("vllm bench serve", "no vLLM server"),
        ("python train.py --model a", "no vLLM server"),
        ("vllm serve 'a/b", "never closed"),
        ('vllm serve "$(cat', "never closed"),
        ("vllm serve a --speculative-config '{\"method\"'", "no JSON"),
        ("vllm serve a --speculative-config '[1]'", "expected an object"),
    ],
)
def test_what_cannot_be_read_is_said(command: str, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        migrated(command)
    assert caught.value.remedy


@given(st.text(max_size=80))
@settings(deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    # a RequestError says what is wrong with it; anything else is a defect
    with contextlib.suppress(RequestError):
        migrated("vllm serve a/b " + text)


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs",)), max_size=12), max_size=6))
@settings(deadline=None)
def test_words_are_cut_as_a_shell_does(values: list[str]) -> None:
    values = [value.replace("\x00", "") for value in values]
    pieces = cut(" ".join(shlex.quote(value) for value in values))
    assert [piece.value for piece in pieces if piece.kind is Kind.WORD] == values


@given(
    st.lists(
        st.sampled_from(sorted(OLD_FLAGS)).map(
            lambda flag: flag if OLD_FLAGS[flag].values in "0?" else f"{flag} 7"
        ),
        max_size=6,
        unique=True,
    ),
    st.sampled_from([V32, V33]),
)
@settings(deadline=None)
def test_migrating_twice_changes_nothing_more(flags: list[str], version: Any) -> None:
    once = migrated(" ".join(("vllm serve a/b", *flags)), version)
    twice = migrated(once.command, version)
    assert twice.command == once.command
    assert not [change for change in twice.changes if change.old != change.new]
