"""This build of vLLM damages text above temperature 0: the check must say so, and only there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from capplan.profiles.losslessness import Outcome, judge_losslessness
from capplan.schema.cells import LosslessnessCell
from capplan.schema.pairing import Method
from profiler.engine import Served, ServedLoad
from profiler.engine_cells import losslessness_cell

LENGTH, BATCH = 3, 16
WARM = {"temperature": 0.8, "count": 32, "max_tokens": 32}
METHODS = [Method.NGRAM, Method.DRAFT_MODEL]
SEEDS, SPLITS, MOST_ALARMS = 5, 20, 1


def compared(
    engines: Any, temperature: float, ours: ServedLoad, theirs: ServedLoad, length: int = LENGTH
) -> LosslessnessCell:
    sides = [
        ([load], engines.plain().score([one.generation for one in load.requests]))
        for load in (ours, theirs)
    ]
    return losslessness_cell(temperature, length, None, sides[0], sides[1])


@pytest.mark.parametrize("batch", [1, 4, 16])
@pytest.mark.parametrize("method", METHODS)
def test_at_temperature_0_the_text_is_the_targets_own(
    engines: Any, texts: Any, method: Method, batch: int
) -> None:
    cell = compared(engines, 0.0, texts.get(method, LENGTH, batch), texts.get(None, 0, batch))
    judged = judge_losslessness([cell], engines.dtype)
    assert judged.outcome is Outcome.PASS, judged.comparisons[0].sentence


@pytest.mark.parametrize("method", METHODS)
def test_above_temperature_0_the_damage_is_found(engines: Any, texts: Any, method: Method) -> None:
    ours = texts.get(method, LENGTH, BATCH, **WARM)
    cell = compared(engines, 0.8, ours, texts.get(None, 0, BATCH, **WARM))
    judged = judge_losslessness([cell], engines.dtype)
    assert judged.outcome is Outcome.FAIL, judged.comparisons[0].sentence
    assert judged.comparisons[0].value < -0.5


def test_plain_decoding_passes_against_itself_in_19_of_20_splits(engines: Any, texts: Any) -> None:
    written = [texts.get(None, 0, BATCH, seed=1000 * k, **WARM) for k in range(SEEDS)]
    scored = [engines.plain().score([one.generation for one in load.requests]) for load in written]
    alarms = sum(
        judge_losslessness([split(written, scored, seed)], engines.dtype).outcome
        is not Outcome.PASS
        for seed in range(SPLITS)
    )
    assert alarms <= MOST_ALARMS


def split(written: Sequence[ServedLoad], scored: Sequence[Any], seed: int) -> LosslessnessCell:
    """Draw two of the texts of every prompt, one for each side."""
    source = random.Random(seed)
    sides: list[tuple[list[Served], list[Any]]] = [([], []), ([], [])]
    for place in range(len(written[0].requests)):
        for side, number in zip(sides, source.sample(range(SEEDS), 2), strict=True):
            side[0].append(written[number].requests[place])
            side[1].append(scored[number][place])
    ours, theirs = (([ServedLoad(tuple(texts))], log_probs) for texts, log_probs in sides)
    return losslessness_cell(0.8, LENGTH, None, ours, theirs)
