"""What controllers of the draft length gain; a guide says 8 % over N = 5.

1. A map: equal acceptance everywhere, by acceptance and by what a draft costs.
2. Published sets: EAGLE for Llama-3.1-8B on four datasets of SpecDecode-Bench (arXiv:2601.11580),
   its tokens a round, its spread between requests, its step times on an H100.
3. Profiles given on the command line, such as one of ``capplan profile --demo``.
4. With ``--demo FILE.npz``: the demo target with its trained draft, traced into FILE first if it
   is not there (minutes on a CPU).

Run: ``python benchmarks/controllers.py [--demo FILE.npz] [--csv FILE.csv] [PROFILE ...]``
``--csv`` keeps what the guide's rule gains in every replay; ``capplan claims`` reads such a file.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from capplan.api.replayed_controllers import Replay, SimulationWishes
from capplan.api.simulation import simulate
from capplan.estimate.acceptance import ReplayCounts, replay_per_token, tokens_per_round_iid
from capplan.estimate.controller_gains import Order
from capplan.estimate.controllers import RoundClock
from capplan.estimate.framework_tax import framework_tax
from capplan.estimate.lengths import LengthSeries, length_curve
from capplan.estimate.traced_requests import TracedRequests, TracedTexts
from capplan.reporting.simulation_text import render_simulation
from capplan.schema.quantity import Quantity
from capplan.schema.schedule import ControllerResult
from capplan.validation.schedule_sweeps import (
    EAGLE_CONTEXT,
    EAGLE_LENGTHS,
    EAGLE_TOKENS,
    eagle_round_s,
)

Floats = NDArray[np.float64]

LONGEST = 10
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


def gain(value: Quantity | None) -> str:
    """Return ``+3.1 % (1.2 to 5.0)``."""
    if value is None:
        return "-"
    return f"{value.mid * 100:+.1f} % ({value.low * 100:+.1f} to {value.high * 100:+.1f})"


def row(first: str, best: int, results: Sequence[ControllerResult]) -> str:
    """Return a line: the guide's rule, the schedule and the bound."""
    by_name = {one.name: one for one in results}
    guide, schedule, bound = (by_name[n] for n in ("guide", "schedule", "clairvoyant"))
    return (
        f"| {first} | {best} | {guide.mean_length:.1f} | {gain(guide.gain_over_five)} "
        f"| {gain(guide.gain_over_best_fixed)} | {gain(schedule.gain_over_best_fixed)} "
        f"| {gain(bound.gain_over_best_fixed)} |"
    )


HEADER = (
    "| {} | best N | guide's N | guide over N = 5 | guide over best N | schedule over best N "
    "| bound over best N |\n|---|---|---|---|---|---|---|"
)
WISHES = ("guide", "schedule", "clairvoyant")
ORDERS: tuple[Order, ...] = ("mixed", "by-task", "hotter")


@dataclass(frozen=True)
class Replayed:
    """One replay, for the file that ``capplan claims`` reads."""

    pairing: str
    setting: str
    requests: int
    best: int
    results: Sequence[ControllerResult]

    @property
    def guide(self) -> ControllerResult:
        """What the guide's rule did."""
        return next(one for one in self.results if one.name == "guide")


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


# ---- the demo target with its trained draft


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


def profiles(paths: Sequence[str]) -> Iterator[Replayed]:
    """Print every controller on the traces of profiles, in three orders."""
    for path in paths:
        for order in ORDERS:
            print()
            found = simulate(path, SimulationWishes(order=order))
            print(render_simulation(found))
            pairing = f"{found.target} with {found.draft}"
            setting = f"{found.load}, {order}"
            best = found.best_fixed or 0
            yield Replayed(pairing, setting, found.requests, best, found.controllers)


# ---- kept for the audit


COLUMNS = (
    *("pairing", "setting", "requests", "best_n", "guide_n"),
    *("over_five_low", "over_five", "over_five_high"),
    *("over_best_low", "over_best", "over_best_high", "source", "as_of", "note"),
)


def keep(replays: Sequence[Replayed], file: Path, as_of: str) -> None:
    """Write what the guide's rule gained, a line a replay; gains are fractions."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for one in replays:
            guide = one.guide
            gains = [
                f"{value:.4f}" if gained is not None else ""
                for gained in (guide.gain_over_five, guide.gain_over_best_fixed)
                for value in ((gained.low, gained.mid, gained.high) if gained else ("",) * 3)
            ]
            row_of = [one.pairing, one.setting, one.requests, one.best, f"{guide.mean_length:.1f}"]
            source = "benchmarks/controllers.py (docs/method/adaptive.md)"
            writer.writerow([*row_of, *gains, source, as_of, ""])


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("profiles", nargs="*", help="of one pairing each")
    parser.add_argument("--demo", type=Path, metavar="FILE.npz", help="traces of the demo pair")
    parser.add_argument("--csv", type=Path, metavar="FILE.csv", help="keep the guide's gains")
    parser.add_argument("--as-of", default="", metavar="YYYY-MM-DD", help="date in that file")
    return parser.parse_args()


def main() -> None:
    """Print the map, the published sets, the demo pair and the profiles given."""
    given = arguments()
    acceptance_map()
    print()
    replays = list(published())
    if given.demo:
        print()
        replays += demo_pair(given.demo)
    replays += profiles(given.profiles)
    if given.csv:
        keep(replays, given.csv, given.as_of)


if __name__ == "__main__":
    main()
