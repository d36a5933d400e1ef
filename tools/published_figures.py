"""Print what published measurements say of a belief, from models_db/published (sound rows only).

python tools/published_figures.py load          speedups by requests at once
python tools/published_figures.py lengths       the fastest length of every published sweep
python tools/published_figures.py temperature   temperature 1 beside temperature 0
python tools/published_figures.py experts       mixtures of experts beside dense LLMs
python tools/published_figures.py size          drafts of several sizes for one target
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import median

from capplan.advice.guide.measured import fastest, published_sweeps
from capplan.facts.published import load_published_runs
from capplan.resources import models_db_dir
from capplan.schema.audit import PublishedRun

_LOADS = ((1, 1), (2, 8), (9, 32), (33, 128), (129, 512))
_FIVE = 5.0
_EXPERTS = (
    "A3B",
    "A22B",
    "A35B",
    "A21B",
    "flash-2.0",
    "Kimi",
    "MiniMax",
    "DeepSeek",
    "Mixtral",
    "Scout",
)
"""What the names of published mixtures of experts hold."""
_LEAST_LOADS = 4
_PREFILL = ("vllm_gb300",)
"""Dominated by prefill (models_db/published/README.md)."""

Runs = Sequence[PublishedRun]
Lines = Iterator[str]


def load(runs: Runs) -> Lines:
    """Speedups by requests at once; runs whose length follows the load are left out."""
    fixed = [run for run in runs if run.method != "adaptive"]
    yield "requests at once   rows   median   at least 2x   at least 3x   below 1x"
    yield _load_line("all", fixed)
    for low, high in _LOADS:
        some = [run for run in fixed if run.load is not None and low <= run.load <= high]
        yield _load_line(f"{low}" if low == high else f"{low} to {high}", some)
    yield _load_line("not stated", [run for run in fixed if run.load is None])


def _load_line(name: str, runs: Runs) -> str:
    speedups = [run.speedup for run in runs]
    two, three, lost = (
        _percent(speedup >= 2 for speedup in speedups),
        _percent(speedup >= 3 for speedup in speedups),
        _percent(speedup < 1 for speedup in speedups),
    )
    middle = median(speedups)
    return (
        f"{name:<16}  {len(runs):>5}   {middle:>5.2f}x   {two:>9.0f} %   {three:>9.0f} %   "
        f"{lost:>6.0f} %"
    )


def _percent(answers: Iterable[bool]) -> float:
    known = list(answers)
    return sum(known) / len(known) * 100


def lengths(runs: Runs) -> Lines:
    """How often each length is the fastest, and what N = 5 loses to the fastest."""
    sweeps = published_sweeps(runs)
    best = Counter(fastest(sweep) for sweep in sweeps.values())
    told = ", ".join(f"N = {n:g} in {best[n]}" for n in sorted(best))
    yield f"{len(sweeps)} sweeps of three or more lengths. Fastest: {told}."
    tried = [sweep for sweep in sweeps.values() if _FIVE in sweep]
    losses = sorted(1 - sweep[_FIVE] / max(sweep.values()) for sweep in tried)
    most, middle = losses[-1] * 100, median(losses) * 100
    dear = sum(loss > 0.05 for loss in losses)
    yield (
        f"N = 5 was tried in {len(tried)}; it loses {middle:.1f} % to the fastest length "
        f"(median), more than 5 % in {dear}, at most {most:.0f} %."
    )
    yield ""
    yield "One LLM and draft by load (vllm_adaptive: DeepSeek-V4-Pro, eight B300, temperature 1):"
    yield "requests at once   fastest N   its speedup   N = 5"
    ours = {key[5]: sweep for key, sweep in sweeps.items() if key[0] == "vllm_adaptive"}
    for at, sweep in sorted(ours.items(), key=lambda pair: float(str(pair[0]))):
        n = fastest(sweep)
        yield f"{float(str(at)):>16.0f}   {n:>9.0f}   {sweep[n]:>10.2f}x   {sweep[_FIVE]:.2f}x"


def temperature(runs: Runs) -> Lines:
    """Pairs of runs that differ in temperature alone: 1 over 0."""
    yield "source        pairs   speedup at 1 over that at 0   least speedup at 1"
    pairs = _pairs(runs)
    for source in (*sorted({cold.source_key for cold, _ in pairs}), "all"):
        some = [(cold, hot) for cold, hot in pairs if source in (cold.source_key, "all")]
        ratios = [hot.speedup / cold.speedup for cold, hot in some]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}, median {median(ratios):.2f}"
        least = min(hot.speedup for _, hot in some)
        yield f"{source:<12}  {len(some):>5}   {spread:<27}   {least:.2f}x"
    above = sum(run.temperature is not None and run.temperature > 1 for run in runs)
    yield f"Published above temperature 1: {above or 'none'}."


def _pairs(runs: Runs) -> list[tuple[PublishedRun, PublishedRun]]:
    by_key: defaultdict[tuple[object, ...], dict[float, PublishedRun]] = defaultdict(dict)
    for run in runs:
        if run.temperature in (0.0, 1.0):
            key = (
                *(run.source_key, run.target, run.draft, run.method, run.gpu, run.task),
                *(run.load, run.num_speculative_tokens, run.is_chain),
            )
            by_key[key].setdefault(run.temperature, run)
    return [(found[0.0], found[1.0]) for found in by_key.values() if len(found) == 2]


def experts(runs: Runs) -> Lines:
    """Compare rounds of dense LLMs and of mixtures at one load; list speedups by load."""
    yield "SpecBundle (SGLang, H200, 8 requests at once), chains of 3 drafts, medians over tasks:"
    yield "LLM                               experts   tokens a round   speedup   a round costs"
    chains = [
        run
        for run in runs
        if (run.source_key, run.num_speculative_tokens) == ("specbundle", 3) and run.is_chain
    ]
    for target in sorted(
        {run.target for run in chains}, key=lambda name: (_has_experts(name), name)
    ):
        some = [run for run in chains if run.target == target]
        tokens = median(run.tokens_per_round or 0 for run in some)
        gain = median(run.speedup for run in some)
        cost = median((run.tokens_per_round or 0) / run.speedup for run in some)
        kind = "yes" if _has_experts(target) else "no"
        yield f"{target:<34}{kind:<7}   {tokens:>14.2f}   {gain:>6.2f}x   {cost:>5.2f} steps"
    yield ""
    yield "Mixtures of experts by load (means over tasks; requests at once: speedup):"
    for name, by_load in _by_load(run for run in runs if _has_experts(run.target)):
        yield f"{name}: " + ", ".join(f"{at:g}: {x:.2f}x" for at, x in by_load)


def _has_experts(name: str) -> bool:
    return any(part in name for part in _EXPERTS)


def _by_load(runs: Iterable[PublishedRun]) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield the mean speedup by load of every pair that was tried at four loads or more."""
    found: defaultdict[str, defaultdict[float, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in runs:
        known = run.load is not None and run.num_speculative_tokens and run.method != "adaptive"
        if known and run.source_key not in _PREFILL:
            name = (
                f"{run.target}, {run.draft}, N = {run.num_speculative_tokens:g} [{run.source_key}]"
            )
            found[name][run.load or 0.0].append(run.speedup)
    for name, loads in sorted(found.items()):
        if len(loads) >= _LEAST_LOADS:
            yield name, [(at, sum(x) / len(x)) for at, x in sorted(loads.items())]


def size(runs: Runs) -> Lines:
    """Three drafts for one target, tried by one paper at temperature 0."""
    yield "T5-XXL 11B, TPU v4, one request, temperature 0 (leviathan23, Tables 2 and 4):"
    yield "draft           task     N   speedup"
    for run in runs:
        if run.source_key == "leviathan23" and run.temperature == 0 and "T5-XXL" in run.target:
            n = run.num_speculative_tokens or 0
            yield f"{run.draft:<15} {run.task:<8} {n:.0f}   {run.speedup:.1f}x"


TOPICS: dict[str, Callable[[Runs], Lines]] = {
    "load": load,
    "lengths": lengths,
    "temperature": temperature,
    "experts": experts,
    "size": size,
}


def main() -> None:
    """Print one topic."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("topic", choices=sorted(TOPICS))
    chosen = TOPICS[parser.parse_args().topic]
    for line in chosen(load_published_runs(models_db_dir() / "published")):
        print(line.rstrip())


if __name__ == "__main__":
    main()
