"""What an engine did, turned into cells: which steps count, and how rounds are told apart."""

from __future__ import annotations

import pytest

from profiler.engine import EngineStep, Served, ServedLoad
from profiler.engine_cells import (
    acceptance_cell,
    full_rounds,
    full_steps,
    losslessness_cell,
    prefill_seconds,
    rounds_cell,
    rounds_of,
)
from profiler.protocol import Generation


def step(running: int, decoding: int, starting: int = 0, **more) -> EngineStep:
    return EngineStep(
        seconds=more.pop("seconds", 0.01),
        running=running,
        decoding=decoding,
        starting=starting,
        context=100.0,
        emitted=more.pop("emitted", decoding),
        **more,
    )


def served(emitted, drafted=(), accepted=()) -> Served:
    text = tuple(range(1 + sum(emitted)))
    return Served(Generation((9,), text), tuple(emitted), tuple(drafted), tuple(accepted))


def test_only_steps_of_a_full_batch_after_another_one_count():
    steps = [
        step(4, 0, starting=4),
        step(4, 4),  # follows a prefill
        step(4, 4),
        step(4, 3, starting=1),
        step(4, 4),  # follows a prefill
        step(4, 4),
        step(3, 3),  # the batch runs empty
        step(4, 3),  # a prompt longer than a step is still being prefilled
    ]
    assert [steps.index(one) for one in full_steps(steps, 4)] == [1, 1]
    assert len(full_steps(steps, 4)) == 2


def test_a_round_is_full_only_if_every_request_had_all_its_drafts():
    steps = [step(2, 2, drafted=n) for n in (6, 6, 4, 6)]
    assert len(full_rounds(steps, 2, 3, lookup=True)) == 2


@pytest.mark.parametrize(("lookup", "count"), [(True, 0), (False, 2)])
def test_without_counters_a_draft_llm_is_believed_and_a_lookup_is_not(lookup, count):
    assert len(full_rounds([step(2, 2)] * 3, 2, 3, lookup=lookup)) == count


@pytest.mark.parametrize(
    ("emitted", "drafted", "accepted", "expected"),
    [
        # every step had a draft
        ((3, 1, 2), (3, 3, 3), (2, 0, 1), [(3, 2), (3, 0), (3, 1)]),
        # the engine lists only steps with a draft
        ((1, 4, 1), (3,), (3,), [(0, 0), (3, 3), (0, 0)]),
        # accepted tokens are counted before the text was cut at its limit
        ((2, 2), (3, 3), (1, 3), [(3, 1), (3, 3)]),
        # nothing was drafted
        ((1, 1), (), (), [(0, 0), (0, 0)]),
    ],
)
def test_drafts_are_put_to_the_steps_they_fit(emitted, drafted, accepted, expected):
    assert list(zip(*rounds_of(served(emitted, drafted, accepted)), strict=True)) == expected


def test_no_draft_that_the_engine_counted_is_lost():
    request = served((1, 1, 3, 1, 1, 2), (4, 4, 2, 4), (0, 2, 0, 1))
    drafted, accepted = rounds_of(request)
    assert sum(drafted) == 14
    assert sum(accepted) == 3
    assert len(drafted) == 6


def test_the_trace_counts_rounds_request_by_request():
    requests = [served((2, 1), (2, 2), (1, 0)), served((1,), (), ())]
    about = {
        "task": "t",
        "temperature": 0.0,
        "max_num_speculative_tokens": 2,
        "prompts_sha256": "0",
        "seed": 0,
    }
    cell, arrays = acceptance_cell(requests, about)
    assert cell.generated_tokens == 6
    assert arrays["offsets"].tolist() == [0, 2, 3]
    assert arrays["drafted"].tolist() == [2, 2, 0]
    assert arrays["accepted"].tolist() == [1, 0, 0]


def test_totals_come_from_full_steps_alone_on_both_sides():
    more = {"drafted": 4, "accepted": 3, "accepted_per_position": (2, 1), "emitted": 5}
    spec = ServedLoad((served((1,)),), (step(2, 2, **more),) * 3 + (step(1, 1, **more),))
    plain = ServedLoad((served((1,)),), (step(2, 2, seconds=0.02),) * 5)
    about = {"task": "all", "temperature": 0.0, "num_speculative_tokens": 2}
    cell = rounds_cell([plain], [spec], 2, about)
    assert (cell.rounds, cell.drafted, cell.accepted, cell.emitted) == (4, 8, 6, 10)
    assert cell.accepted_per_position == (4, 2)
    assert cell.seconds == pytest.approx(0.02)
    assert cell.baseline_seconds == pytest.approx(0.08)
    assert cell.identical_outputs == 1


def test_acceptance_counts_every_round_and_time_only_those_of_full_batches():
    more = {"seconds": 0.005, "drafted": 4, "accepted": 3, "emitted": 5}
    request = served((3, 1, 2), drafted=(2, 2), accepted=(2, 1))
    spec = ServedLoad((request,), (step(2, 2, **more),) * 2)
    plain = ServedLoad((request,), (step(2, 2),) * 2)
    about = {"task": "all", "temperature": 0.0, "num_speculative_tokens": 2}
    cell = rounds_cell([plain], [spec], 2, about)
    assert (cell.all_rounds, cell.all_accepted, cell.rounds, cell.accepted) == (3, 3, 2, 3)
    assert cell.tokens_per_round == 1 + 3 / 3


def test_without_a_full_batch_there_are_no_totals():
    load = ServedLoad((), (step(1, 1, drafted=0),) * 3)
    about = {"task": "all", "temperature": 0.0, "num_speculative_tokens": 2}
    assert rounds_cell([load], [load], 2, about) is None


def test_a_difference_is_measured_where_the_texts_part():
    ours = Served(Generation((1,), (5, 6, 7)), (1, 1))
    theirs = Served(Generation((1,), (5, 8, 9)), (1, 1))
    cell = losslessness_cell(
        0.0,
        2,
        None,
        ([ServedLoad((ours,))], [(-1.0, -2.0, -3.0)]),
        ([ServedLoad((theirs,))], [(-1.0, -1.9, -9.0)]),
    )
    assert cell.identical == 0
    assert cell.difference_margins_nats == (pytest.approx(0.1),)
    assert cell.log_prob_nats == (pytest.approx(-2.0),)


def test_a_text_that_merely_ends_early_is_no_tie():
    ours, theirs = (
        Served(Generation((1,), (5, 6)), (1,)),
        Served(Generation((1,), (5, 6, 7)), (1, 1)),
    )
    cell = losslessness_cell(
        0.0,
        2,
        None,
        ([ServedLoad((ours,))], [(-1.0, -1.0)]),
        ([ServedLoad((theirs,))], [(-1.0, -1.0, -1.0)]),
    )
    assert cell.difference_margins_nats[0] > 1e6


def test_steps_that_only_prefill_are_told_apart():
    load = ServedLoad((), (step(1, 0, starting=1, seconds=0.5), step(2, 1, starting=1)))
    assert prefill_seconds([load]) == [0.5]
