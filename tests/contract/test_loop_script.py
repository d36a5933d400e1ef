"""The script of the whole loop and its page: commands and options that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from capplan.cli.main import cli

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "loop.sh"
PAGE = ROOT / "docs" / "the-loop.md"
_COMMAND = re.compile(r"\bcapplan ([a-z]+)((?: [^\n;&|)>]*)?)")


def commands(path: Path) -> list[tuple[str, list[str]]]:
    """Return every command of capplan in a file with its options."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    if path.suffix == ".md":
        lines = [line for line in lines if line.startswith("    $ ")]
    found = _COMMAND.findall("\n".join(lines))
    return [(name, re.findall(r"(?<=\s)(--?[a-z][a-z-]*)", rest)) for name, rest in found]


def known_options(name: str) -> set[str]:
    command = cli.get_command(None, name)  # type: ignore[arg-type] - our group ignores it
    assert command is not None, f"capplan {name}"
    return {option for param in command.params for option in param.opts}


def test_a_shell_can_read_the_script() -> None:
    done = subprocess.run(["bash", "-n", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SCRIPT.stat().st_mode & 0o111, "not executable"
    assert "set -euo pipefail" in SCRIPT.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [SCRIPT, PAGE], ids=lambda path: path.name)
def test_every_command_and_option_exists(path: Path) -> None:
    found = commands(path)
    assert {"profile", "recommend", "launch", "watch", "diff"} <= {name for name, _ in found}
    for name, options in found:
        assert set(options) <= known_options(name), name


def test_the_script_goes_round_once() -> None:
    names = [name for name, _ in commands(SCRIPT)]
    for earlier, later in (("recommend", "launch"), ("launch", "watch"), ("watch", "diff")):
        assert names.index(earlier) < names.index(later)
    assert names.count("profile") >= 2


def test_without_an_engine_it_says_what_it_needs(tmp_path: Path) -> None:
    done = subprocess.run(
        ["/bin/bash", str(SCRIPT), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert done.returncode == 2
    assert "no vllm on PATH" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_page_names_no_machine() -> None:
    assert not re.search(r"/root|/work\b|/tmp\b", PAGE.read_text(encoding="utf-8"))
