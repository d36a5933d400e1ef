"""The command line keeps its promises: help, examples, completion, exit codes of --help."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
