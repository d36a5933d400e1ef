"""How large and how deep a file of each kind may be: far above any real one, far below harm.

``docs/untrusted-files.md`` shows these as a table; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass

_MB = 10**6


@dataclass(frozen=True)
class Limits:
    """What a file of one kind may be.

    Attributes
    ----------
    what
        The kind, for people.
    most_bytes
        Of the file; of what it unpacks to, where it is packed.
    deepest
        Levels of lists and objects in each other; 0 where nothing is nested.
    most_groups
        Lists and objects (JSON), nodes (YAML) or entries (weight files) in all: the memory that
        they take once read is many times that of their text.
    """

    what: str
    most_bytes: int
    deepest: int = 0
    most_groups: int = 0


PROFILE = Limits("profile", 64 * _MB, 32, 1_000_000)
SIDECAR = Limits("sidecar of a profile", 256 * _MB, most_groups=10_000)
PLAN = Limits("plan", 64 * _MB, 32, 1_000_000)
CALIBRATION = Limits("calibration", 8 * _MB, 32, 100_000)
CONFIG = Limits("configuration of a checkpoint", 64 * _MB, 32, 1_000_000)
TOKENIZER = Limits("tokenizer", 256 * _MB, 32, 4_000_000)
MODEL_CARD = Limits("model card", 20_000)
WEIGHT_INDEX = Limits("index of weight files", 128 * _MB, 8, 10_000)
SAFETENSORS_HEADER = Limits("header of a safetensors file", 100 * _MB, 4, 3_000_000)
"""The size is the format's own limit."""
GGUF_HEADER = Limits("header of a GGUF file", 512 * _MB, 3, 5_000_000)
"""A vocabulary stands in it, with scores and merges."""
PROMPTS = Limits("prompts", 1_000 * _MB, 32, 10_000_000)
"""Public collections of conversations have 700 MB."""
RESULTS = Limits("results of another tool", 256 * _MB, 64, 4_000_000)
METRICS = Limits("metrics text", 64 * _MB)
WORKLOAD = Limits("workload", 1 * _MB, 24, 20_000)
JOBS = Limits("file of jobs", 2 * _MB, 24, 60_000)
TRACE = Limits("trace of requests", 8 * 2**30)
PRICES = Limits("price file", 32 * _MB, 8, 500_000)
FACTS = Limits("table of facts", 32 * _MB)
ENGINE = Limits("constants of an engine", 1 * _MB, 24, 50_000)
PUBLISHED = Limits("published measurements", 8 * _MB)
JOB_INPUT = Limits("file that a job reads", 1_000 * _MB)
JOB_RECORD = Limits("record of a job", 8 * _MB, 16, 100_000)
SMALL_TEXT = Limits("file of the system", 1 * _MB)

KINDS = (
    *(PROFILE, SIDECAR, PLAN, CALIBRATION, CONFIG, TOKENIZER, MODEL_CARD, WEIGHT_INDEX),
    *(SAFETENSORS_HEADER, GGUF_HEADER, PROMPTS, RESULTS, METRICS, WORKLOAD, JOBS, TRACE),
    *(PRICES, FACTS, ENGINE, PUBLISHED, JOB_INPUT, JOB_RECORD, SMALL_TEXT),
)
"""All of them, in the order of the documentation."""

LONGEST_LINE_BYTES = 16 * 2**20
"""Of a trace: a line without an end would be held whole."""
LONGEST_NUMBER = 400
"""Digits: the largest number of 64 bits has 20, the longest float written out some 310."""


def in_words(size_bytes: float) -> str:
    """Return a size for people: ``64 MB``."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:,.3g} {unit}"
    return f"{size_bytes:,.0f} bytes"
