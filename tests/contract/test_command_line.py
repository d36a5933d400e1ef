"""The command line keeps its promises: help, examples, completion, exit codes of --help."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from capplan.cli.main import cli

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(cli.list_commands(None))  # type: ignore[arg-type] - our group ignores it


def capplan(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "capplan", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_help_lists_every_command_and_examples() -> None:
    done = capplan("--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str) -> None:
    done = capplan(name, "--help")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Examples:" in done.stdout
    assert f"capplan {name}" in done.stdout.split("Examples:")[1]


def _commands(group: click.Group = cli, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command, with those of groups, by its full name."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from _commands(command, *path, name)


EVERY = dict(_commands())


def _examples(command: click.Command) -> list[list[str]]:
    """Return the examples as arguments; what follows two spaces is a remark."""
    text = (command.epilog or "").replace("\\\n", " ").partition("Examples:")[2]
    lines = (re.sub(r"  +(?=-)", " ", line.strip()) for line in text.splitlines())
    shown = (re.split(r" {2,}| > ", line)[0] for line in lines if line)
    return [shlex.split(line.rpartition("| ")[2])[1:] for line in shown]


def _command_of(arguments: list[str]) -> click.Command:
    pair = " ".join(arguments[:2])
    return EVERY[pair] if pair in EVERY else EVERY[arguments[0]]


EXAMPLES = [example for command in (cli, *EVERY.values()) for example in _examples(command)]


@pytest.mark.parametrize("name", EVERY)
def test_every_command_and_subcommand_shows_itself_in_use(name: str) -> None:
    assert any(" ".join(example).startswith(name) for example in _examples(EVERY[name]))


@pytest.mark.parametrize("example", EXAMPLES, ids=" ".join)
def test_an_example_uses_options_that_exist(example: list[str]) -> None:
    known = {name for param in _command_of(example).params for name in param.opts}
    options = {word for word in example if re.match(r"--?[a-z]", word)}
    assert options <= known | {"-h", "--help"}


def _needs_more(example: list[str]) -> bool:
    """Whether an example reads a file of its user, a device, standard input or the network."""
    files = re.compile(r"(\./|[\w.-]+\.(json|csv|prom|log|jsonl|yaml)$|\w+/$)")
    inputs = [word for before, word in pairwise(example) if before != "-o"]
    elsewhere = example[0] in ("profile", "watch") or {"refresh", "--online", "-"} & set(example)
    return bool(elsewhere) or any(files.match(word) for word in inputs)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not _needs_more(e)], ids=" ".join)
def test_an_example_answers(
    example: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, example, standalone_mode=False)
    assert done.exception is None
    assert done.return_value in (None, 0)


@pytest.mark.parametrize("suffix", ["pdf", "xlsx", "md"])
def test_a_suffix_that_promises_another_format_is_misuse(suffix: str, tmp_path: Path) -> None:
    output = tmp_path / f"plan.{suffix}"
    done = capplan(*("recommend", "--target", "qwen3-32b", "--budget", "20k", "-o", str(output)))
    assert done.returncode == 2
    assert ".html, .json, .csv or .txt" in done.stderr
    assert not output.exists()


def test_lengths_go_by_both_names_everywhere() -> None:
    for name in ("memory", "pair"):
        (length,) = (p for p in EVERY[name].params if "--context" in p.opts)
        assert "--max-model-len" in length.opts


def test_version_is_the_packages_own() -> None:
    import capplan as package

    assert capplan("--version").stdout.strip().endswith(package.__version__)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_script_is_printed(shell: str) -> None:
    # click derives the variable from the name of the program, as the installed script has it.
    code = "import sys; sys.argv = ['capplan']; from capplan.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "_CAPPLAN_COMPLETE": f"{shell}_source"},
    )
    assert done.returncode == 0, done.stderr
    assert "_CAPPLAN_COMPLETE" in done.stdout


def test_completion_offers_the_commands() -> None:
    code = "import sys; sys.argv = ['capplan']; from capplan.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_CAPPLAN_COMPLETE": "bash_complete",
            "COMP_WORDS": "capplan re",
            "COMP_CWORD": "1",
        },
    )
    assert "recommend" in done.stdout


def test_unknown_command_is_misuse() -> None:
    done = capplan("recomend")
    assert done.returncode == 2
    assert "recomend" in done.stderr
    assert "Traceback" not in done.stderr
