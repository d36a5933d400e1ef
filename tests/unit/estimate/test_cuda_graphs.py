from __future__ import annotations

import pytest

from capplan.estimate.cuda_graphs import (
    UNCAPTURED_OVER_EDGE,
    captured_tokens,
    largest_captured_batch,
    size_kept,
    size_to_state,
    step_seconds,
)

GRID = (1, 2, 4, *range(8, 256, 8), *range(256, 1025, 16))


@pytest.mark.parametrize(("n", "batch"), [(0, 512), (1, 256), (3, 128), (5, 85), (7, 64)])
def test_graphs_end_at_512_tokens_whatever_the_length(n: int, batch: int) -> None:
    assert largest_captured_batch(captured_tokens(1024, n), n) == batch


def test_a_small_batch_limit_captures_twice_its_own_steps() -> None:
    assert captured_tokens(8, 3) == 64
    assert captured_tokens(1024, 3, "10.0") == 1024
    assert captured_tokens(1024, 3, "12.0") == 512


@pytest.mark.parametrize(
    ("stated", "kept"), [(42, 40), (257, 256), (300, 288), (6, 4), (3, 2), (1, 1), (528, 528)]
)
def test_a_stated_size_is_cut_down_to_the_grid(stated: int, kept: int) -> None:
    assert size_kept(stated) == kept


def test_the_size_to_state_holds_the_need_and_survives_the_cut() -> None:
    for tokens in range(1, 1025):
        size = size_to_state(tokens)
        assert size in GRID
        assert size >= tokens
        assert size_kept(size) == size
        assert not any(tokens <= other < size for other in GRID)


def test_within_the_captured_sizes_nothing_changes() -> None:
    low, mid, high = step_seconds(0.010, 0.012, 512, 512)
    assert low == mid == high == 0.010


def test_beyond_them_a_step_jumps_and_then_stays_level_until_its_own_work_exceeds_it() -> None:
    tokens, graph_s = [513, 1024, 1e5], [0.0121, 0.02, 2.0]
    low, mid, high = step_seconds(graph_s, 0.012, tokens, 512)
    jump = UNCAPTURED_OVER_EDGE.mid * 0.012
    assert mid.tolist() == pytest.approx([jump, jump, 2.0])
    assert (low <= mid).all()
    assert (mid <= high).all()
