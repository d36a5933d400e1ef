from __future__ import annotations

import numpy as np
import pytest

from capplan.estimate.task_transfer import TASK_SPREAD, TaskTokens, predict_task, transfer_task
from capplan.estimate.temperature import (
    KEPT,
    Drafter,
    KeptShare,
    drafter_of,
    predict_kept_share,
    transfer_temperature,
)
from capplan.estimate.uncertainty import LogEstimate
from capplan.schema.pairing import Method

HEAD = KEPT[Drafter.HEAD]


def test_there_and_back_changes_nothing() -> None:
    there = transfer_temperature(np.array([1.0, 2.5]), 0.2, 0.9, HEAD)
    back = transfer_temperature(there.tokens_per_round, 0.9, 0.2, HEAD)
    assert back.tokens_per_round.tolist() == pytest.approx([1.0, 2.5])


def test_staying_adds_no_error_and_distance_adds_it_to_accepted_tokens_alone() -> None:
    stay = transfer_temperature(np.array([2.5]), 0.6, 0.6, HEAD)
    assert (stay.tokens_per_round[0], stay.relative_se[0]) == (2.5, 0.0)
    near = transfer_temperature(np.array([1.0, 2.5]), 0.0, 0.5, HEAD)
    far = transfer_temperature(np.array([1.0, 2.5]), 0.0, 1.0, HEAD)
    assert far.relative_se[1] > near.relative_se[1] > 0
    assert far.relative_se[0] == 0.0  # a round without a draft emits one token at any temperature


def test_a_move_by_hand() -> None:
    # a head keeps 0.85 of what it had accepted at temperature 1: a fall of 0.15 a degree
    found = transfer_temperature(np.array([1.0, 3.0]), 0.4, 1.2, HEAD)
    moved = 1 + 2 * (1 - 0.15 * 1.2) / (1 - 0.15 * 0.4)
    assert found.tokens_per_round == pytest.approx([1.0, moved])
    assert found.relative_se == pytest.approx([0.0, 0.17 * 0.8 * (moved - 1) / moved])
    hot = transfer_temperature(np.array([3.0]), 5.0, 0.5, KEPT[Drafter.LLM])
    assert hot.tokens_per_round[0] == pytest.approx(1 + 2 * (1 - 0.28 * 0.5) / (1 - 0.28 * 2))
    assert [drafter_of(one) for one in (Method.SUFFIX, Method.NONE, Method.MTP)] == [
        Drafter.LLM, Drafter.LLM, Drafter.HEAD,
    ]  # fmt: skip


def test_temperatures_beyond_two_are_taken_as_two() -> None:
    two = transfer_temperature(np.array([3.0]), 0.0, 2.0, HEAD)
    ten = transfer_temperature(np.array([3.0]), 0.0, 10.0, HEAD)
    assert ten.tokens_per_round == two.tokens_per_round >= 1.0


def test_heads_keep_more_than_separate_drafts() -> None:
    assert KEPT[Drafter.HEAD].mid > KEPT[Drafter.LLM].mid
    assert drafter_of(Method.EAGLE3) is Drafter.HEAD
    assert drafter_of(Method.DRAFT_MODEL) is drafter_of(Method.NGRAM) is Drafter.LLM


def shares(source: str, drafter: Drafter, values: list[float]) -> list[KeptShare]:
    return [KeptShare(source, (source, str(i)), drafter, v) for i, v in enumerate(values)]


def test_the_same_kind_of_drafter_counts_for_more() -> None:
    measured = shares("a", Drafter.HEAD, [0.9] * 6) + shares("b", Drafter.LLM, [0.6] * 6)
    head = predict_kept_share(measured, "new", ("p",), Drafter.HEAD)
    llm = predict_kept_share(measured, "new", ("p",), Drafter.LLM)
    assert 0.8 < head.mid < 0.9
    assert 0.6 < llm.mid < 0.7
    assert predict_kept_share(measured, "b", ("p",), Drafter.LLM).mid < llm.mid


def test_a_new_source_is_less_certain_than_a_known_pair() -> None:
    measured = shares("a", Drafter.HEAD, [0.8, 0.9, 0.85])
    new = predict_kept_share(measured, "new", ("p",), Drafter.HEAD)
    known = predict_kept_share(measured, "a", ("a", "0"), Drafter.HEAD)
    assert new.log_sd > known.log_sd


def test_one_text_says_little_of_another_and_many_say_more() -> None:
    one, many = transfer_task([2.0]), transfer_task([2.0, 2.1, 1.9, 2.0, 2.05, 1.95])
    assert one.log_sd == pytest.approx(TASK_SPREAD * np.sqrt(2))
    assert many.log_sd < 0.8 * one.log_sd
    assert transfer_task([1.5, 3.0, 2.0]).log_sd > many.log_sd


def test_a_text_that_is_easy_for_others_is_taken_to_be_easy() -> None:
    def tokens(pair: str, task: str, value: float) -> TaskTokens:
        return TaskTokens((pair,), task, value)

    measured = [tokens(p, "code", 3.6) for p in "abc"] + [tokens(p, "chat", 2.4) for p in "abc"]
    found = predict_task([*measured, tokens("d", "chat", 1.8)], ("d",), "code")
    assert isinstance(found, LogEstimate)
    assert 1.8 * 1.25 < found.mid < 3.6
    assert found.mid > transfer_task([1.8]).mid
