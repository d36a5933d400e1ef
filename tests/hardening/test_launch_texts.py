"""Launch texts with hostile names: each form gives the value back, and nothing else runs."""

from __future__ import annotations

import ast
import json
import shlex
import shutil
import subprocess
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import given, settings, strategies as st

from capplan.deploy.command import comment, render_command, server_words
from capplan.deploy.kubernetes import render_kubernetes
from capplan.deploy.names import name_problem
from capplan.deploy.python_text import render_python
from capplan.deploy.settings import Settings
from capplan.deploy.text import Form, write_launch
from capplan.deploy.versions import parse_version
from capplan.errors import RequestError
from capplan.schema.pairing import Method

VERSION = parse_version("vllm==0.33")
BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Everything that Python, a shell or YAML takes for the end of a line."""
HOSTILE = (
    *("$(touch pwned)", "`touch pwned`", "; touch pwned", "a' ; touch pwned ; '", 'a"; x="'),
    *("&& touch pwned", "| tee pwned", "> pwned", "${IFS}touch", "~root", "*", "a b", "\\", "a\\"),
    *("{{ evil }}", "{evil}", "%(evil)s", "'''", '"""', "!!python/object:os.system", "a: b"),
    *("- a", "# a", "&anchor", "*alias", "| a", "null", "yes", "0x10", "1e3", "@a", "[a]"),
)
NAMES = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zl", "Zp")), min_size=1),
).filter(lambda name: not name.startswith("-"))


def made(target: str, draft: str, **more: Any) -> Settings:
    fields: dict[str, Any] = {
        "target": target,
        "draft": draft,
        "method": Method.DRAFT_MODEL,
        "num_speculative_tokens": 3,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 2048,
        "gpu_memory_utilization": 0.9,
    }
    return Settings(**(fields | more))


@given(target=NAMES, draft=NAMES, note=st.text())
@settings(deadline=None)
def test_every_form_gives_the_names_back(target: str, draft: str, note: str) -> None:
    wanted = made(target, draft)
    words = server_words(wanted, VERSION)
    assert words[2] == target
    assert json.loads(words[-1])["model"] == draft
    command = render_command(wanted, VERSION, [note])
    lines = [line for line in command.split("\n") if not line.startswith("#")]
    assert shlex.split("\n".join(lines).replace("\\\n", " ")) == words
    tree = ast.parse(render_python(wanted, VERSION, [note.replace("\0", "")]))
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert (values["SERVER"], values["ENGINE"]["model"]) == (words, target)
    kinds = {type(node).__name__ for node in tree.body}
    assert kinds == {"Expr", "Import", "Assign", "FunctionDef", "If"}


@given(target=NAMES, draft=NAMES)
@settings(deadline=None, max_examples=30)
def test_manifests_give_the_names_back_and_hold_no_other_document(target: str, draft: str) -> None:
    wanted = made(target, draft)
    documents = list(yaml.safe_load_all(render_kubernetes(wanted, VERSION, [target, draft])))
    assert [one["kind"] for one in documents] == ["Deployment", "Service"]
    container = documents[0]["spec"]["template"]["spec"]["containers"][0]
    assert [*container["command"], *container["args"]] == server_words(wanted, VERSION)


@given(st.text(st.sampled_from(f"{BREAKS} ab:#-"), max_size=40))
@settings(deadline=None)
def test_a_note_cannot_leave_its_comment(note: str) -> None:
    written = comment(f"x{note}")
    for line in written.split("\n"):
        assert line.startswith("#")
        assert not set(line) & set(BREAKS)


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
def test_a_shell_runs_one_program_with_the_names_as_they_are(tmp_path: Any) -> None:
    (tmp_path / "vllm").write_text("#!/bin/sh\nprintf '%s\\0' \"$@\" >> words\n", encoding="ascii")
    (tmp_path / "vllm").chmod(0o755)
    plans = [made(name, f"{name}x") for name in HOSTILE if not name.startswith("-")]
    script = "\n".join(render_command(one, VERSION, [one.target]) for one in plans)
    done = subprocess.run(
        ["sh"],
        input=script,
        text=True,
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    got = (tmp_path / "words").read_text(encoding="utf-8").split("\0")
    expected = [word for one in plans for word in server_words(one, VERSION)[1:]]
    assert got[:-1] == expected
    assert {path.name for path in tmp_path.iterdir()} == {"vllm", "words"}


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    "name",
    ["--trust-remote-code", "-h", "a\nb", "a\x1b[2Jb", "a\u202eb", "a\u200bb", "a\u2028b", "a\0"],
)
def test_what_quotes_do_not_help_is_refused_in_letters_that_can_be_seen(
    form: Form, name: str
) -> None:
    for wanted in (made(name, "a/b"), made("a/b", name), made("a", "b", quantisation=name)):
        with pytest.raises(RequestError) as caught:
            write_launch(wanted, VERSION, form, option="x")
        assert caught.value.message.isprintable()
        assert caught.value.remedy


@given(st.text(min_size=1))
@settings(deadline=None)
def test_only_names_that_can_be_seen_and_are_no_flags_pass(name: str) -> None:
    unseen = any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in name)
    assert bool(name_problem(made(name, "a/b"))) == (unseen or name.startswith("-"))
