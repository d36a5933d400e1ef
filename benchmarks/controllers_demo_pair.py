"""Controllers on the demo target with its trained draft, from traces that were kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from controllers_replayed import LONGEST, Replayed, gain
from numpy.typing import NDArray

from capplan.api.replayed_controllers import Replay, SimulationWishes
from capplan.estimate.controllers import RoundClock
from capplan.estimate.framework_tax import framework_tax
from capplan.estimate.replay import ReplayCounts, replay_per_token
from capplan.estimate.traced_requests import TracedRequests, TracedTexts

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DemoPair:
    """Its traces and times, as ``demo_pair_traces.py`` keeps them."""

    requests: TracedRequests
    batches: NDArray[np.int64]
    round_s: Floats
    pass_s: Floats

    def at(self, temperatures: Sequence[float]) -> TracedRequests:
        """Return the requests of some temperatures."""
        kept = np.isin(self.requests.temperature, temperatures)
        texts = self.requests.texts
        assert texts is not None, "traced by token"
        assert texts.confidence is not None, "the torch backend's traces hold it"
        return TracedRequests(
            tuple(_rows(counts, kept) for counts in self.requests.counts),
            self.requests.temperature[kept],
            self.requests.task[kept],
            replace(
                texts,
                accept_prob=texts.accept_prob[kept],
                lengths=texts.lengths[kept],
                confidence=texts.confidence[kept],
            ),
        )

    def clock(self, load: dict[int, float]) -> RoundClock:
        """Return what rounds take at the batches of a load."""
        place = [int(np.flatnonzero(self.batches == batch)[0]) for batch in load]
        tax = np.array([framework_tax(float(batch)).mid for batch in load])
        return RoundClock(
            self.batches[place],
            np.array(list(load.values())),
            self.round_s[place],
            self.pass_s[place],
            tax,
        )


def _rows(counts: ReplayCounts, kept: NDArray[np.bool_]) -> ReplayCounts:
    return ReplayCounts(
        counts.rounds[kept],
        counts.emitted[kept],
        counts.drafted[kept],
        counts.accepted[kept],
        counts.accepted_per_position[kept],
        counts.rounds_with_draft[kept],
    )


def read_demo_pair(file: Path) -> DemoPair:
    """Read the traces; greedy drafts, vLLM's default."""
    from demo_pair_traces import BATCHES, LENGTHS, TEMPERATURES

    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    known = [t for t in TEMPERATURES if f"{t:g}/offsets" in arrays]
    offsets, total = [np.zeros(1, dtype=np.int64)], 0
    for temperature in known:
        own = arrays[f"{temperature:g}/offsets"]
        offsets.append(own[1:] + total)
        total += int(own[-1])
    every = np.concatenate(offsets)
    accept, confidence = (
        np.concatenate([arrays[f"{t:g}/{name}"] for t in known]).astype(float)
        for name in ("accept_greedy", "draft_confidence")
    )
    lengths = np.diff(every)
    inside = np.arange(int(lengths.max())) < lengths[:, None]
    tables = np.zeros((2, *inside.shape))
    tables[:, inside] = accept, confidence
    each = len(arrays["task"])
    requests = TracedRequests(
        tuple(replay_per_token(accept, every, n) for n in range(LONGEST + 1)),
        np.repeat(known, each),
        np.tile(arrays["task"], len(known)),
        TracedTexts(tables[0], lengths, False, tables[1]),
    )
    n = np.arange(LONGEST + 1)
    verify_s = np.stack([np.interp(n, LENGTHS, line) for line in arrays["verify_s"]])
    pass_s = arrays["pass_s"]
    return DemoPair(requests, np.array(BATCHES), verify_s + n * pass_s[:, None], pass_s)


def demo_pair(file: Path) -> Iterator[Replayed]:
    """Print every controller on the demo pair's traces."""
    if not file.is_file():
        from demo_pair_traces import make_traces

        make_traces(file)
    pair = read_demo_pair(file)
    pairing = "SmolLM2-135M with its trained draft, CPU"
    known = sorted(set(pair.requests.temperature.tolist()))
    kinds = [((t,), f"temperature {t:g}") for t in known]
    if len(known) > 1:
        kinds.append((tuple(known), "both temperatures"))
    print(
        f"| {pairing} | best N | tokens a round | guide's N | guide over N = 5 "
        "| guide over best N | schedule over best N | confidence over best N "
        "| bound over best N |\n|---|---|---|---|---|---|---|---|---|"
    )
    for load, words in (({1: 1.0}, "1 at once"), ({1: 0.5, 4: 0.5}, "1 and 4 at once")):
        for temperatures, name in kinds:
            requests = pair.at(temperatures)
            replay = Replay(requests, pair.clock(load), SimulationWishes())
            results = replay.results()
            by_name = {one.name: one for one in results}
            fixed = next(one for one in results if one.detail == "best single length")
            over_best = [
                gain(by_name[which].gain_over_best_fixed)
                for which in ("guide", "schedule", "confidence", "clairvoyant")
            ]
            guide = by_name["guide"]
            print(
                f"| {name}, {words} | {replay.best} | {fixed.tokens_per_round:.2f} "
                f"| {guide.mean_length:.1f} | {gain(guide.gain_over_five)} "
                f"| {' | '.join(over_best)} |",
                flush=True,
            )
            yield Replayed(pairing, f"{name}, {words}", requests.count, replay.best, results)
