"""The launch as a POSIX shell command."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from functools import lru_cache

from capplan.deploy.fields import Place, engine_keywords, flags, values_at
from capplan.deploy.settings import Settings
from capplan.deploy.versions import EngineVersion

COMMENT_WIDTH = 97


def server_lines(settings: Settings, version: EngineVersion) -> list[list[str]]:
    """Return the server's command: program and target first, then a flag with its words each."""
    server = values_at(settings, version, Place.SERVER)
    keywords = {**server, **engine_keywords(settings, version)}
    return [["vllm", "serve", settings.target], *flags(keywords)]


def server_words(settings: Settings, version: EngineVersion) -> list[str]:
    """Return the server's command as the words that a shell would hand over."""
    return [word for line in server_lines(settings, version) for word in line]


def render_command(settings: Settings, version: EngineVersion, notes: Sequence[str] = ()) -> str:
    """Return the command, a flag a line, with notes on comment lines above it."""
    lines = [_line(tuple(words)) for words in server_lines(settings, version)]
    return "".join(
        (
            _preamble(settings),
            *(f"{comment(note)}\n" for note in notes),
            " \\\n  ".join(lines),
        )
    )


@lru_cache(4096)
def _line(words: tuple[str, ...]) -> str:
    """Quote the words of one flag; a plan's thousand commands differ in a few of them."""
    return shlex.join(words)


@lru_cache(1024)
def comment(text: str) -> str:
    """Return a text as comment lines of a shell, of Python and of YAML.

    Whatever one of the three takes for the end of a line becomes a blank.
    """
    return textwrap.fill(
        " ".join(text.split()),
        COMMENT_WIDTH,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _preamble(settings: Settings) -> str:
    """Say on a comment line that the command starts one replica of several."""
    if settings.replicas == 1:
        return ""
    if settings.device == "cpu":
        group = "machine"
    else:
        group = f"group of {settings.tensor_parallel} GPU{'s' * (settings.tensor_parallel > 1)}"
    return f"# one of {settings.replicas} replicas: run this once for every {group}\n"
