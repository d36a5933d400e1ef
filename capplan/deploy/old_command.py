"""Find the server's command in a shell text: what stands before it, its arguments, what after."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from capplan.deploy.shell_words import Kind, Piece, cut
from capplan.deploy.versions import EngineVersion
from capplan.errors import RequestError

_MODULES = {
    "vllm.entrypoints.openai.api_server": "deprecated: vllm serve is the same server",
    "vllm.entrypoints.cli.main": "the long way to write it",
    "vllm.entrypoints.api_server": (
        "removed: the OpenAI-compatible server takes its place, under /v1/completions"
    ),
}
_PYTHON = re.compile(r"python[\d.]*")
_IMAGE = re.compile(r"(?P<name>(?:[\w.:-]+/)?vllm/vllm-openai(?:-cpu)?)(?::[\w.-]+)?(?:@[\w:]+)?")
_SERVE = ("vllm", "serve")


@dataclass
class OldCommand:
    """A server's command in its text."""

    begin: int
    """Where it begins in the text, its variables included."""
    end: int
    prefix: list[str]
    """Variables, ``nohup``, ``docker run ...``: what is kept before the program."""
    program: list[str]
    """The program as it is written now."""
    arguments: list[Piece]
    redirections: list[str] = field(default_factory=list)
    changes: list[tuple[str, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    mended: bool = False
    """Whether it fell apart for a shell and was put together."""


def find_command(text: str, version: EngineVersion) -> OldCommand:
    """Return the first command that starts a server.

    Raises
    ------
    RequestError
        If there is none.
    """
    pieces = cut(text)
    for at, piece in enumerate(pieces):
        length = _program_length(pieces, at) if piece.kind is Kind.WORD else 0
        if length:
            return _gather(pieces, at, length, version)
    raise RequestError(
        "The command starts no vLLM server.",
        "Give one that holds vllm serve, python -m vllm.entrypoints.openai.api_server, or an "
        "image vllm/vllm-openai.",
    )


def _program_length(pieces: Sequence[Piece], at: int) -> int:
    """Return how many words the program takes, 0 if none begins here."""
    words = [piece.value or "" for piece in pieces[at : at + 6] if piece.kind is Kind.WORD]
    name = PurePosixPath(words[0]).name
    if name == "vllm" and words[1:2] == ["serve"]:
        return 2
    if _PYTHON.fullmatch(name) and "-m" in words:
        module = words.index("-m") + 1
        return module + 1 if words[module : module + 1] and words[module] in _MODULES else 0
    return 1 if _IMAGE.fullmatch(words[0]) else 0


def _gather(pieces: list[Piece], at: int, length: int, version: EngineVersion) -> OldCommand:
    first = at
    while first and pieces[first - 1].kind is Kind.WORD:
        first -= 1
    program = pieces[at : at + length]
    found = OldCommand(
        begin=pieces[first].at,
        end=program[-1].end,
        prefix=[piece.raw for piece in pieces[first:at]],
        program=_program(program, version),
        arguments=[],
    )
    old, new = " ".join(piece.raw for piece in program), " ".join(found.program)
    if old != new:
        found.changes.append((old, new, _program_reason(program, version)))
    _take_arguments(found, pieces[at + length :])
    return found


def _program(words: Sequence[Piece], version: EngineVersion) -> list[str]:
    image = _IMAGE.fullmatch(words[0].value or "")
    if image is not None:
        return [f"{image['name']}:v{version.full}"]
    if words[-1].value not in _MODULES:
        return [word.raw for word in words]
    folder = PurePosixPath(words[0].value or "").parent
    here = str(folder) == "."
    # a script of the same environment lies beside its interpreter
    return [_SERVE[0] if here else str(folder / _SERVE[0]), _SERVE[1]]


def _program_reason(words: Sequence[Piece], version: EngineVersion) -> str:
    return _MODULES.get(words[-1].value or "", f"the image of {version}")


def _take_arguments(found: OldCommand, rest: Sequence[Piece]) -> None:
    """Take words up to the end of the command, over comments and lines that broke it."""
    at = 0
    while at < len(rest):
        piece = rest[at]
        if piece.kind is Kind.WORD:
            found.arguments.append(piece)
        elif _redirects(piece):
            target = rest[at + 1 : at + 2]
            raw = "".join(word.raw for word in target)
            spaced = piece.raw if piece.raw.endswith("&") else f"{piece.raw} "
            found.redirections.append(f"{spaced}{raw}".strip())
            at += len(target)
        else:
            skipped = _to_next_flag(rest, at)
            if not skipped:
                return
            _broken(found)
            at += skipped
            continue
        at += 1
        found.end = rest[at - 1].end


def _redirects(piece: Piece) -> bool:
    return piece.kind is Kind.OPERATOR and piece.raw.lstrip("0123456789&")[:1] in ("<", ">")


def _to_next_flag(rest: Sequence[Piece], at: int) -> int:
    """Return how many pieces part the command from flags on a later line, 0 if none follow."""
    skipped = at
    while skipped < len(rest) and rest[skipped].kind in (Kind.NEWLINE, Kind.COMMENT):
        skipped += 1
    follows = skipped < len(rest) and rest[skipped].raw.startswith("--")
    return skipped - at if follows else 0


def _broken(found: OldCommand) -> None:
    found.mended = True
    found.notes.append(
        "A comment or a line end without \\ inside the command ended it for the shell: the flags "
        "after it never reached the server. They are taken as meant."
    )
