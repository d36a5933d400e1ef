"""Kill profile runs with ``kill -9``, at random moments and at every call that writes.

::

    python tools/kill_campaign.py                  200 kills; about six minutes
    python tools/kill_campaign.py --kills 12       as the tests do

Nothing is measured: a backend without an LLM takes the same values at every point whenever it is
asked, so that a run that was killed and gone on with must end in the same profile, value by value,
as one that was left alone. The exit code is 1 if any did not, if a file could not be read after a
kill, if a finished cell was lost, or if anything but the profile and its sidecar was left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ["OMP_NUM_THREADS"] = "1"  # a fork keeps only the thread that forked

import numpy as np  # noqa: E402 # the folders come first
from crash_safety import forked  # noqa: E402
from crash_safety.run_kills import FILE, Killed, kill_one, profile  # noqa: E402
from crash_safety.step_kills import StepKill, kill_at_every_step  # noqa: E402

from capplan.profiles.store import StoredProfile, load_profile  # noqa: E402


def main() -> int:
    """Run the campaign and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200, help="runs to kill")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds of a piece of work")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    asked = parser.parse_args()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="capplan-kills-") as name:
        root = Path(name)
        reference, lasts_s = _left_alone(_made(root / "reference"), asked.pause)
        more = {**reference.arrays, "x": np.arange(40_000)}
        steps = kill_at_every_step(_made(root / "steps"), reference, more)
        random = Random(asked.seed)
        runs = [
            kill_one(_made(root / f"{number:03}"), reference, asked.pause, lasts_s, random)
            for number in range(asked.kills)
        ]
    found = _summary(reference, steps, runs)
    found["seconds_of_a_run"] = round(lasts_s, 2)
    found["took_s"] = round(time.monotonic() - begun_s, 1)
    print(json.dumps(found, indent=1) if asked.json else _lines(found))
    return 1 if found["problems"] else 0


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _left_alone(folder: Path, pause_s: float) -> tuple[StoredProfile, float]:
    """Return the profile of a run without a kill, and how long it took."""
    begun_s = time.monotonic()
    if not forked.ended_well(forked.start(lambda: profile(folder, pause_s))):
        raise SystemExit("the run without any kill failed")
    return load_profile(folder / FILE), time.monotonic() - begun_s


def _summary(
    reference: StoredProfile, steps: Sequence[StepKill], runs: Sequence[Killed]
) -> dict[str, Any]:
    kept = [run.cells_kept for run in runs]
    cells = reference.profile
    problems = [f"at {s.call}{' (half)' * s.half}: {p}" for s in steps for p in s.problems]
    problems += [f"killed after {r.moments_s} s: {p}" for r in runs for p in r.problems]
    return {
        "cells_of_a_run": len(cells.timing) + len(cells.acceptance) + len(cells.rounds),
        "runs": len(runs),
        "kills": sum(len(run.moments_s) for run in runs),
        "cells_kept_least_and_most": [min(kept, default=0), max(kept, default=0)],
        "killed_before_any_cell": kept.count(0),
        "steps_of_a_save": len(steps),
        "profile_read_after_a_step": dict(Counter(step.state for step in steps)),
        "problems": problems,
    }


def _lines(found: dict[str, Any]) -> str:
    return "\n".join(f"{name.replace('_', ' '):26} {value}" for name, value in found.items())


if __name__ == "__main__":
    sys.exit(main())
