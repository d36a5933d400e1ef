"""What a profile measured as a pandas DataFrame, for notebooks; pandas is imported on use."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Literal, get_args

from capplan.errors import MissingPackageError, RequestError
from capplan.schema.cells import RoundsCell, TimingCell
from capplan.schema.profile import Profile
from capplan.units import MS_PER_S

if TYPE_CHECKING:
    import pandas as pd

ProfileTable = Literal["steps", "rounds"]

_STEPS: tuple[str, ...] = (
    "role",
    "phase",
    "batch",
    "tokens_per_sequence",
    "context_tokens",
    "step_time_median_ms",
    "step_time_min_ms",
    "step_time_max_ms",
    "repetitions",
    "stability",
)
_ROUNDS: tuple[str, ...] = (
    "task",
    "temperature",
    "draft_sampling",
    "num_speculative_tokens",
    "batch",
    "requests",
    "rounds",
    "drafted_tokens",
    "accepted_tokens",
    "acceptance_rate",
    "tokens_per_round",
    "output_tokens_per_s",
    "baseline_output_tokens_per_s",
    "speedup",
    "identical_requests",
)


def profile_frame(profile: Profile, table: ProfileTable = "steps") -> pd.DataFrame:
    """Return the timed passes, or the speculation that was really run, a row each.

    Parameters
    ----------
    profile
        As measured, observed or imported; what it has none of gives a frame without rows.
    table
        ``steps``: a row a timed point of the grid. ``rounds``: a row a setting in which
        speculation ran beside plain decoding; its speedup is the measured one.

    Raises
    ------
    RequestError
        For a table that does not exist.
    MissingPackageError
        If pandas is not installed.
    """
    if table not in get_args(ProfileTable):
        known = ", ".join(get_args(ProfileTable))
        raise RequestError(f"Unknown table {table!r}.", f"Choose one of: {known}.")
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingPackageError("A DataFrame", "pandas", "notebook") from error
    if table == "steps":
        return pd.DataFrame([_step(cell) for cell in profile.timing], columns=list(_STEPS))
    return pd.DataFrame([_round(cell) for cell in profile.rounds], columns=list(_ROUNDS))


def _step(cell: TimingCell) -> tuple[object, ...]:
    return (
        cell.role.value,
        cell.phase.value,
        cell.batch,
        cell.tokens_per_sequence,
        cell.context,
        statistics.median(cell.seconds) * MS_PER_S,
        min(cell.seconds) * MS_PER_S,
        max(cell.seconds) * MS_PER_S,
        len(cell.seconds),
        cell.verdict.stability.value,
    )


def _round(cell: RoundsCell) -> tuple[object, ...]:
    speed = cell.emitted / cell.seconds
    baseline = cell.baseline_emitted / cell.baseline_seconds
    return (
        cell.task,
        cell.temperature,
        cell.draft_sampling.value if cell.draft_sampling else None,
        cell.num_speculative_tokens,
        cell.batch,
        cell.requests,
        cell.rounds,
        cell.drafted,
        cell.accepted,
        cell.accepted / cell.drafted if cell.drafted else float("nan"),
        cell.tokens_per_round,
        speed,
        baseline,
        speed / baseline if baseline else float("nan"),
        cell.identical_outputs,
    )
