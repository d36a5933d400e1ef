from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from profiler.backends.ngram import LookupIndex, replay


def naive_proposal(text: list[int], shortest: int, longest: int, count: int) -> list[int]:
    """Scan the text from its start for the longest suffix that occurs earlier."""
    for size in range(longest, shortest - 1, -1):
        suffix = text[-size:]
        for start in range(len(text) - size):
            if text[start : start + size] == suffix and len(suffix) == size:
                return text[start + size : start + size + count]
    return []


def proposal(text: list[int], shortest: int, longest: int, count: int) -> list[int]:
    index = LookupIndex(shortest, longest)
    index.extend(text)
    return index.propose(count)


def test_the_longest_match_wins_over_an_earlier_shorter_one() -> None:
    assert proposal([2, 8, 1, 2, 9, 1, 2], 1, 2, 2) == [9, 1]


def test_the_earliest_of_equally_long_matches_wins() -> None:
    assert proposal([1, 2, 3, 7, 1, 2, 4, 7, 1, 2], 2, 2, 1) == [3]


def test_a_match_may_overlap_the_suffix() -> None:
    assert proposal([5, 5, 5], 2, 2, 4) == [5]


def test_the_draft_stops_where_the_text_does() -> None:
    assert proposal([1, 2, 3, 1, 2], 2, 2, 10) == [3, 1, 2]


def test_no_match_proposes_nothing() -> None:
    assert proposal([1, 2, 3, 4], 1, 3, 4) == []


def test_a_text_shorter_than_the_ngram_proposes_nothing() -> None:
    assert proposal([1], 1, 3, 4) == []


@given(
    text=st.lists(st.integers(0, 3), max_size=30),
    pieces=st.lists(st.integers(1, 5), max_size=10),
    bounds=st.tuples(st.integers(1, 4), st.integers(1, 4)).map(sorted),
    count=st.integers(1, 6),
)
def test_the_index_agrees_with_a_naive_search_at_every_length(
    text: list[int], pieces: list[int], bounds: list[int], count: int
) -> None:
    index = LookupIndex(bounds[0], bounds[1])
    known = 0
    for piece in [*pieces, len(text)]:
        index.extend(text[known : known + piece])
        known = min(len(text), known + piece)
        assert index.propose(count) == naive_proposal(text[:known], *bounds, count)


@given(
    prompt=st.lists(st.integers(0, 3), max_size=15),
    generated=st.lists(st.integers(0, 3), max_size=15),
)
def test_replay_compares_each_proposal_with_what_was_written(
    prompt: list[int], generated: list[int]
) -> None:
    proposed, accepted = replay(prompt, generated, 1, 3, 5)
    for position in range(len(generated)):
        draft = naive_proposal(prompt + generated[:position], 1, 3, 5)
        rest = generated[position:]
        right = 0
        while right < min(len(draft), len(rest)) and draft[right] == rest[right]:
            right += 1
        assert (proposed[position], accepted[position]) == (len(draft), right)


def test_a_smaller_number_of_drafts_is_the_minimum_with_it() -> None:
    prompt, generated = [1, 2, 3, 4, 1, 2], [3, 4, 1, 9, 1, 2, 3]
    wide = replay(prompt, generated, 1, 3, 16)
    narrow = replay(prompt, generated, 1, 3, 2)
    for many, few in zip(wide, narrow, strict=True):
        assert few.tolist() == [min(2, value) for value in many.tolist()]


@pytest.mark.timeout(30)
def test_replay_takes_time_in_proportion_to_the_text() -> None:
    text = [number * number % 97 for number in range(20_000)]
    start = time.perf_counter()
    replay(text, text, 1, 8, 16)
    # A naive search takes minutes here.
    assert time.perf_counter() - start < 10
