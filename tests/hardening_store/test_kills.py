"""``kill -9`` at random moments of a run, and at every call by which a profile is written.

``tools/kill_campaign.py`` does it, in processes of its own; it kills 200 runs where nobody asks
for fewer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KILLS = 12
MEMORY = "/dev/shm"
"""Where it is there: a kill takes no notice of the disk, and disks of shared machines are slow."""


@pytest.fixture(scope="module")
def campaign() -> dict[str, Any]:
    tool = [sys.executable, str(ROOT / "tools" / "kill_campaign.py")]
    done = subprocess.run(
        [*tool, "--kills", str(KILLS), "--pause", "0.008", "--json"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **({"TMPDIR": MEMORY} if Path(MEMORY).is_dir() else {})},
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if found["problems"] else 0)
    return found


def test_killed_runs_go_on_to_the_profile_of_one_that_was_left_alone(
    campaign: dict[str, Any],
) -> None:
    assert campaign["problems"] == []
    assert campaign["runs"] == KILLS
    least, most = campaign["cells_kept_least_and_most"]
    assert least < most, "the kills are spread over the run"


def test_a_kill_at_any_call_of_a_save_leaves_the_old_profile_or_the_new(
    campaign: dict[str, Any],
) -> None:
    assert campaign["problems"] == []
    assert campaign["steps_of_a_save"] > 20
    read = campaign["profile_read_after_a_step"]
    assert read["old"] > 10
    assert read["new"] > 3, "a kill after the rename finds the new one"
