"""Prompts to measure acceptance on: the shipped set for six tasks, or a file of the user's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from capplan.errors import PromptsError

CUSTOM_TASK = "custom"
_FORMATS = (
    "Give one prompt a line, or JSON lines such as "
    '{"prompt": "Write a haiku", "task": "creative"}.'
)


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

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of the file."""
        return tuple(self.by_task)

    @property
    def sha256(self) -> str:
        """Hash of all prompts with their tasks: two runs with the same hash saw the same text."""
        pairs = [[task, p.text] for task, prompts in self.by_task.items() for p in prompts]
        return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()


def embedded_prompts() -> PromptSet:
    """Return the prompts shipped with capplan: eight for each of six tasks."""
    text = files("profiler").joinpath("data/prompts.jsonl").read_text(encoding="utf-8")
    return _collect(text, "prompts.jsonl")


def load_prompts(path: str | Path) -> PromptSet:
    """Read prompts from JSON lines (``prompt``, optional ``task``) or plain text, one a line.

    Raises
    ------
    PromptsError
        If the file cannot be read, is empty, is not UTF-8, or has a line that is not a prompt.
    """
    file = Path(path)
    return _collect(_read_text(file), file.name)


def _read_text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"0x{error.object[error.start]:02x}"
        raise PromptsError(
            f"{file.name} is not UTF-8 text: byte {error.start} is {byte}.",
            f"Save it as UTF-8, for example: iconv -f latin1 -t utf-8 {file.name}",
        ) from error
    except OSError as error:
        raise PromptsError(
            f"Cannot read the prompts file {file}: {error.strerror or error}.", "Check the path."
        ) from error


def _collect(text: str, name: str) -> PromptSet:
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise PromptsError(f"{name} holds no prompts.", _FORMATS)
    is_json = lines[0][1].lstrip().startswith("{")
    by_task: dict[str, list[Prompt]] = {}
    for task, prompt in _json_prompts(lines, name) if is_json else _plain_prompts(lines):
        by_task.setdefault(task, []).append(prompt)
    return PromptSet({task: tuple(prompts) for task, prompts in by_task.items()}, name)


def _plain_prompts(lines: Iterable[tuple[int, str]]) -> Iterable[tuple[str, Prompt]]:
    for number, line in lines:
        yield CUSTOM_TASK, Prompt(line.strip(), number)


def _json_prompts(lines: Iterable[tuple[int, str]], name: str) -> Iterable[tuple[str, Prompt]]:
    for number, line in lines:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise PromptsError(f"{name}:{number}: not JSON ({error.msg}).", _FORMATS) from error
        text = row.get("prompt") if isinstance(row, dict) else None
        task = row.get("task", CUSTOM_TASK) if isinstance(row, dict) else None
        if not isinstance(text, str) or not text.strip() or not isinstance(task, str) or not task:
            raise PromptsError(
                f'{name}:{number}: expected an object with "prompt" (text) and, if wanted, '
                f'"task" (a name); got {line.strip()[:60]!r}.',
                _FORMATS,
            )
        yield task, Prompt(text, number)


def too_long_error(source: str, prompt: Prompt, tokens: int, limit: int) -> PromptsError:
    """Return the error for a prompt that leaves no room for the text to be generated."""
    return PromptsError(
        f"{source}:{prompt.line}: the prompt has {tokens} tokens, at most {limit} fit into the "
        "context beside the text to be generated.",
        "Shorten the prompt, lower --max-tokens, or profile an LLM with a longer context.",
    )
