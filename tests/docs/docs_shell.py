"""Runs a page's commands in one process, and checks those that are not run by their grammar."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.testing import CliRunner, Result

from capplan.cli.main import cli
from capplan.errors import CapplanError

ROOT = Path(__file__).parents[2]
_ASSIGNMENT = re.compile(r"^[A-Z_]+=")
_OPTION = re.compile(r"^--?[a-zA-Z][\w-]*")
_OPTIONAL = re.compile(r"\[(-[^\]]*)\]")
PLACEHOLDERS = {
    "TARGET": "Qwen/Qwen3-32B",
    "DRAFT": "Qwen/Qwen3-0.6B",
    "HEAD": "AngelSlim/Qwen3-32B_eagle3",
    "GPU": "h100-sxm-80gb",
    "PLAN": "plan.json",
    "PROFILE": "profile.json",
    "OLD": "monday.json",
    "NEW": "friday.json",
    "FILE": "bench.json",
    "URL": "http://localhost:8000",
    "USD": "1.50",
    "MINUTES": "5",
    "DIR": "measured",
    "NAME...": "h100",
}
"""What stands for the capital words of a page when its commands are run or parsed."""


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it printed: both streams, and standard output alone."""

    exit_code: int
    printed: str
    stdout: str


def words_of(text: str) -> list[str]:
    """Return a command's words; capital words are filled in, options in brackets taken."""
    opened = _OPTIONAL.sub(r"\1", text)
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(opened, comments=True)]


def program_of(text: str) -> str:
    """Return the program that a command starts, assignments before it skipped."""
    words = [word for word in text.split() if not _ASSIGNMENT.match(word)]
    return words[0] if words else ""


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(text: str, folder: Path) -> Ran:
    """Run a command of capplan, or ``cat``, in a folder; ``>`` writes a file there."""
    words = words_of(text)
    target = None
    if ">" in words:
        target = folder / words[words.index(">") + 1]
        words = words[: words.index(">")]
    if words[0] == "cp":
        for source in (path for word in words[1:-1] for path in folder.glob(word)):
            shutil.copy(source, folder / words[-1])
        return Ran(0, "", "")
    if words[0] == "cat":
        shown = (folder / words[1]).read_text(encoding="utf-8")
        return Ran(0, shown, shown)
    if words[0] == "python":
        return _script(words[1:])
    with inside(folder):
        result = CliRunner().invoke(cli, words[1:], prog_name="capplan", standalone_mode=False)
    exit_code, printed = _ending(result)
    if target is not None:
        target.write_text(result.stdout, encoding="utf-8")
        return Ran(exit_code, "", "")
    return Ran(exit_code, printed, result.stdout)


def _ending(result: Result) -> tuple[int, str]:
    """Return the exit code and what the terminal shows, as the entry point of capplan has it."""
    error, printed = result.exception, result.output
    if isinstance(error, CapplanError):
        remedy = f"{error.remedy}\n" if error.remedy else ""
        return error.exit_code, f"{printed}Error: {error.message}\n{remedy}"
    if isinstance(error, click.ClickException):
        return error.exit_code, f"{printed}Error: {error.format_message()}\n"
    if error is not None and not isinstance(error, SystemExit):
        raise error
    returned = result.return_value
    return (returned if isinstance(returned, int) else result.exit_code), printed


def _script(words: Sequence[str]) -> Ran:
    """Run a script of the repository, in this process."""
    printed = io.StringIO()
    before, sys.argv = sys.argv, [*words]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    finally:
        sys.argv = before
    return Ran(0, printed.getvalue(), printed.getvalue())


def command_of(words: Sequence[str]) -> tuple[click.Command, click.Context, list[str]]:
    """Return the command that words name, its parent's context, and the words left.

    Raises
    ------
    click.UsageError
        If there is no such command.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="capplan")
    left = list(words)
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        found = command.get_command(context, left[0])
        if found is None:
            raise click.UsageError(f"no command {left[0]!r} in {context.command_path}")
        if command is not cli:
            context = click.Context(command, parent=context, info_name=command.name)
        command = found
        left = left[1:]
    return command, context, left


def parse(text: str) -> None:
    """Let click parse a command without running it.

    Raises
    ------
    click.UsageError
        For a command, option, choice or value that it does not take.
    """
    words = [word for word in words_of(text) if not _ASSIGNMENT.match(word)]
    for stop in ("|", ">", "&", "&&", "||", ";"):
        words = words[: words.index(stop)] if stop in words else words
    command, parent, left = command_of(words[1:])
    try:
        command.make_context(command.name, left, parent=parent)
    except click.exceptions.Exit:
        return  # --help and its like
    except click.BadParameter as error:
        if "does not exist" not in error.message:  # a file that only its reader has
            raise


def parse_names(text: str) -> None:
    """Check that the command and the options exist which a sentence mentions.

    Raises
    ------
    click.UsageError
        For one that does not.
    """
    words = re.split(r"[\s\[\]|]+", text)
    start = words.index("capplan")
    command, _, left = command_of([word for word in words[start + 1 :] if word])
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    for word in left:
        option = _OPTION.match(word)
        if option and option[0] not in known | {"-h", "--help"}:
            raise click.UsageError(f"{command.name} has no option {option[0]}")


def missing_things(text: str) -> list[str]:
    """Return what a command of another program names and this repository lacks."""
    words = [word for word in shlex.split(text) if not _ASSIGNMENT.match(word)]
    program, rest = words[0], [word for word in words[1:] if word not in ("|", "&&", ">")]
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        named = [word for word in rest if "=" not in word and not word.startswith("-")]
        return [f"make target {word}" for word in named if word not in targets]
    if program == "pip":
        return [f"extra {name}" for name in _extras(rest) if name not in _known_extras()]
    if re.fullmatch(r"python3?(\.\d+)?|pytest", program) or "/" in program:
        paths = [
            w for w in (program, *rest) if re.match(r"\.?(tests|tools|benchmarks|examples)/", w)
        ]
        gone = [f"file {path}" for path in paths if not (ROOT / path.partition("::")[0]).exists()]
        return gone + _missing_options(paths, rest)
    return []


def _extras(words: Sequence[str]) -> list[str]:
    named = [re.search(r"(?:capplan|\.)\[([\w,-]+)\]", word) for word in words]
    return [extra for found in named if found for extra in found[1].split(",")]


def _known_extras() -> list[str]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(project["project"]["optional-dependencies"])


def _missing_options(paths: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return options that no script among the paths mentions."""
    scripts = [ROOT / path for path in paths if path.endswith(".py") and "tests/" not in path]
    text = "".join(path.read_text(encoding="utf-8") for path in scripts if path.exists())
    asked = [word.strip("[]") for word in words if word.strip("[").startswith("--")]
    return [f"option {word}" for word in asked if text and f'"{word}"' not in text]
