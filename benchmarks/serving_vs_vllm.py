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
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from serving_server import serving
from serving_vs_vllm_figures import (
    Compared,
    mean_error,
    measured_figures,
    simulated_figures,
    steady_rate,
)
from serving_vs_vllm_setting import (
    BATCHED_TOKENS,
    TEMPERATURE,
    Setting,
    setting_of,
    take_profile,
)

from capplan.errors import CapplanError
from capplan.estimate.serving_clocks import scaled_clock
from capplan.estimate.serving_simulation import simulate_load
from capplan.estimate.serving_traffic import Traffic
from capplan.profiles.store import load_profile
from profiler.backends.live_http import Ask, Served, ServedLlm, ask_streaming
from profiler.backends.live_load import Bounds, Level, drive
from profiler.prompts import embedded_prompts

SHARES = (0.3, 0.6, 0.9)
_WAVES = 5
"""Requests of the closed loop for each place."""


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
