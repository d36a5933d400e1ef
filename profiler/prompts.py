"""Prompts to measure acceptance on: the shipped set for six tasks, or files of the user's own.

Files as people have them: a prompt a line; JSON lines with ``prompt`` (and ``task`` or
``category``); Spec-Bench and MT-Bench questions (``turns``, ``category``); chats as ShareGPT
(``conversations``) or OpenAI (``messages``) keep them. Of a conversation the first turn of the
user is taken: what follows depends on what another LLM answered.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from capplan.errors import PromptsError, UnreadableFileError
from capplan.inputs.documents import parse_json
from capplan.inputs.limits import PROMPTS
from capplan.inputs.reading import read_text

CUSTOM_TASK = "custom"
_FORMATS = (
    "Give one prompt a line, or JSON lines such as "
    '{"prompt": "Write a haiku", "task": "creative"}; questions with "turns" and chats with '
    '"conversations" or "messages" are read too.'
)
_CHATS = {"conversations": ("from", "value"), "messages": ("role", "content")}
"""Where a chat keeps its turns, and what they call speaker and text."""
_ARRAY = re.compile(r'\s*\[\s*[{"\]]')
"""How a JSON array of prompts or chats begins; a line of text may begin with a bracket too."""
_USERS = frozenset({"human", "user"})


@dataclass(frozen=True)
class Prompt:
    """One user prompt and the line it came from."""

    text: str
    line: int


@dataclass(frozen=True)
class PromptSet:
    """Prompts by task, in the order of the file."""

    by_task: Mapping[str, tuple[Prompt, ...]]
    source: str
    """File name for messages."""
    left_out: int = 0
    """Conversations in which no user says anything; public collections have some."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of the file."""
        return tuple(self.by_task)

    @property
    def left_out_text(self) -> str:
        """What was left out, in words."""
        return f"{self.left_out} conversations of {self.source} have no turn of a user"

    @property
    def sha256(self) -> str:
        """Hash of all prompts with their tasks: two runs with the same hash saw the same text."""
        pairs = [[task, p.text] for task, prompts in self.by_task.items() for p in prompts]
        return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def embedded_prompts() -> PromptSet:
    """Return the prompts shipped with capplan: eight for each of six tasks."""
    text = files("profiler").joinpath("data/prompts.jsonl").read_text(encoding="utf-8")
    return _collect(text, "prompts.jsonl")


def load_prompts(path: str | Path | Sequence[str | Path]) -> PromptSet:
    """Read prompts from one file or several.

    Parameters
    ----------
    path
        Of one file, its tasks or categories keep their names. Of several, each file is a task
        named by its stem; where it names tasks itself, they are called ``stem/task``.

    Raises
    ------
    PromptsError
        If a file cannot be read, is empty, is not UTF-8, or has a line that is not a prompt; if
        two files have the same name.
    """
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(one) for one in path]
    sets = [_collect(_read_text(file), file.name) for file in paths]
    return sets[0] if len(sets) == 1 else _together(paths, sets)


def _together(paths: Sequence[Path], sets: Sequence[PromptSet]) -> PromptSet:
    by_task: dict[str, tuple[Prompt, ...]] = {}
    for file, prompts in zip(paths, sets, strict=True):
        for task, rows in prompts.by_task.items():
            name = file.stem if task == CUSTOM_TASK else f"{file.stem}/{task}"
            if name in by_task:
                raise PromptsError(
                    f"Two files of prompts are called {file.stem!r}: {file} cannot be told from "
                    "the one before.",
                    "Rename one, or give each file once.",
                )
            by_task[name] = rows
    source = ", ".join(prompts.source for prompts in sets)
    return PromptSet(by_task, source, sum(prompts.left_out for prompts in sets))


def _read_text(file: Path) -> str:
    try:
        return read_text(file, PROMPTS)
    except UnreadableFileError as error:
        raise PromptsError(
            f"Cannot read the prompts {file}: {error.reason}.",
            f"Give a file of text in UTF-8, for example: iconv -f latin1 -t utf-8 {file.name}",
        ) from error


def _collect(text: str, name: str) -> PromptSet:
    if _ARRAY.match(text):
        rows = _array_rows(text, name)
    elif text.lstrip().startswith("{"):
        rows = _line_rows(text, name)
    else:
        plain = enumerate(text.split("\n"), 1)
        by_line = [Prompt(line.strip(), number) for number, line in plain if line.strip()]
        return _checked({CUSTOM_TASK: by_line} if by_line else {}, name, 0)
    by_task: dict[str, list[Prompt]] = {}
    left_out = 0
    for number, row in rows:
        found = _prompt_of(row, f"{name}:{number}")
        if found is None:
            left_out += 1
        else:
            by_task.setdefault(found[0], []).append(Prompt(found[1], number))
    return _checked(by_task, name, left_out)


def _checked(by_task: Mapping[str, Sequence[Prompt]], name: str, left_out: int) -> PromptSet:
    if not by_task:
        empty = f": none of its {left_out} conversations has a user's turn" if left_out else ""
        raise PromptsError(f"{name} holds no prompts{empty}.", _FORMATS)
    return PromptSet({task: tuple(rows) for task, rows in by_task.items()}, name, left_out)


def _line_rows(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """Yield the rows of JSON lines with their numbers."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, parse_json(line, name, PROMPTS, finite=False, bounded=False)
        except UnreadableFileError as error:
            raise PromptsError(f"{name}:{number}: not JSON: {error.reason}.", _FORMATS) from error


def _array_rows(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """Yield the rows of one JSON array, numbered from 1."""
    try:
        rows = parse_json(text, name, PROMPTS, finite=False, bounded=False)
    except UnreadableFileError as error:
        place = f"{name}:{error.line or 1}"
        raise PromptsError(f"{place}: not a JSON array: {error.reason}.", _FORMATS) from error
    yield from enumerate(rows, 1)


def _prompt_of(row: Any, place: str) -> tuple[str, str] | None:
    """Return (task, prompt) of a row; None for a conversation in which no user speaks."""
    if isinstance(row, str) and row.strip():
        return CUSTOM_TASK, row
    if isinstance(row, dict):
        task = row.get("task", row.get("category", CUSTOM_TASK))
        is_chat = any(isinstance(row.get(key), list) for key in _CHATS)
        text = _first_user_turn(row) if is_chat else _text_of(row)
        if is_chat and text is None:
            return None
        if isinstance(task, str) and task and isinstance(text, str) and text.strip():
            return task, text
    raise PromptsError(
        f'{place}: expected an object with "prompt" (text) and, if wanted, "task" (a name), '
        f'"turns" or "conversations"; got {json.dumps(row, ensure_ascii=False)[:60]}.',
        _FORMATS,
    )


def _text_of(row: Mapping[str, Any]) -> Any:
    """Return what a row asks: its prompt, or the first turn of its question."""
    turns = row.get("turns")
    if isinstance(turns, list) and turns and "prompt" not in row:
        return turns[0]
    return row.get("prompt")


def _first_user_turn(row: Mapping[str, Any]) -> str | None:
    for key, (speaker, content) in _CHATS.items():
        turns = row.get(key)
        for turn in turns if isinstance(turns, list) else ():
            if not isinstance(turn, dict) or str(turn.get(speaker)) not in _USERS:
                continue
            text = _joined_parts(turn.get(content))
            if text.strip():
                return text
    return None


def _joined_parts(content: Any) -> str:
    """Return the text of a turn; newer chats keep it in parts, of which text ones count."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str))


def too_long_error(source: str, prompt: Prompt, tokens: int, limit: int) -> PromptsError:
    """Return the error for a prompt that leaves no room for the text to be generated."""
    return PromptsError(
        f"{source}:{prompt.line}: the prompt has {tokens} tokens, at most {limit} fit into the "
        "context beside the text to be generated.",
        "Shorten the prompt, lower --max-tokens, or profile an LLM with a longer context.",
    )
