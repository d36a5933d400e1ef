"""The serving simulation beside a real ``vllm serve``: same arrivals, same lengths, same machine.

A profile is taken of the demo LLM on vLLM (or given), the server is started as it was profiled,
its capacity is found in a closed loop with every place taken, and 30, 60 and 90 % of that arrive
at random. Then the same requests, at the times at which they were really sent and with the lengths
that they really had, are simulated: once from the profile alone, once with every step scaled so
that the closed loop agrees (a server shares the machine with its client; a profile does not).

Run from the repository where vLLM is installed, about eleven minutes on two idle cores:

    python benchmarks/serving_vs_vllm.py --format json -o serving-vs-vllm.json

With a profile at hand: --profile FILE, about seven minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from serving_server import serving

from capplan.errors import CapplanError
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.serving_acceptance import AcceptedLengths
from capplan.estimate.serving_clocks import StepClock, scaled_clock
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_profile import profile_acceptance, profile_clock
from capplan.estimate.serving_results import SimulatedLoad
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic
from capplan.profiles.store import StoredProfile, load_profile
from profiler.backends.live_http import Ask, Served, ServedLlm, ask_streaming
from profiler.backends.live_load import Bounds, Level, drive
from profiler.prompts import embedded_prompts

Floats = NDArray[np.float64]

SHARES = (0.3, 0.6, 0.9)
TEMPERATURE = 0.0
BATCHED_TOKENS = 2048
KV_TOKENS = 46_000
"""1 GiB of the demo LLM's keys and values (23 kB a token); far more than is ever used here."""
_WAVES = 5
"""Requests of the closed loop for each place."""


@dataclass(frozen=True)
class Figures:
    """What users see of one load."""

    ttft_mean_ms: float
    ttft_p50_ms: float
    ttft_p90_ms: float
    tpot_mean_ms: float
    tpot_p50_ms: float
    tpot_p90_ms: float
    output_tokens_per_s: float
    tokens_per_round: float


@dataclass(frozen=True)
class Compared:
    """One load, measured and simulated."""

    load: str
    requests: int
    late: int
    """Requests that the client sent late: it was short of the machine itself."""
    requests_per_s: float
    measured: Figures
    from_profile: Figures
    anchored: Figures


@dataclass(frozen=True)
class Setting:
    """What is served."""

    stored: StoredProfile
    evidence: ProfileEvidence
    num_speculative_tokens: int
    max_num_seqs: int
    accepted: AcceptedLengths

    @property
    def limits(self) -> EngineLimits:
        """How the server is started."""
        return EngineLimits(
            self.max_num_seqs,
            BATCHED_TOKENS,
            KV_TOKENS,
            num_speculative_tokens=self.num_speculative_tokens,
        )

    @property
    def clock(self) -> StepClock:
        """Steps as profiled."""
        n = self.num_speculative_tokens
        return profile_clock(
            self.evidence,
            max_batch=self.max_num_seqs,
            lengths=(n,),
            longest_context=1024,
            curve=self.evidence.curve(TEMPERATURE, None) if n else None,
        )


def take_profile(options: argparse.Namespace, file: Path) -> StoredProfile:
    """Profile the demo pair on vLLM, in a process of its own."""
    command = [sys.executable, "-m", "capplan", "profile", "--demo", "--backend", "vllm"]
    command += ["--method", options.method, "--temperature", str(TEMPERATURE)]
    command += ["--length", str(max(options.length, 1)), "--max-tokens", str(options.max_tokens)]
    for batch in sorted({1, max(options.places // 2, 1), options.places}):
        command += ["--batch", str(batch)]
    done = subprocess.run([*command, "-o", str(file)], check=False, stdout=subprocess.PIPE)
    if not file.exists():
        sys.exit(f"profiling failed:\n{done.stdout.decode(errors='replace')}")
    return load_profile(file)


def setting_of(stored: StoredProfile, options: argparse.Namespace) -> Setting:
    """Fit the profile and read its acceptance."""
    evidence = evidence_from_profile(stored.profile, stored.arrays)
    accepted = profile_acceptance(evidence, TEMPERATURE, None, options.length)
    if accepted is None:
        sys.exit("The profile traced no acceptance; use --length 0.")
    return Setting(stored, evidence, options.length, options.places, accepted)


def asks(max_tokens: int) -> list[Ask]:
    """Return requests of every task in turn, as profiled."""
    prompts = embedded_prompts()
    by_task = [prompts.by_task[task] for task in prompts.tasks]
    texts = [one.text for turn in zip(*by_task, strict=False) for one in turn]
    return [Ask(text, TEMPERATURE, max_tokens, seed=number) for number, text in enumerate(texts)]


def put_on(
    served: ServedLlm, requests: Sequence[Ask], level: Level, bounds: Bounds, seed: int
) -> tuple[list[Served], int]:
    """Put a load on the server; return what was served, in the order sent, and late ones."""
    print(f"measuring {level} ...", file=sys.stderr)
    found = drive(
        lambda ask: ask_streaming(served, "chat", ask), requests, level, bounds, seed=seed
    )
    failed = [one.error for one in found.served if one.error]
    if failed:
        sys.exit(f"{len(failed)} requests failed: {failed[0]}")
    return sorted(found.served, key=lambda one: one.sent_s), found.late


def traffic_of(served: Sequence[Served], concurrency: int | None) -> Traffic:
    """Return the very requests that were served, to be simulated."""
    sent_s = np.array([one.sent_s for one in served])
    return Traffic(
        prompt_tokens=np.array([one.prompt_tokens for one in served], dtype=np.int64),
        output_tokens=np.array([one.output_tokens for one in served], dtype=np.int64),
        cached_tokens=np.zeros(len(served), dtype=np.int64),
        arrival_s=None if concurrency else sent_s - sent_s[0],
        concurrency=concurrency,
    )


def steady_rate(ends_s: Floats, places: int) -> float:
    """Return requests a second between the ends that had every place taken."""
    ends = np.sort(ends_s)[: len(ends_s) - places]
    first = places - 1
    return (len(ends) - 1 - first) / float(ends[-1] - ends[first])


def measured_figures(served: Sequence[Served]) -> Figures:
    """Summarise what the client saw."""
    tokens = sum(one.output_tokens or 0 for one in served)
    span_s = max(one.ended_s for one in served) - min(one.sent_s for one in served)
    steps = sum(max(len(one.event_s) - 1, 0) for one in served)
    return _figures(
        np.array([one.ttft_s for one in served if one.ttft_s is not None]),
        np.array([one.tpot_s for one in served if one.tpot_s is not None]),
        tokens / span_s,
        (tokens - len(served)) / max(steps, 1),
    )


def simulated_figures(run: SimulatedLoad) -> Figures:
    """Summarise what was simulated."""
    engine = run.engine
    return _figures(
        run.ttft_s, run.tpot_s, run.output_tokens_per_s, engine.emitted / max(engine.rounds, 1)
    )


def _figures(ttft_s: Floats, tpot_s: Floats, rate: float, tokens: float) -> Figures:
    first, each = ttft_s * 1e3, tpot_s * 1e3
    return Figures(
        ttft_mean_ms=float(first.mean()),
        ttft_p50_ms=float(np.percentile(first, 50)),
        ttft_p90_ms=float(np.percentile(first, 90)),
        tpot_mean_ms=float(each.mean()),
        tpot_p50_ms=float(np.percentile(each, 50)),
        tpot_p90_ms=float(np.percentile(each, 90)),
        output_tokens_per_s=rate,
        tokens_per_round=tokens,
    )


def measure_and_simulate(setting: Setting, options: argparse.Namespace) -> list[Compared]:
    """Serve every load, then simulate the same."""
    requests = asks(options.max_tokens)
    places = setting.max_num_seqs
    n = setting.num_speculative_tokens
    with serving(setting.stored.profile, n, places, BATCHED_TOKENS) as served:
        bounds = Bounds(2 * places, options.seconds)
        put_on(served, requests, Level(concurrency=places), bounds, seed=0)  # warm-up
        bounds = Bounds(_WAVES * places, options.seconds)
        closed, _ = put_on(served, requests, Level(concurrency=places), bounds, seed=0)
        capacity = steady_rate(np.array([one.ended_s for one in closed]), places)
        loads = [(f"closed loop of {places}", closed, 0, capacity)]
        for number, share in enumerate(SHARES):
            rate = share * capacity
            bounds = Bounds(max(int(rate * options.seconds), 10), options.seconds)
            level = Level(rate_per_s=rate)
            found, late = put_on(served, requests, level, bounds, seed=number + 1)
            loads.append((f"{share:.0%} of capacity", found, late, rate))
    alone = simulate_load(
        traffic_of(closed, places), setting.limits, setting.clock, setting.accepted
    )
    factor = steady_rate(alone.end_s, places) / capacity
    print(f"steps under the server take {factor:.3f} of those profiled", file=sys.stderr)
    return [
        _compared(setting, load, places if at == 0 else None, factor)
        for at, load in enumerate(loads)
    ]


def _compared(
    setting: Setting,
    load: tuple[str, list[Served], int, float],
    concurrency: int | None,
    factor: float,
) -> Compared:
    name, served, late, rate = load
    same = traffic_of(served, concurrency)
    runs = [
        simulate_load(same, setting.limits, clock, setting.accepted)
        for clock in (setting.clock, scaled_clock(setting.clock, factor))
    ]
    return Compared(
        name,
        len(served),
        late,
        rate,
        measured_figures(served),
        simulated_figures(runs[0]),
        simulated_figures(runs[1]),
    )


def mean_error(
    compared: Sequence[Compared], figure: str, of: Callable[[Compared], Figures]
) -> float:
    """Return the mean absolute relative error over the open loads."""
    errors = [
        getattr(of(one), figure) / getattr(one.measured, figure) - 1.0
        for one in compared
        if not one.load.startswith("closed")
    ]
    return float(np.mean(np.abs(errors)))


def report(setting: Setting, compared: Sequence[Compared]) -> dict[str, object]:
    """Return what is printed as JSON."""
    names = ("ttft_mean_ms", "tpot_mean_ms", "output_tokens_per_s")
    return {
        "profile": setting.stored.profile.id,
        "num_speculative_tokens": setting.num_speculative_tokens,
        "max_num_seqs": setting.max_num_seqs,
        "loads": [asdict(one) for one in compared],
        "mean_absolute_error": {
            "from_profile": {n: mean_error(compared, n, lambda c: c.from_profile) for n in names},
            "anchored": {n: mean_error(compared, n, lambda c: c.anchored) for n in names},
        },
    }


def show(compared: Sequence[Compared], summary: dict[str, object]) -> None:
    """Print the tables."""
    for one in compared:
        late = f", {one.late} sent late" if one.late else ""
        print(f"{one.load}: {one.requests_per_s:.3g} requests/s, {one.requests} served{late}")
        print(f"  {'':<22}{'measured':>10}{'profile':>10}{'error':>8}{'anchored':>10}{'error':>8}")
        for name, value in asdict(one.measured).items():
            alone, anchored = getattr(one.from_profile, name), getattr(one.anchored, name)
            print(
                f"  {name:<22}{value:>10.2f}{alone:>10.2f}{alone / value - 1:>+8.1%}"
                f"{anchored:>10.2f}{anchored / value - 1:>+8.1%}"
            )
    print(f"\nmean absolute errors at {', '.join(f'{s:.0%}' for s in SHARES)} of capacity: ")
    print(json.dumps(summary["mean_absolute_error"], indent=1))


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--profile", type=Path, help="take this instead of profiling")
    parser.add_argument("--method", choices=("ngram", "draft_model"), default="ngram")
    parser.add_argument("--length", type=int, default=3, help="N; 0 serves without speculation")
    parser.add_argument("--places", type=int, default=8, help="max-num-seqs")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--seconds", type=float, default=80.0, help="of sending, at each load")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def main() -> None:
    """Profile, serve, simulate, compare."""
    options = parsed()
    with tempfile.TemporaryDirectory(prefix="capplan-serving-") as folder:
        file = Path(folder) / "profile.json"
        stored = load_profile(options.profile) if options.profile else take_profile(options, file)
    setting = setting_of(stored, options)
    try:
        compared = measure_and_simulate(setting, options)
    except CapplanError as error:
        sys.exit(f"{error.message}\n{error.remedy or ''}")
    summary = report(setting, compared)
    if options.output:
        options.output.write_text(json.dumps(summary, indent=1) + "\n")
    if options.format == "json" and not options.output:
        print(json.dumps(summary, indent=1))
    else:
        show(compared, summary)


if __name__ == "__main__":
    main()
