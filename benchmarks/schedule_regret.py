"""What a length schedule computed without the published sweeps loses against the best measured.

Of vllm_adaptive (DSpark, DeepSeek-V4-Pro, 8 x B300) acceptance and round cost are fitted to the
other loads; of vllm20780 (EAGLE heads, Llama-3.1-8B, H100) the two shortest drafts are known; of
angelslim (three drafts for Hy3-295B) tokens a round as stated and the other tasks' round cost;
of SpecDecode-Bench (EAGLE, Llama-3.1-8B, H100) acceptance at N = 1 and 3.

Run: ``python benchmarks/schedule_regret.py``
"""

from __future__ import annotations

from itertools import groupby

import numpy as np

from capplan.resources import models_db_dir
from capplan.validation.folder import read_published
from capplan.validation.schedule_sweeps import Sweep, sweeps

SHOWN = 0.005
"""Single loads that lose more are listed with the errors of their predictions."""


def describe(sweep: Sweep) -> str:
    """Return one load: what was picked, what was best, and how far the predictions were off."""
    errors = sweep.predicted / sweep.measured - 1.0
    shown = ", ".join(
        f"{choice} {error:+.0%}" for choice, error in zip(sweep.choices, errors, strict=True)
    )
    return (
        f"  {sweep.case}: {sweep.picked} instead of {sweep.best}, {sweep.regret:.1%}; "
        f"predictions {shown}"
    )


def one_choice(found: list[Sweep]) -> str:
    """Return the best single choice over the loads, and what it loses."""
    if len({sweep.choices for sweep in found}) > 1:
        return "-"
    measured = np.stack([sweep.measured for sweep in found])
    lost = (1.0 - measured / measured.max(axis=1, keepdims=True)).mean(axis=0)
    best = int(lost.argmin())
    return f"{found[0].choices[best]} {lost[best]:.1%}"


def main() -> None:
    """Print a line a source, then the loads that lose most."""
    every = sweeps(read_published(models_db_dir() / "published"))
    print("| source | loads | best picked | mean loss | worst | best single choice loses |")
    print("|---|---|---|---|---|---|")
    by_source = {key: list(group) for key, group in groupby(every, key=lambda s: s.source)}
    for source, found in by_source.items():
        lost = [sweep.regret for sweep in found]
        right = sum(sweep.picked == sweep.best for sweep in found)
        print(
            f"| {source} | {len(found)} | {right} | {np.mean(lost):.2%} | {max(lost):.1%} "
            f"| {one_choice(found)} |"
        )
    print()
    for source, found in by_source.items():
        print(source)
        worst = sorted(found, key=lambda sweep: -sweep.regret)
        for sweep in worst:
            if sweep.regret > SHOWN:
                print(describe(sweep))


if __name__ == "__main__":
    main()
