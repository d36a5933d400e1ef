"""Values built without a check of each: the same as checked ones; and what is put aside for it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from capplan.api.collecting import paused_collection
from capplan.planning.figures import _intervals
from capplan.schema.quantity import Quantity

ROW = {"low": 1.0, "mid": 2.0, "high": 3.0}


def test_a_value_of_checked_fields_is_like_any_other() -> None:
    (made,) = Quantity.of_checked([dict(ROW)])
    plain = Quantity(**ROW)
    assert made == plain
    assert hash(made) == hash(plain)
    assert repr(made) == repr(plain)
    assert made.model_dump_json() == plain.model_dump_json()
    assert made.model_fields_set == plain.model_fields_set
    assert Quantity.model_validate(made) is made


def test_values_of_checked_fields_stay_apart() -> None:
    one, other = Quantity.of_checked([dict(ROW), dict(ROW)])
    changed = one.model_copy(update={"mid": 2.5})
    assert (one.mid, other.mid, changed.mid) == (2.0, 2.0, 2.5)
    with pytest.raises(ValueError, match="frozen"):
        one.mid = 2.5  # type: ignore[misc]


@pytest.mark.parametrize("mids", [[1.0, np.nan], [np.inf], [-1.0]])
def test_intervals_that_are_none_are_refused_as_ever(mids: list[float]) -> None:
    with pytest.raises(ValueError, match=r"finite|low <= mid"):
        _intervals(np.array(mids), (0.5, 2.0))


def test_intervals_of_a_column() -> None:
    assert _intervals(np.array([2.0, 4.0]), (0.5, 1.5)) == [
        Quantity(low=1.0, mid=2.0, high=3.0),
        Quantity(low=2.0, mid=4.0, high=6.0),
    ]


def test_cycles_that_were_young_in_a_pause_are_still_found() -> None:
    class Node:
        me: Node

    freed: list[int] = []
    with paused_collection():
        node = Node()
        node.me = node
        gc.callbacks.append(lambda phase, info: freed.append(info["collected"]))
        del node
    try:
        assert gc.isenabled()
        gc.collect()
        assert sum(freed) > 0
    finally:
        gc.callbacks.pop()


def test_what_a_caller_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with paused_collection():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
