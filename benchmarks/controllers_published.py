"""Controllers on requests made from published figures, and on a map of equal acceptance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from controllers_replayed import LONGEST, Replayed, gain
from numpy.typing import NDArray

from capplan.api.replayed_controllers import Replay, SimulationWishes
from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.controller_gains import Order
from capplan.estimate.controllers import RoundClock
from capplan.estimate.framework_tax import framework_tax
from capplan.estimate.lengths import LengthSeries, length_curve
from capplan.estimate.replay import ReplayCounts
from capplan.estimate.traced_requests import TracedRequests
from capplan.schema.schedule import ControllerResult
from capplan.validation.schedule_sweeps import (
    EAGLE_CONTEXT,
    EAGLE_LENGTHS,
    EAGLE_TOKENS,
    eagle_round_s,
)

Floats = NDArray[np.float64]

PUBLISHED_LONGEST = 7
"""Longer drafts were not traced; the law carries them on for the guide's controller alone."""
TOKENS_EACH = {"gsm8k": 166, "cnn": 323, "sharegpt": 728, "instructcoder": 262}
"""Mean output of each dataset."""
SPREAD = {
    "gsm8k": (2.11, 2.78),
    "cnn": (1.95, 2.71),
    "sharegpt": (1.70, 2.80),
    "instructcoder": (2.10, 3.30),
}
"""Tokens a round at N = 3 of the request at 5 % and at 95 % (same traces)."""
REQUESTS = 100
LOADS = {
    "1 at once": {1: 1.0},
    "64 at once": {64: 1.0},
    "1 to 128 at once": {1: 1.0, 8: 1.0, 32: 1.0, 64: 1.0, 128: 1.0},
}
_Z_95_ONE_SIDED = 1.645
HEADER = (
    "| {} | best N | guide's N | guide over N = 5 | guide over best N | schedule over best N "
    "| bound over best N |\n|---|---|---|---|---|---|---|"
)
WISHES = ("guide", "schedule", "clairvoyant")


def requests_of(curves: Floats, tokens: Floats, task: Sequence[str]) -> TracedRequests:
    """Return requests whose rounds accept as their curves say; a row a request."""
    counts = []
    for n in range(LONGEST + 1):
        rounds = tokens / curves[:, n]
        at_least = np.diff(curves[:, : n + 1], axis=1) * rounds[:, None]
        drafting = rounds if n else np.zeros_like(rounds)
        counts.append(
            ReplayCounts(rounds, tokens, n * rounds, at_least.sum(axis=1), at_least, drafting)
        )
    return TracedRequests(tuple(counts), np.zeros(len(tokens)), np.array(task), None)


def eagle(datasets: Sequence[str], seed: int = 0) -> TracedRequests:
    """Return requests of some datasets, with the published spread between them."""
    rng = np.random.default_rng(seed)
    curves, tokens, task = [], [], []
    for name in datasets:
        mean, _ = length_curve(LengthSeries(EAGLE_LENGTHS, EAGLE_TOKENS[name]), LONGEST)
        low, high = SPREAD[name]
        sd = (high - low) / (2 * _Z_95_ONE_SIDED) / (mean[3] - 1.0)
        factor = np.clip(1.0 + sd * rng.standard_normal(REQUESTS), 0.3, 2.0)
        # more than one accepted token a position is impossible
        steps = np.minimum.accumulate(np.minimum(np.diff(mean) * factor[:, None], 0.98), axis=1)
        curves.append(1.0 + np.concatenate([np.zeros((REQUESTS, 1)), steps.cumsum(1)], axis=1))
        tokens.append(np.full(REQUESTS, float(TOKENS_EACH[name])))
        task += [name] * REQUESTS
    return requests_of(np.concatenate(curves), np.concatenate(tokens), task)


def clock(load: dict[int, float], context: float) -> RoundClock:
    """Return the published step times of EAGLE for Llama-3.1-8B on an H100."""
    batches = np.array(sorted(load))
    share = np.array([load[int(b)] for b in batches])
    round_s = eagle_round_s(batches[:, None].astype(float), np.arange(LONGEST + 1.0), context)
    tax = np.array([framework_tax(float(b)).mid for b in batches])
    return RoundClock(batches, share / share.sum(), round_s, np.zeros(len(batches)), tax)


def row(first: str, best: int, results: Sequence[ControllerResult]) -> str:
    """Return a line: the guide's rule, the schedule and the bound."""
    by_name = {one.name: one for one in results}
    guide, schedule, bound = (by_name[n] for n in ("guide", "schedule", "clairvoyant"))
    return (
        f"| {first} | {best} | {guide.mean_length:.1f} | {gain(guide.gain_over_five)} "
        f"| {gain(guide.gain_over_best_fixed)} | {gain(schedule.gain_over_best_fixed)} "
        f"| {gain(bound.gain_over_best_fixed)} |"
    )


def published() -> Iterator[Replayed]:
    """Print the four datasets, alone, mixed and one after the other, at three loads."""
    pairing = "EAGLE, Llama-3.1-8B, H100"
    print(HEADER.format(pairing))
    every = tuple(EAGLE_TOKENS)
    cases: list[tuple[str, tuple[str, ...], Order]] = [
        *((name, (name,), "mixed") for name in every),
        ("all four mixed", every, "mixed"),
        ("all four, one after the other", every, "by-task"),
    ]
    for words, load in LOADS.items():
        for name, datasets, order in cases:
            context = float(np.mean([EAGLE_CONTEXT[one] for one in datasets]))
            wishes = SimulationWishes(
                controllers=WISHES, order=order, max_num_speculative_tokens=PUBLISHED_LONGEST
            )
            requests = eagle(datasets)
            replay = Replay(requests, clock(load, context), wishes)
            results = replay.results()
            print(row(f"{name}, {words}", replay.best, results), flush=True)
            yield Replayed(pairing, f"{name}, {words}", requests.count, replay.best, results)


def acceptance_map() -> None:
    """Print where the guide's rule gains over N = 5, and over the best N."""
    print("| acceptance a token | draft cost | best N | guide's N | over N = 5 | over best N |")
    print("|---|---|---|---|---|---|")
    for alpha in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        for cost in (0.02, 0.1, 0.2):
            curve = tokens_per_round_iid(alpha, np.arange(LONGEST + 1))
            requests = requests_of(np.tile(curve, (200, 1)), np.full(200, 200.0), ["-"] * 200)
            n = np.arange(LONGEST + 1.0)
            ticks = RoundClock(np.ones(1, dtype=np.int64), np.ones(1), (1.0 + cost * n)[None, :],
                               np.zeros(1), np.zeros(1))  # fmt: skip
            replay = Replay(requests, ticks, SimulationWishes(controllers=("guide",)))
            guide = replay.results()[0]
            five, best = guide.gain_over_five, guide.gain_over_best_fixed
            assert five is not None
            assert best is not None
            print(
                f"| {alpha:g} | {cost:g} | {replay.best} | {guide.mean_length:.1f} "
                f"| {five.mid:+.1%} | {best.mid:+.1%} |",
                flush=True,
            )
