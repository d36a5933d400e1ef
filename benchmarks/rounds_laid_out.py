"""What do rounds at one N tell about another N? On the demo pair, at temperature 0.

The trace tells for each token whether the draft would be right: every N follows exactly. Rounds at
one N are decoded over it; from those alone the tokens a round at other N are told in two ways: by
cutting every round short, and by laying the rounds out as text (capplan/estimate/round_traces.py).

Run from the repository, about two minutes on two cores: python benchmarks/rounds_laid_out.py
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.replay import ReplayCounts, count_rounds, replay_per_token
from capplan.estimate.round_traces import tokens_of_rounds
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.embedded_draft import demo_draft
from profiler.backends.torch_local import TorchBackend
from profiler.prompts import embedded_prompts
from profiler.protocol import LoadRequest, SamplingPoint, Trace

RAN, ASKED = (1, 2, 4, 5), (1, 2, 3, 4, 5, 6, 8)
REQUESTS, MAX_TOKENS = 36, 64


def traced() -> Trace:
    """Write and score the shipped prompts, tasks in turn."""
    backend = TorchBackend()
    backend.load(LoadRequest(str(demo_checkpoint()), str(demo_draft()), device="cpu"))
    rows = zip(*embedded_prompts().by_task.values(), strict=True)
    prompts = [backend.encode(one.text) for row in rows for one in row][:REQUESTS]
    cold = SamplingPoint(temperature=0.0, max_tokens=MAX_TOKENS, seed=0)
    return backend.trace(backend.generate(prompts, cold), cold)


def rounds_at(known: NDArray[np.bool_], offsets: NDArray[np.int64], n: int) -> list[list[int]]:
    """Decode every request with N drafts a round; return the accepted ones of each round."""
    requests = []
    for start, end in pairwise(offsets):
        place, accepted = int(start) + 1, []
        while place < end:
            misses = np.flatnonzero(~known[place : min(place + n, end)])
            accepted.append(int(misses[0]) if len(misses) else int(min(n, end - place)))
            place += accepted[-1] + 1
        requests.append(accepted)
    return requests


def tokens_a_round(counts: ReplayCounts) -> float:
    """Return 1 + accepted / rounds over all requests."""
    return 1.0 + float(counts.accepted.sum() / counts.rounds.sum())


def main() -> None:
    """Print the table."""
    trace = traced()
    hits, offsets = trace.arrays["accept_greedy"], trace.offsets
    exact = {n: tokens_a_round(replay_per_token(hits, offsets, n)) for n in ASKED}
    print(
        f"{len(offsets) - 1} requests, {offsets[-1]} tokens; tokens a round, off the exact figure"
    )
    print("ran N  asked N   exact   rounds cut short   laid out as text")
    for ran in RAN:
        requests = rounds_at(hits > 0, offsets, ran)
        accepted = np.array([a for one in requests for a in one])
        starts = np.concatenate([[0], np.cumsum([len(one) for one in requests])])
        drafted = np.full_like(accepted, ran)
        tokens, places = tokens_of_rounds(drafted, accepted, starts)
        for n in ASKED:
            laid = tokens_a_round(replay_per_token(tokens, places, n)) / exact[n] - 1
            cut = f"{'':>16}"
            if n <= ran:
                off = tokens_a_round(count_rounds(drafted, accepted, starts, n)) / exact[n] - 1
                cut = f"{off:>+16.1%}"
            print(f"{ran:5d}  {n:7d}   {exact[n]:5.3f}   {cut}   {laid:>+16.1%}")


if __name__ == "__main__":
    main()
