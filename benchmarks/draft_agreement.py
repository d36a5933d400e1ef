"""How often does the demo draft say what the demo target says? On the shipped prompts.

The target writes greedily behind each of the 48 prompts, which the draft was never trained on;
the trace tells where the draft's first choice is the target's token, the true text given up to
there. Intervals are 95 %, from resampling requests.

Run from the repository, about three minutes on two cores:
python benchmarks/draft_agreement.py
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.replay import replay_per_token
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.embedded_draft import DEMO_DRAFT_ID, demo_draft
from profiler.backends.torch_local import TorchBackend
from profiler.prompts import embedded_prompts
from profiler.protocol import LoadRequest, SamplingPoint, Trace

LENGTHS = (1, 3, 5)
MAX_TOKENS = 128
RESAMPLES, SEED = 2000, 0

Counts = NDArray[np.float64]


def traced(draft: Path, max_tokens: int) -> tuple[list[str], Trace]:
    """Return the task of each request and the trace over all of them."""
    backend = TorchBackend()
    backend.load(LoadRequest(str(demo_checkpoint()), str(draft), device="cpu"))
    by_task = embedded_prompts().by_task
    tasks = [task for task, prompts in by_task.items() for _ in prompts]
    texts = [backend.encode(one.text) for prompts in by_task.values() for one in prompts]
    cold = SamplingPoint(temperature=0.0, max_tokens=max_tokens, seed=SEED)
    return tasks, backend.trace(backend.generate(texts, cold), cold)


def agreement_counts(trace: Trace) -> Counts:
    """Return (tokens agreed on, tokens) of each request."""
    hits = trace.arrays["accept_greedy"]
    spans = zip(trace.offsets[:-1], trace.offsets[1:], strict=True)
    return np.array([(hits[start:end].sum(), end - start) for start, end in spans], dtype=float)


def round_counts(trace: Trace, n: int) -> Counts:
    """Return (tokens emitted, rounds) of each request."""
    counts = replay_per_token(trace.arrays["accept_greedy"], trace.offsets, n)
    return np.stack([counts.emitted, counts.rounds], axis=1).astype(float)


def with_interval(counts: Counts) -> dict[str, float]:
    """Return the ratio of sums and the interval from resampled requests."""
    source = np.random.default_rng(SEED)
    chosen = source.integers(len(counts), size=(RESAMPLES, len(counts)))
    sums = counts[chosen].sum(axis=1)
    low, high = np.percentile(sums[:, 0] / sums[:, 1], [2.5, 97.5])
    total = counts.sum(axis=0)
    return {"value": float(total[0] / total[1]), "low": float(low), "high": float(high)}


def measured(tasks: list[str], trace: Trace) -> dict[str, Any]:
    """Return everything that is printed."""
    agreed = agreement_counts(trace)
    names = np.array(tasks)
    by_task = {task: with_interval(agreed[names == task]) for task in dict.fromkeys(tasks)}
    return {
        "draft": DEMO_DRAFT_ID,
        "requests": len(tasks),
        "tokens": int(agreed[:, 1].sum()),
        "agreement": {**by_task, "pooled": with_interval(agreed)},
        "tokens_per_round": {str(n): with_interval(round_counts(trace, n)) for n in LENGTHS},
    }


def as_text(result: dict[str, Any]) -> str:
    """Return the tables for a terminal."""
    lines = [f"{result['draft']}: {result['requests']} requests, {result['tokens']} tokens"]
    lines.append("\nGreedy agreement with the target, 95 % interval")
    lines += [_line(task, row, "{:.1%}") for task, row in result["agreement"].items()]
    lines.append("\nTokens a round at temperature 0, by draft tokens N")
    lines += [_line(f"N={n}", row, "{:.3f}") for n, row in result["tokens_per_round"].items()]
    return "\n".join(lines)


def _line(name: str, row: dict[str, float], form: str) -> str:
    value, low, high = (form.format(row[key]) for key in ("value", "low", "high"))
    return f"  {name:12s} {value:>7s}  [{low}, {high}]"


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "text": as_text,
    "json": lambda result: json.dumps(result, indent=2),
}


def main() -> None:
    """Trace, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--format", choices=list(FORMATS), default="text")
    parser.add_argument("--draft", type=Path, help="another draft's folder (the shipped one)")
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS, help="a text (%(default)s)")
    given = parser.parse_args()
    tasks, trace = traced(given.draft or demo_draft(), given.max_tokens)
    print(FORMATS[given.format](measured(tasks, trace)))


if __name__ == "__main__":
    main()
