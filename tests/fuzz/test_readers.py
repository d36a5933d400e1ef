"""No file makes a reader do anything but return figures or refuse with a remedy."""

from __future__ import annotations

import random
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

CORPUS = Path(__file__).parents[2] / "tools" / "fuzz" / "corpus"
NAMES = sorted(path.name for path in CORPUS.iterdir() if path.is_dir())
SEEDS = [(path.parent.name, path.name) for path in sorted(CORPUS.glob("*/*"))]
MOST_CPU_S = 15.0
"""Of one reading; the slowest takes a second, six under coverage; astray, for ever."""


def fed(targets: Any, name: str, content: bytes, folder: Path) -> str:
    """Feed a reader and hold it to its promise and to the clock of its own process."""
    before_s = cpu_s()
    outcome: str = targets.check(targets.TARGETS[name], content, folder)
    assert cpu_s() - before_s < MOST_CPU_S
    return outcome


def cpu_s() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def test_every_reader_has_seeds(targets: Any) -> None:
    assert sorted(targets.TARGETS) == NAMES


@pytest.mark.parametrize(("name", "seed"), SEEDS, ids=str)
def test_seeds_are_read_and_what_once_did_harm_does_none(
    targets: Any, tmp_path: Path, name: str, seed: str
) -> None:
    outcome = fed(targets, name, (CORPUS / name / seed).read_bytes(), tmp_path)
    assert outcome == "read" or seed.startswith("regression-")


@pytest.mark.parametrize("name", NAMES)
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_a_broken_file_is_refused_or_read(
    targets: Any, mutations: Any, tmp_path: Path, name: str, seed: int
) -> None:
    rng = random.Random(seed)
    good = rng.choice(targets.TARGETS[name].seeds).read_bytes()
    fed(targets, name, mutations.mutated(good, rng), tmp_path)


HOSTILE = {
    "nothing": b"",
    "blanks": b" \n\t\r\n",
    "zeros": b"\x00" * 5000,
    "bytes": bytes(range(256)) * 20,
    "brackets": b"[" * 100_000,
    "braces": b'{"a":' * 100_000,
    "closed brackets": b"[" * 50_000 + b"]" * 50_000,
    "digits": b"[" + b"9" * 100_000 + b"]",
    "an infinity": b'{"schema_version": 1e999}',
    "quotes": b'"' * 100_001,
    "equals": b"=" * 200_000,
    "one line": b"a" * 1_000_000,
    "commas": b"," * 200_000,
    "lines": b"\n" * 200_000,
    "dashes": b"- " * 100_000,
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "mark alone": b"\xef\xbb\xbf",
    "half": b'{"a": "\\ud800"}',
    "aliases": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        f"{chr(i + 1)}: &{chr(i + 1)} [{','.join([f'*{chr(i)}'] * 9)}]\n".encode()
        for i in range(ord("a"), ord("k"))
    ),
    "itself": b"jobs: &a [*a]\nservices: *a\n",
    "a size of 2^63": b"\xff" * 8 + b"{}",
    "a line of vLLM": b"Iteration(1): 0 context requests, " + b"1" * 300_000,
    "a line of SGLang": b"Decode batch. #running-req: "
    + b"9" * 300_000
    + b"\n"
    + b"DP1 " * 50_000,
    "numbers of a log": b"SpecDecoding metrics: Mean acceptance length: 1.2.3, Accepted: 9 "
    b"tokens, Drafted: 9 tokens, Per-position acceptance rate: " + b"0.1, " * 50_000,
    "a histogram": b'{"speculative_decoding": {"acceptance_histogram": ['
    + b"1," * 50_000
    + b"1]}}",
    "JSON lines of halves": b"{}\n" + b'{"a": \n' * 20_000,
    "JSON lines of lists": b"{}\n" + b"[1,\n" * 900 + b"1,\n" * 10_000,
    "GGUF of 2^60 tensors": b"GGUF\x03\x00\x00\x00" + b"\x00" * 7 + b"\x10" * 9,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_content_is_refused_by_all_readers_at_once(
    targets: Any, tmp_path: Path, content: bytes
) -> None:
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        fed(targets, name, content, folder)


def test_what_a_reader_takes_in_is_bounded(targets: Any, tmp_path: Path) -> None:
    """A file with a hole of gigabytes costs nothing to make and must cost nothing to refuse."""
    for name, target in targets.TARGETS.items():
        path = tmp_path / name / target.file
        path.parent.mkdir()
        with path.open("wb") as stream:
            stream.truncate(20 * 2**30)
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with suppress(targets.CapplanError):
            target.read(path)
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
        assert grown_kb < 100_000 or sys.platform == "darwin", name
