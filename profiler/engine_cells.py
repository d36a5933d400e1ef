"""From what an engine did to the cells of a profile. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.schema.cells import (
    AcceptanceCell,
    DraftSampling,
    LosslessnessCell,
    Phase,
    Role,
    RoundsCell,
    TimingCell,
)
from profiler.engine import EngineStep, Served, ServedLoad
from profiler.timing.verdict import judge_seconds

ALL_TASKS = "all"
"""Task of rounds that were run on every task's prompts side by side."""


def full_steps(steps: Sequence[EngineStep], batch: int) -> list[EngineStep]:
    """Return the steps in which exactly ``batch`` requests decoded and none was prefilled.

    The first such step after another kind is left out: an engine that schedules ahead has
    started it while it was still busy with the one before.
    """
    return [
        step
        for before, step in pairwise(steps)
        if step.is_whole and before.is_whole and step.decoding == before.decoding == batch
    ]


def full_rounds(
    steps: Sequence[EngineStep], batch: int, length: int, *, lookup: bool
) -> list[EngineStep]:
    """Return the full steps in which every request had all its drafts verified.

    An engine that does not count drafts is believed for draft LLMs and heads, which always
    propose the full length, and for nothing else.
    """
    return [
        step
        for step in full_steps(steps, batch)
        if (not lookup if step.drafted is None else step.drafted == batch * length)
    ]


def timing_cell(
    phase: Phase, batch: int, tokens: int, context: int, seconds: Sequence[float], *, graphs: bool
) -> TimingCell:
    """Return the cell of raw step seconds."""
    return TimingCell(
        role=Role.TARGET,
        phase=phase,
        batch=batch,
        tokens_per_sequence=tokens,
        context=context,
        seconds=tuple(seconds),
        cuda_graph=graphs,
        verdict=judge_seconds(seconds),
    )


def prefill_seconds(served: Iterable[ServedLoad]) -> list[float]:
    """Return the seconds of the steps that did nothing but prefill."""
    return [
        step.seconds
        for load in served
        for step in load.steps
        if step.starting == step.running and step.decoding == 0
    ]


def rounds_of(request: Served) -> tuple[list[int], list[int]]:
    """Return (drafted, accepted) of every decode step of a request, 0 where it had no draft.

    The engine lists only the steps that had a draft, in order; a step that gave several tokens
    had one. Between two such steps, those without an accepted draft are entered at the first
    steps that gave one token: which of these they were is not told and changes no count.
    """
    left = list(zip(request.drafted, request.accepted, strict=True))
    drafted, accepted = [], []
    last = len(request.emitted_per_step) - 1
    for place, emitted in enumerate(request.emitted_per_step):
        fits = left and (
            left[0][1] + 1 == emitted or (place == last and left[0][1] + 1 >= emitted)
        )
        one = left.pop(0) if fits else (0, 0)
        drafted.append(one[0])
        accepted.append(one[1])
    return drafted, accepted


def acceptance_cell(
    requests: Sequence[Served], about: Mapping[str, Any]
) -> tuple[AcceptanceCell, dict[str, NDArray[Any]]]:
    """Return the trace of what the engine accepted, one value a round."""
    per_request = [rounds_of(request) for request in requests]
    offsets = np.concatenate([[0], np.cumsum([len(drafted) for drafted, _ in per_request])])
    cell = AcceptanceCell(
        trace_kind="per_round",
        requests=len(requests),
        prompt_tokens=sum(len(r.generation.prompt_ids) for r in requests),
        generated_tokens=sum(len(r.generation.generated_ids) for r in requests),
        **about,
    )
    arrays: dict[str, NDArray[Any]] = {
        "offsets": offsets.astype(np.int64),
        "prompt_tokens": np.array(
            [len(r.generation.prompt_ids) for r in requests], dtype=np.int32
        ),
        "drafted": _joined([drafted for drafted, _ in per_request]),
        "accepted": _joined([accepted for _, accepted in per_request]),
    }
    return cell, arrays


def _joined(values: Sequence[Sequence[int]]) -> NDArray[np.uint8]:
    return np.array([value for one in values for value in one], dtype=np.uint8)


def rounds_cell(
    plain: Sequence[ServedLoad],
    speculative: Sequence[ServedLoad],
    batch: int,
    about: Mapping[str, Any],
) -> RoundsCell | None:
    """Return the totals of the full steps, beside those of plain decoding; None without any.

    Only steps with ``batch`` requests are timed, on both sides: a batch that runs empty at the end
    says nothing about a batch that is kept full. Acceptance is counted over the whole texts too.
    """
    baseline = [step for load in plain for step in full_steps(load.steps, batch)]
    steps = [step for load in speculative for step in full_steps(load.steps, batch)]
    if not baseline or not steps or any(step.drafted is None for step in steps):
        return None
    length = about["num_speculative_tokens"]
    whole = [rounds_of(request) for load in speculative for request in load.requests]
    per_position = np.zeros(length, dtype=int)
    for step in steps:
        if step.accepted_per_position:
            per_position += np.array(step.accepted_per_position[:length])
    return RoundsCell(
        batch=batch,
        requests=sum(len(load.requests) for load in speculative),
        rounds=sum(step.decoding for step in steps),
        drafted=sum(step.drafted or 0 for step in steps),
        accepted=sum(step.accepted or 0 for step in steps),
        accepted_per_position=tuple(int(count) for count in per_position),
        emitted=sum(step.emitted for step in steps),
        seconds=sum(step.seconds for step in steps),
        baseline_emitted=sum(step.emitted for step in baseline),
        baseline_seconds=sum(step.seconds for step in baseline),
        all_rounds=sum(len(accepted) for _, accepted in whole),
        all_accepted=sum(sum(accepted) for _, accepted in whole),
        identical_outputs=same_texts(plain, speculative) if about["temperature"] == 0 else None,
        **about,
    )


def same_texts(plain: Sequence[ServedLoad], speculative: Sequence[ServedLoad]) -> int:
    """Return how many requests have the same text, token by token."""
    pairs = zip(_texts(plain), _texts(speculative), strict=True)
    return sum(ours == theirs for ours, theirs in pairs)


def _texts(served: Iterable[ServedLoad]) -> list[tuple[int, ...]]:
    return [one.generation.generated_ids for load in served for one in load.requests]


LogProbs = Sequence[Sequence[float]]


def losslessness_cell(
    temperature: float,
    length: int,
    sampling: DraftSampling | None,
    speculative: tuple[Sequence[ServedLoad], LogProbs],
    plain: tuple[Sequence[ServedLoad], LogProbs],
) -> LosslessnessCell:
    """Compare texts of the same prompts; each side comes with what its tokens were rated."""
    texts, plain_texts = _texts(speculative[0]), _texts(plain[0])
    margins = [
        margin
        for ours, theirs, our_log_probs, their_log_probs in zip(
            texts, plain_texts, speculative[1], plain[1], strict=True
        )
        if (margin := _margin(ours, theirs, our_log_probs, their_log_probs)) is not None
    ]
    cold = temperature == 0
    return LosslessnessCell(
        temperature=temperature,
        draft_sampling=sampling,
        num_speculative_tokens=length,
        tokens=tuple(map(len, texts)),
        log_prob_nats=tuple(map(_mean, speculative[1])),
        baseline_tokens=tuple(map(len, plain_texts)),
        baseline_log_prob_nats=tuple(map(_mean, plain[1])),
        identical=len(texts) - len(margins) if cold else None,
        difference_margins_nats=tuple(margins) if cold else (),
    )


def _margin(
    ours: Sequence[int],
    theirs: Sequence[int],
    our_log_probs: Sequence[float],
    their_log_probs: Sequence[float],
) -> float | None:
    """Return by how much the target prefers the plain text's token where the two first differ.

    Both were scored after the same prefix, so the two figures can be compared. A text that only
    ends earlier differs in nothing that the target chose: that is an infinite margin.
    """
    if ours == theirs:
        return None
    for place, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        if our != their:
            return their_log_probs[place] - our_log_probs[place]
    return CUT_SHORT_NATS


CUT_SHORT_NATS = 1e9
"""Margin of a text that is a mere beginning of the other; JSON has no infinity."""


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
