"""Whether the arrays of a sidecar are the traces that a profile says they are.

Whoever replays them trusts lengths and places; what does not fit is refused here, when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from capplan.schema.cells import AcceptanceCell
from capplan.schema.profile import Profile

Arrays = Mapping[str, NDArray[Any]]

_LONGEST_DRAFT = 255
"""Counts of a round are of one byte."""
_ROUNDING = 1e-3
"""Probabilities are of single precision."""
_TOKENS = {"per_start": "proposed", "per_round": "drafted"}
"""The array beside ``accepted``: what was drafted."""


def wrong_trace(profile: Profile, arrays: Arrays) -> str:
    """Return what does not fit, as a clause; nothing if everything does."""
    for index, cell in enumerate(profile.acceptance):
        for problem in _problems(cell, f"acceptance/{index}", arrays):
            return f"acceptance/{index}/{problem}"
    return ""


def _problems(cell: AcceptanceCell, prefix: str, arrays: Arrays) -> Iterator[str]:
    if cell.max_num_speculative_tokens > _LONGEST_DRAFT:
        yield f"max_num_speculative_tokens is above {_LONGEST_DRAFT}"
    offsets = arrays.get(f"{prefix}/offsets")
    if offsets is None:
        yield "offsets is not there"
        return
    if not _are_counts(offsets, cell.requests + 1) or not _ascend(offsets):
        yield f"offsets does not part {cell.requests:,} requests"
        return
    length = int(offsets[-1])
    if cell.trace_kind == "per_token":
        yield from _wrong_probabilities(prefix, arrays, length)
    else:
        yield from _wrong_counts(prefix, arrays, length, _TOKENS[cell.trace_kind])
    prompts = arrays.get(f"{prefix}/prompt_tokens")
    if prompts is not None and not _are_counts(prompts, cell.requests):
        yield f"prompt_tokens is not a count for each of {cell.requests:,} requests"


def _wrong_probabilities(prefix: str, arrays: Arrays, length: int) -> Iterator[str]:
    for name in ("accept_greedy", "accept_probabilistic", "draft_confidence"):
        found = arrays.get(f"{prefix}/{name}")
        if found is None and name == "draft_confidence":
            continue
        if found is None:
            yield f"{name} is not there"
        elif found.shape != (length,) or found.dtype.kind != "f":
            yield f"{name} is not a probability for each of {length:,} tokens"
        elif length and not (found.min() >= -_ROUNDING and found.max() <= 1 + _ROUNDING):
            yield f"{name} leaves 0 to 1"


def _wrong_counts(prefix: str, arrays: Arrays, length: int, name: str) -> Iterator[str]:
    drafted, accepted = arrays.get(f"{prefix}/{name}"), arrays.get(f"{prefix}/accepted")
    if drafted is None or accepted is None:
        yield f"{name if drafted is None else 'accepted'} is not there"
    elif not _are_counts(drafted, length) or not _are_counts(accepted, length):
        yield f"accepted and {name} are not counts for each of {length:,} places"
    elif length and (drafted.max() > _LONGEST_DRAFT or (accepted > drafted).any()):
        yield f"accepted is more than {name}, or that above {_LONGEST_DRAFT}"


def _are_counts(array: NDArray[Any], length: int) -> bool:
    is_whole = array.dtype.kind in "iu" and array.shape == (length,)
    return is_whole and (not length or int(array.min()) >= 0)


def _ascend(offsets: NDArray[Any]) -> bool:
    return int(offsets[0]) == 0 and bool((offsets[1:] >= offsets[:-1]).all())
