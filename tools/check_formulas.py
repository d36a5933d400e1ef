"""Print the errors that docs/method states, from models_db/published and by simulation.

Run from the repository: python tools/check_formulas.py
"""

from __future__ import annotations

import csv
from collections import defaultdict

import numpy as np

from capplan.estimate.acceptance import (
    alpha_from_tokens_per_round,
    decaying_rates,
    fit_decay,
    tokens_per_round_from_conditional,
    tokens_per_round_iid,
)
from capplan.estimate.kvcache import kv_bytes_per_gpu_token
from capplan.estimate.moe import distinct_experts
from capplan.estimate.speculation import guide_speedup, round_ratio
from capplan.estimate.uncertainty import Z_95, ratio_of_sums
from capplan.facts.catalog import load_catalog
from capplan.resources import models_db_dir

REQUESTS, ROUNDS, TRIALS = 40, 50, 2000
SPREAD = 0.12
"""Standard deviation of acceptance between requests in the simulation: of the size that tasks
differ by in published tables."""


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a published table that are graded ``ok``."""
    path = models_db_dir() / "published" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["quality"] == "ok"]


def say(what: str, errors: list[float]) -> None:
    """Print mean absolute error, bias and largest error."""
    error = np.array(errors)
    print(
        f"{what}: mean error {np.abs(error).mean():.1%}, bias {error.mean():+.1%}, "
        f"largest {np.abs(error).max():.1%} ({len(error)} rows)"
    )


def acceptance_laws() -> None:
    """Predict N = 7 from shorter lengths, SpecBundle chains."""
    curves: defaultdict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
    for row in rows("acceptance"):
        if row["source_key"] == "specbundle" and row["method"].startswith("EAGLE3 chain"):
            key = (row["target"], row["draft"], row["task"])
            curves[key][int(row["N"])] = float(row["tau"])
    iid, decay = [], []
    for curve in curves.values():
        if not {3, 5, 7} <= set(curve):
            continue
        alpha = alpha_from_tokens_per_round(curve[3], 3)
        iid.append(float(tokens_per_round_iid(alpha, 7)) / curve[7] - 1)
        law = decaying_rates(*fit_decay([3, 5], [curve[3], curve[5]]), 7)
        decay.append(float(tokens_per_round_from_conditional(law)[7]) / curve[7] - 1)
    say("i.i.d. from N=3 to N=7, SpecBundle", iid)
    say("decay from N=3 and 5 to N=7, SpecBundle", decay)


def round_equation() -> None:
    """Speedup from measured parts, MagicDec; and the guide's formula on the same rows."""
    errors, guide = [], []
    for row in rows("speedup"):
        parts = ("N", "tau", "t_ar_ms", "gammaTD_ms", "TV_ms", "measured_speedup")
        if row["source_key"] != "magicdec" or not all(row[part] for part in parts):
            continue
        n, tau, decode, drafts, verify, measured = (float(row[part]) for part in parts)
        ratio = float(round_ratio(n, drafts / n, verify, decode, 0.0))
        errors.append(tau / ratio / measured - 1)
        guess = float(guide_speedup((tau - 1) / n, n, drafts / n / decode))
        guide.append(guess / measured - 1)
    say("tau / round ratio, measured parts, MagicDec", errors)
    say("guide's formula with the same parts, MagicDec", guide)


def verification() -> None:
    """How much dearer verification is than a decode step."""
    dense = np.array(
        [float(r["ratio"]) for r in rows("verify_cost") if r["source_key"] == "magicdec"]
    )
    print(
        f"verification / decode step, MagicDec: {dense.min():.2f}-{dense.max():.2f}, median "
        f"{np.median(dense):.2f} ({len(dense)} rows)"
    )


def experts() -> None:
    """Distinct experts of two published counts."""
    for tokens, counted in ((8, 39.4), (15, 58.9)):
        free = float(distinct_experts(tokens, 256, 8, 1.0))
        used = float(distinct_experts(tokens, 256, 8, 0.44))
        print(
            f"experts of 256 touched by {tokens} tokens: independent {free:.1f}, "
            f"correlation 0.44 {used:.1f}, counted {counted}"
        )


def draft_memory() -> None:
    """KV bytes a token of a pairing over those of its target."""
    catalog = load_catalog()
    target, draft = catalog.llm("Qwen/Qwen3-8B"), catalog.llm("Qwen/Qwen3-0.6B")
    ours = float(kv_bytes_per_gpu_token(target, 1))
    print(f"KV of Qwen3-8B + 0.6B: {1 + float(kv_bytes_per_gpu_token(draft, 1)) / ours:.3f}x")


def coverage() -> None:
    """How often a 95 % interval holds the truth, by round and by request."""
    rng = np.random.default_rng(0)
    mean, drafts = 0.7, 4
    alpha_of = rng.beta(*_beta(mean), size=200_000)
    truth = float(tokens_per_round_iid(alpha_of, drafts).mean())
    naive = clustered = 0
    for _ in range(TRIALS):
        alpha = rng.beta(*_beta(mean), size=(REQUESTS, 1, 1))
        accepted = np.cumprod(rng.random((REQUESTS, ROUNDS, drafts)) < alpha, axis=2).sum(axis=2)
        emitted = accepted + 1.0
        se = emitted.std(ddof=1) / np.sqrt(emitted.size)
        naive += abs(emitted.mean() - truth) <= Z_95 * se
        ratio, relative = ratio_of_sums(emitted.sum(axis=1), np.full(REQUESTS, float(ROUNDS)))
        clustered += abs(ratio - truth) <= Z_95 * relative * ratio
    print(
        f"95 % intervals of tokens a round, {REQUESTS} requests x {ROUNDS} rounds, acceptance "
        f"{mean:g} +- {SPREAD:g} between requests: by round {naive / TRIALS:.0%}, "
        f"by request {clustered / TRIALS:.0%}"
    )


def _beta(mean: float) -> tuple[float, float]:
    size = mean * (1 - mean) / SPREAD**2 - 1
    return mean * size, (1 - mean) * size


def main() -> None:
    """Print everything."""
    for part in (acceptance_laws, round_equation, verification, experts, draft_memory, coverage):
        part()


if __name__ == "__main__":
    main()
