"""Markdown pages read as a reader does: which commands they print, and what stands under each.

A command is a logical line of a code block that

- begins with ``$ ``; then every other line of the block is output, up to the next ``$ ``;
- or stands in a block fenced as ``console``, ``bash`` or ``sh``;
- or is a line of a ``run:`` step of a fenced GitHub workflow;
- or begins with a program of ``PROGRAMS`` in any other block.

What follows a command in its block is its pasted output; so is a block right under a line that is
nothing but a command in backticks. Commands inside sentences are read too: they name options, and
rarely all that it takes to run. A block whose first line is ``# NAME`` is a file of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

PROGRAMS = re.compile(
    r"(?:[A-Z_]+=\S+ +)*"
    r"(capplan|make|python3?|python3\.\d+|pytest|pip|ray|eval|cd|cat|cp|git|source|vllm|docker|nvidia-smi"
    r"|(?:\./)?(?:tools|examples|\.ci)/[\w./]+|\S+/bin/\w+)(?= |$)"
)
_SHELLS = ("console", "bash", "sh", "shell")
_REMARK = re.compile(r"( {2,}(?=[^\s\-\\'\"])| # ).*$")
_ONLY_A_COMMAND = re.compile(r"^\(?`([^`]+)`\)?:?$")
_IN_A_SENTENCE = re.compile(r"`([^`\n]+)`")
_FILE_NAME = re.compile(r"^# ?([\w.-]+\.\w+)$")


@dataclass(frozen=True)
class Block:
    """A code block: its language ("" where indented), its lines without indentation."""

    line: int
    language: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command of a page, on one line, without its remark; ``output`` is what is pasted.

    Partial ones stand in a sentence or hold ``...``: they name options, but cannot be run.
    """

    page: str
    line: int
    text: str
    output: tuple[str, ...] = ()
    is_partial: bool = False
    output_line: int = 0

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def blocks(text: str) -> list[Block]:
    """Return the code blocks of a page, fenced and indented."""
    found: list[Block] = []
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        fence = re.match(r" *(```+)\s*(\w*)", lines[index])
        is_indented = lines[index].startswith("    ") and (index == 0 or not lines[index - 1])
        if fence:
            end = _end_of_fence(lines, index, fence[1])
            body = lines[index + 1 : end]
            found.append(Block(index + 2, fence[2], tuple(_without_margin(body))))
            index = end
        elif is_indented:
            end = _end_of_indent(lines, index)
            found.append(Block(index + 1, "", tuple(_without_margin(lines[index:end]))))
            index = end - 1
        index += 1
    return found


def _end_of_fence(lines: list[str], start: int, fence: str) -> int:
    for index in range(start + 1, len(lines)):
        if lines[index].strip().startswith(fence):
            return index
    return len(lines)


def _end_of_indent(lines: list[str], start: int) -> int:
    end = start
    for index in range(start, len(lines)):
        if lines[index].startswith("    "):
            end = index + 1
        elif lines[index].strip():
            break
    return end


def _without_margin(lines: list[str]) -> list[str]:
    filled = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    return [line[margin:] for line in lines]


def commands(path: Path, root: Path) -> list[Command]:
    """Return every command of a page, in order."""
    page, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
    found = [command for block in blocks(text) for command in _of_block(page, block)]
    found += _of_sentences(page, text)
    return sorted(found, key=lambda command: command.line)


def files(path: Path) -> dict[str, str]:
    """Return the files that a page shows whole: fenced blocks that begin with their name."""
    shown: dict[str, str] = {}
    for block in blocks(path.read_text(encoding="utf-8")):
        name = _FILE_NAME.match(block.lines[0]) if block.lines else None
        if block.language and name:
            shown[name[1]] = "\n".join(block.lines) + "\n"
    return shown


def _of_block(page: str, block: Block) -> Iterator[Command]:
    if block.language in ("yaml", "yml") and any("run:" in line for line in block.lines):
        yield from _of_workflow(page, block)
        return
    if block.language in ("yaml", "yml", "json", "python"):
        return
    prompted = any(line.startswith("$ ") for line in block.lines)
    starts = [index for index in _logical_starts(block) if _is_command(block, index, prompted)]
    for index, following in pairwise([*starts, len(block.lines)]):
        text, end = _joined(block.lines, index)
        body = block.lines[end:following]
        first = next((i for i, line in enumerate(body) if line.strip()), len(body))
        bare = _REMARK.sub("", re.sub(r" +(?=-)", " ", text.removeprefix("$ "))).strip()
        yield Command(
            page,
            block.line + index,
            bare,
            tuple(_trimmed(body)),
            is_partial="..." in bare.split(),
            output_line=block.line + end + first,
        )


def _is_command(block: Block, index: int, prompted: bool) -> bool:
    line = block.lines[index]
    if prompted:
        return line.startswith("$ ")
    if block.language in _SHELLS:
        return bool(line.strip()) and not line.startswith("#")
    return PROGRAMS.match(line) is not None


def _logical_starts(block: Block) -> list[int]:
    """Return the lines that do not go on from the one before."""
    return [
        index
        for index, line in enumerate(block.lines)
        if line.strip() and not (index and block.lines[index - 1].endswith("\\"))
    ]


def _joined(lines: tuple[str, ...], index: int) -> tuple[str, int]:
    """Return the command that begins at a line, and the line after its last."""
    parts = []
    for end in range(index, len(lines)):
        parts.append(lines[end].rstrip("\\").strip())
        if not lines[end].endswith("\\"):
            return " ".join(parts), end + 1
    return " ".join(parts), len(lines)


def _trimmed(lines: tuple[str, ...]) -> list[str]:
    filled = [index for index, line in enumerate(lines) if line.strip()]
    return list(lines[filled[0] : filled[-1] + 1]) if filled else []


def _of_workflow(page: str, block: Block) -> Iterator[Command]:
    for step in _runs(yaml.safe_load("\n".join(block.lines))):
        for line in re.sub(r"\\\n\s*", "", step).splitlines():
            if line.strip() and not line.startswith("#"):
                yield Command(page, block.line, line.strip())


def _runs(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "run" and isinstance(value, str):
                yield value
            else:
                yield from _runs(value)
    elif isinstance(node, list):
        for item in node:
            yield from _runs(item)


def _of_sentences(page: str, text: str) -> Iterator[Command]:
    lines = text.splitlines()
    covered = {block.line + offset for block in blocks(text) for offset in range(len(block.lines))}
    at = {block.line: block for block in blocks(text)}
    for number, line in enumerate(lines, start=1):
        if number in covered:
            continue
        alone = _ONLY_A_COMMAND.match(line)
        under = at.get(number + 2)
        if alone and PROGRAMS.match(alone[1]) and under is not None:
            yield Command(page, number, alone[1], under.lines, output_line=under.line)
            continue
        for code in _IN_A_SENTENCE.findall(line):
            if PROGRAMS.match(code) and " " in code:
                yield Command(page, number, code.replace("\\|", "|"), is_partial=True)
