"""Every command of the documents is run, or parsed where reviewed.toml says why not.

After a change of what commands print: ``CAPPLAN_UPDATE_GOLDEN=1 pytest tests/docs``, then read
the difference. Outputs with ``...`` anywhere but at their end are left to their author.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import click
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from docs_outputs import agrees, can_be_renewed, renewed
from docs_pages import PROGRAMS, Block, Command, blocks, commands, files
from docs_shell import Ran, missing_things, parse, parse_names, program_of, run

ROOT = Path(__file__).parents[2]
_FOLDER = Path(__file__).parent
_BESIDE_DOCS = ("*.md", "examples/*.md", "models_db/*.md", "models_db/published/*.md")
PAGES = sorted(
    path
    for pattern in (*_BESIDE_DOCS, "docs/**/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"  # what was true of a version stays as it was written
)
ALL = {path: commands(path, ROOT) for path in PAGES}
COMMANDS = [command for found in ALL.values() for command in found]
REVIEWED = tomllib.loads((_FOLDER / "reviewed.toml").read_text(encoding="utf-8"))
_UPDATE = os.environ.get("CAPPLAN_UPDATE_GOLDEN") == "1"
_OURS = ("capplan", "cat", "cp")


def matches(entry: dict[str, Any], command: Command) -> bool:
    """Whether an entry of the reviewed list is about a command; patterns are whole commands."""
    pages = entry.get("page", ".*")
    return bool(re.fullmatch(pages, command.page)) and any(
        re.fullmatch(pattern, command.text, re.DOTALL) for pattern in entry["commands"]
    )


def entry_of(kind: str, command: Command) -> dict[str, Any] | None:
    return next((entry for entry in REVIEWED[kind] if matches(entry, command)), None)


def is_run(command: Command) -> bool:
    """Whether a command is run here: ours, whole, and not excused."""
    ours = program_of(command.text) in _OURS or _script(command) is not None
    whole = not command.is_partial and "reference/" not in command.page
    return ours and whole and entry_of("not_run", command) is None


def _script(command: Command) -> str | None:
    """Return the script of the repository that a command runs and that is light enough to."""
    found = re.match(r"python ((?:tools|examples)/\w+\.py)", command.text)
    light = found and entry_of("scripts", command) is not None
    return found[1] if found and light else None


# ---- what is looked at


def test_there_are_commands_on_the_pages() -> None:
    assert len([command for command in COMMANDS if is_run(command)]) > 60
    assert {"README.md", "docs/tutorial.md", "docs/what-if.md"} <= {c.page for c in COMMANDS}


def test_a_command_starts_a_program_that_is_known() -> None:
    strange = [str(command) for command in COMMANDS if not PROGRAMS.match(command.text)]
    assert not strange


@pytest.mark.parametrize("kind", ["not_run", "scripts", "exits", "outputs"])
def test_every_review_is_about_a_command_that_exists_and_gives_a_reason(kind: str) -> None:
    for entry in REVIEWED[kind]:
        assert len(entry["reason"]) > 10, entry
        for pattern in entry["commands"]:
            one = {**entry, "commands": [pattern]}
            assert any(matches(one, command) for command in COMMANDS), f"nothing is {pattern!r}"


# ---- commands that are not run: their grammar


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_that_are_not_run_would_parse(path: Path) -> None:
    wrong = []
    for command in (c for c in ALL[path] if not is_run(c)):
        check = _check_names if command.is_partial else _check_whole
        try:
            check(command.text)
        except click.UsageError as error:
            wrong.append(f"{command}\n    {error.format_message()}")
    assert not wrong, "\n".join(wrong)


def _check_whole(text: str) -> None:
    for part in re.split(r" && | \| ", text):
        if program_of(part) == "capplan":
            parse(part)
        else:
            _check_other(part)


def _check_names(text: str) -> None:
    if "capplan" in text.split():
        parse_names(text)
    else:
        _check_other(text)


def _check_other(text: str) -> None:
    missing = missing_things(text)
    if missing:
        raise click.UsageError(f"the repository has no {', '.join(missing)}")


# ---- commands that are run


class _TheDayOfThePages(datetime):
    """The clock on the day whose answers the pages show: prices age, and plans say so."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime(2026, 11, 30, 12, 0, tzinfo=tz or UTC)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("capplan.api.plans", "capplan.cli.prices", "capplan.cli.breakeven_figures"):
        monkeypatch.setattr(f"{module}.datetime", _TheDayOfThePages)


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory, synthetic: Any, answers: Any) -> Path:
    """A folder with what commands of pages read: plans, profiles, results, a trace."""
    from docs_kit import make_kit

    return make_kit(tmp_path_factory.mktemp("kit"), synthetic, answers)


RUNNING = [path for path in PAGES if any(is_run(command) for command in ALL[path])]


@pytest.mark.parametrize("path", RUNNING, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_page_run_one_after_the_other(
    path: Path, kit: Path, tmp_path: Path
) -> None:
    from docs_kit import page_folder

    folder = page_folder(kit, str(path.relative_to(ROOT)), tmp_path / "page")
    for name, text in files(path).items():
        (folder / name).write_text(text, encoding="utf-8")
    wrong = list(_wrong(path, folder))
    assert not wrong, "\n\n".join(wrong)


def _wrong(path: Path, folder: Path) -> Iterator[str]:
    shift = 0
    for command in (c for c in ALL[path] if is_run(c)):
        ran = run(command.text, folder)
        entry = entry_of("exits", command)
        expected = entry["code"] if entry else 0
        if ran.exit_code != expected:
            yield f"{command}\n  exit code {ran.exit_code}, not {expected}:\n{ran.printed}"
            continue
        if _agrees(command, ran):
            continue
        if _UPDATE and can_be_renewed(command.output) and _compare(command) != "excerpt":
            shift += _renew(path, command, shift, ran)
        else:
            yield f"{command}\n  printed, unlike the page:\n{ran.printed}"


def _compare(command: Command) -> str:
    """Return how a command's output is compared: exactly, unless the reviewed list says else."""
    entry = entry_of("outputs", command)
    return str(entry["compare"]) if entry else "exactly"


def _agrees(command: Command, ran: Ran) -> bool:
    compare = _compare(command)
    if not command.output or compare == "nothing":
        return True
    pasted = [
        *(["..."] if compare == "excerpt" else []),
        *command.output,
        *(["..."] if compare in ("beginning", "excerpt") else []),
    ]
    return any(
        agrees(pasted, text, numbers=compare == "words") for text in (ran.printed, ran.stdout)
    )


def _renew(path: Path, command: Command, shift: int, ran: Ran) -> int:
    """Write what was printed into the page; return by how many lines it grew."""
    before = path.read_text(encoding="utf-8")
    line = command.output_line + shift
    cut = _compare(command) == "beginning"
    after = renewed(before, line, command.output, ran.printed, cut=cut)
    path.write_text(after, encoding="utf-8")
    return len(after.splitlines()) - len(before.splitlines())


def test_the_tutorial_shows_the_profile_that_is_shipped() -> None:
    import capplan

    shown = next(
        c for c in COMMANDS if c.page == "docs/tutorial.md" and "profile --demo" in c.text
    )
    stored = capplan.load_profile(ROOT / "examples" / "data" / "smollm2-lookup.json")
    assert agrees(shown.output, capplan.summarise_profile(stored))


# ---- Python


PYTHON = [
    (path, block)
    for path in PAGES
    for block in blocks(path.read_text(encoding="utf-8"))
    if block.language == "python" or (block.lines and block.lines[0] == "import capplan")
]


@pytest.mark.parametrize(
    ("path", "block"), PYTHON, ids=[f"{path.name}:{block.line}" for path, block in PYTHON]
)
def test_the_python_of_a_page_runs(
    path: Path, block: Block, kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docs_kit import page_folder

    monkeypatch.chdir(page_folder(kit, str(path.relative_to(ROOT)), tmp_path / "page"))
    exec(compile("\n".join(block.lines), str(path), "exec"), {"__name__": "page"})
