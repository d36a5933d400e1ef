"""Lengths by batch, and the sizes of step that are captured for them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from capplan.deploy.graph_sizes import graph_sizes
from capplan.deploy.lengths import check_lengths, clipped, parse_lengths, widest_batches
from capplan.errors import RequestError
from capplan.estimate.cuda_graphs import size_kept


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[1,4,2]", "not JSON"),
        ('{"1": 2}', "another shape"),
        ("[[1,4]]", "another shape"),
        ("[[1,4,true]]", "another shape"),
        ("[]", "no range"),
        ("[[2,4,2]]", "starts at batch 2, expected 1"),
        ("[[1,4,2],[6,8,1]]", "starts at batch 6, expected 5"),
        ("[[1,4,2],[4,8,1]]", "starts at batch 4, expected 5"),
        ("[[1,4,2],[5,3,1]]", "ends at 3"),
        ("[[1,4,-1]]", "length -1"),
        ("[[1,4,0],[5,8,0]]", "no batch speculates"),
    ],
)
def test_a_table_that_the_engine_would_trip_over_is_refused(text: str, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        parse_lengths(text)
    assert "[[1,16,3]" in caught.value.remedy


def test_lengths_may_be_zero_and_rise_again() -> None:
    assert parse_lengths("[[1,4,3],[5,8,0],[9,64,1]]") == ((1, 4, 3), (5, 8, 0), (9, 64, 1))


def test_the_last_range_is_carried_on_to_the_limit() -> None:
    assert clipped(((1, 4, 3), (5, 8, 1), (9, 99, 0)), 6) == ((1, 4, 3), (5, 6, 1))
    assert clipped(((1, 4, 3), (5, 8, 1)), 20) == ((1, 4, 3), (5, 20, 1))


def test_a_length_used_twice_is_captured_up_to_its_widest_batch() -> None:
    assert widest_batches(((1, 4, 1), (5, 8, 0), (9, 16, 1)), 1, 16) == {1: 16, 0: 8}


@given(st.integers(1, 2000), st.integers(0, 16), st.booleans())
def test_full_batches_are_captured_up_to_the_ceiling(
    sequences: int, length: int, vary: bool
) -> None:
    sizes = graph_sizes(sequences, length, drafts_vary=vary)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] >= 1
    assert sizes[-1] <= 1024
    full = sequences * (length + 1)
    assert full in sizes or full > 1024 or any(size > full for size in sizes)
    multiples = [size for size in sizes if size % (length + 1) == 0]
    assert multiples
    assert all(size % (length + 1) == 0 or size == size_kept(size) for size in sizes)


@given(
    st.integers(1, 300),
    st.lists(st.tuples(st.integers(1, 64), st.integers(0, 8)), min_size=1, max_size=4),
)
def test_every_length_of_a_table_has_its_multiples(
    sequences: int, widths: list[tuple[int, int]]
) -> None:
    first, rows = 1, []
    for width, length in [(1, 3), *widths]:
        rows.append((first, first + width - 1, length))
        first += width
    table = check_lengths(rows)
    longest = max(length for _, _, length in rows)
    sizes = graph_sizes(sequences, longest, table)
    for length, batch in widest_batches(table, longest, sequences).items():
        if batch * (length + 1) <= sizes[-1]:
            assert batch * (length + 1) in sizes


def test_a_wide_batch_gets_more_than_the_default_and_never_more_than_planned() -> None:
    assert graph_sizes(128, 3)[-1] == 512
    assert graph_sizes(129, 3)[-1] == 528
    assert graph_sizes(2000, 3)[-1] == 1024


def test_lookups_capture_the_whole_grid() -> None:
    assert {1, 2, 8, 248, 256} <= set(graph_sizes(64, 5, drafts_vary=True))
