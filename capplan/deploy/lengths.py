"""A length of speculation for every batch size: the engine's own table, checked before it is used.

vLLM reads ``num_speculative_tokens_per_batch_size`` when it builds its scheduler, minutes after
the start, so what it would refuse there is refused here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from capplan.errors import RequestError

Lengths = tuple[tuple[int, int, int], ...]
"""(first batch, last batch, N), batches counted in requests of a step and both ends included."""

_SHAPE = "Write ranges of batches with their lengths: [[1,16,3],[17,64,1],[65,256,0]]"


def parse_lengths(text: str) -> Lengths:
    """Read ``[[1,16,3],[17,64,0]]``.

    Raises
    ------
    RequestError
        If it is not that, or not what ``check_lengths`` takes.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"Lengths by batch are not JSON: {error}.", _SHAPE) from error
    if not isinstance(given, list) or not all(_is_triple(row) for row in given):
        raise RequestError(f"Lengths by batch have another shape: {text[:80]}.", _SHAPE)
    return check_lengths(given)


def _is_triple(row: object) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(type(cell) is int for cell in row)


def check_lengths(rows: Iterable[Sequence[int]]) -> Lengths:
    """Return the ranges if every batch from 1 on has exactly one length.

    The engine itself fills a gap with the length before it; here a gap is refused, as nobody
    meant it.

    Raises
    ------
    RequestError
        For a table that does not start at 1, has a gap, an overlap, a negative length, or no
        batch that speculates.
    """
    lengths: Lengths = tuple((first, last, length) for first, last, length in rows)
    problem = _problem(lengths)
    if problem:
        raise RequestError(f"Lengths by batch: {problem}.", _SHAPE)
    return lengths


def _problem(lengths: Lengths) -> str:
    if not lengths:
        return "there is no range"
    expected = 1
    for first, last, length in lengths:
        if first != expected:
            where = "the first range" if expected == 1 else f"the range after batch {expected - 1}"
            return f"{where} starts at batch {first}, expected {expected}"
        if last < first:
            return f"the range from batch {first} ends at {last}"
        if length < 0:
            return f"batches {first} to {last} have the length {length}"
        expected = last + 1
    if all(length == 0 for _, _, length in lengths):
        return "no batch speculates; leave the draft out instead"
    return ""


def longest(lengths: Lengths) -> int:
    """Return the largest N of the table."""
    return max(length for _, _, length in lengths)


def clipped(lengths: Lengths, max_num_seqs: int) -> Lengths:
    """Return the table for batches up to the engine's limit, the last range carried on to it."""
    kept = [row for row in lengths if row[0] <= max_num_seqs]
    first, _, length = kept[-1]
    return (*kept[:-1], (first, max_num_seqs, length))


def widest_batches(lengths: Lengths, length: int, max_num_seqs: int) -> dict[int, int]:
    """Return, for every N in use, the largest batch that runs with it."""
    if not lengths:
        return {length: max_num_seqs}
    return {tier: last for _, last, tier in clipped(lengths, max_num_seqs)}
