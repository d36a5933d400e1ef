"""The training text: chunks that the target wrote, one file each, written whole or not at all.

A chunk depends on its number, the seed and the chunk before it in its lane alone, so that an
interrupted run goes on where it stopped and arrives at the same text. Two lanes, because two
processes of one thread each finish sooner on two cores than one process of two threads.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from demo_draft.prompts import compose_many
from demo_draft.writer import Writer, Written

LANES = 2
ROWS = 96
MAX_TOKENS = 160
WARM_EVERY, WARM_TEMPERATURE = 6, 0.8
"""Every so many rows one is sampled, so that the draft also sees text off the greedy path."""
SHORT_TASKS = ("code", "qa", "maths", "creative")
LONG_TASKS = ("translation", "summary")
LONG_EVERY = 3
"""Each third chunk of a lane has the tasks whose prompts carry a text: prompts of like length."""


@dataclass(frozen=True)
class Plan:
    """What decides the text, beside the target."""

    seed: int = 0
    rows: int = ROWS
    max_tokens: int = MAX_TOKENS


Encode = Callable[[str], list[int]]
Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class Author:
    """The target with its tokenizer, and which prompts it must not see."""

    writer: Writer
    encode: Encode
    decode: Decode
    is_forbidden: Callable[[str], bool]


def write_chunk(author: Author, plan: Plan, number: int, folder: Path) -> Path:
    """Write chunk ``number`` unless it is there, and return its file."""
    file = chunk_file(folder, number)
    if file.is_file():
        return file
    source = random.Random(f"{plan.seed}-{number}")
    before = number - LANES
    passages = passages_of(author, read_chunk(chunk_file(folder, before))) if before >= 0 else []
    is_long = number // LANES % LONG_EVERY == LONG_EVERY - 1
    tasks = LONG_TASKS if is_long else SHORT_TASKS
    prompts = compose_many(tasks, plan.rows, source, author.is_forbidden, passages)
    rows = sorted((author.encode(prompt) for prompt in prompts), key=len)
    warm = [WARM_TEMPERATURE if row % WARM_EVERY == 0 else 0.0 for row in range(len(rows))]
    numbers = torch.Generator().manual_seed(source.getrandbits(60))
    save_chunk(file, author.writer.write(rows, plan.max_tokens, warm, numbers))
    return file


def chunk_file(folder: Path, number: int) -> Path:
    """Return where chunk ``number`` is kept."""
    return folder / f"chunk-{number:04d}.npz"


def passages_of(author: Author, written: Sequence[Written]) -> list[str]:
    """Return one to three whole sentences from the middle of each text that has them."""
    found = []
    for index, row in enumerate(written):
        sentences = re.findall(r"[A-Z][^.!?\n*#`:]{20,160}[.!?]", author.decode(row.text))
        wanted = 1 + index % 3
        if len(sentences) > wanted:
            found.append(" ".join(sentences[1 : 1 + wanted]))
    return found


def save_chunk(file: Path, written: Sequence[Written]) -> None:
    """Write a chunk aside and move it into its place."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_suffix(f".{os.getpid()}.part")
    with aside.open("wb") as stream:
        np.savez(
            stream,
            prompts=np.array(json.dumps([row.prompt for row in written])),
            texts=np.array(json.dumps([row.text for row in written])),
            states=np.concatenate([row.states for row in written]),
        )
    aside.replace(file)


def read_chunk(file: Path) -> list[Written]:
    """Read a chunk back."""
    with np.load(file) as stored:
        prompts = json.loads(str(stored["prompts"]))
        texts = json.loads(str(stored["texts"]))
        states: np.ndarray[Any, Any] = stored["states"]
    ends = np.cumsum([len(text) for text in texts])
    parts = np.split(states, ends[:-1])
    return [Written(*row) for row in zip(prompts, texts, parts, strict=True)]


def read_all(folder: Path) -> Iterator[Written]:
    """Read every chunk, in order."""
    for file in sorted(folder.glob("chunk-*.npz")):
        yield from read_chunk(file)
