"""Fit the step times that an engine itself reported: plain steps and whole speculative rounds.

An engine's round cannot be taken apart from outside: drafting, verifying, sampling and scheduling
are one step. What can be measured is how a round grows with the batch and with N, and that is all
a plan needs. docs/method/engine-rounds.md
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.errors import ProfileError
from capplan.estimate.calibration import fit_relative, held_out_error, prompt_seconds_per_token
from capplan.estimate.fitted_step import FittedStep
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.pairing import Method
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability

Floats = NDArray[np.float64]

_TERMS = ("fixed", "sequence", "round", "token", "pass", "rows", "context")
_CANDIDATES = (
    ("fixed", "sequence", "round", "token"),
    ("fixed", "sequence", "round", "token", "pass"),
    ("fixed", "sequence", "round", "token", "pass", "rows"),
    ("fixed", "sequence", "round", "token", "pass", "context"),
    _TERMS,
)
"""From few terms to all: a grid of six points cannot bear what a grid of forty can."""
_FEWEST_CELLS = 4


@dataclass(frozen=True)
class EngineFit:
    """Step times of an engine, as the planner takes them.

    Attributes
    ----------
    target
        A plain step; with more than one token a sequence, a round without ``draft`` and
        ``round_s``.
    draft
        What one more drafted token adds to a round, verification included; None for drafts that
        are no separate LLM, where ``target`` holds it.
    round_s
        What a round costs beyond that, at any N above 0.
    """

    target: FittedStep
    draft: FittedStep | None
    round_s: float


def is_engine_profile(profile: Profile) -> bool:
    """Whether step times are an engine's own, not those of single passes."""
    return any(cell.phase is Phase.ROUND for cell in profile.timing)


def fit_engine(profile: Profile) -> EngineFit:
    """Fit plain steps and rounds together.

    ``seconds = fixed + sequence*B + context*B*S + rows*[B*q > 1]
    + (N > 0)*round + N*pass + N*B*token``, with q = N + 1 tokens a sequence. The terms are those
    of the candidate sets whose error on points left out is smallest.

    Raises
    ------
    ProfileError
        If there are fewer than four usable points, or no plain step among them.
    """
    cells = [
        cell
        for cell in profile.timing
        if cell.role is Role.TARGET
        and cell.phase in (Phase.DECODE, Phase.ROUND)
        and cell.verdict.stability is not Stability.INVALID
    ]
    plain = [cell for cell in cells if cell.phase is Phase.DECODE]
    if len(cells) < _FEWEST_CELLS or not plain:
        raise ProfileError(
            f"Profile {profile.id} holds {len(plain)} plain and {len(cells) - len(plain)} "
            f"speculative step times; a fit needs {_FEWEST_CELLS} points, plain ones among them.",
            "Measure more batches or lengths: capplan profile ... --batch B --length N --resume.",
        )
    seconds = np.array([float(np.median(cell.seconds)) for cell in cells])
    names, error = _best_terms(cells, seconds)
    values = dict.fromkeys(_TERMS, 0.0)
    fitted = fit_relative(_matrix(cells, names), seconds)
    values |= dict(zip(names, map(float, fitted), strict=True))
    is_model = profile.draft is not None and profile.draft.method is Method.DRAFT_MODEL
    prefill = prompt_seconds_per_token(profile, Role.TARGET, fallback=values["token"])
    target = FittedStep(
        fixed_s=values["fixed"],
        several_rows_s=values["rows"],
        per_sequence_s=values["sequence"],
        per_token_s=0.0 if is_model else values["token"],
        per_context_s=values["context"],
        prefill_s_per_token=prefill,
        relative_se=error,
        per_extra_pass_s=0.0 if is_model else values["pass"],
    )
    draft = FittedStep(
        fixed_s=values["pass"],
        several_rows_s=0.0,
        per_sequence_s=values["token"],
        per_token_s=0.0,
        per_context_s=0.0,
        prefill_s_per_token=0.0,
        relative_se=error,
    )
    return EngineFit(target, draft if is_model else None, values["round"])


def _best_terms(cells: list[TimingCell], seconds: Floats) -> tuple[tuple[str, ...], float]:
    """Return the candidate terms with the smallest error on points left out, and that error.

    A set that cannot be told from a smaller one by this grid is not tried.
    """
    errors: dict[tuple[str, ...], float] = {}
    for names in _CANDIDATES:
        matrix = _matrix(cells, names)
        if not errors or np.linalg.matrix_rank(matrix) == len(names):
            errors[names] = held_out_error(matrix, seconds)
    best = min(errors, key=lambda names: errors[names])
    return best, errors[best]


def _matrix(cells: list[TimingCell], names: tuple[str, ...]) -> Floats:
    batch = np.array([cell.batch for cell in cells], dtype=float)
    extra = np.array([cell.tokens_per_sequence for cell in cells], dtype=float) - 1.0
    context = np.array([cell.context for cell in cells], dtype=float)
    columns = {
        "fixed": np.ones(len(cells)),
        "sequence": batch,
        "round": (extra > 0).astype(float),
        "token": extra * batch,
        "pass": extra,
        "rows": (batch * (extra + 1.0) > 1.0).astype(float),
        "context": batch * context,
    }
    return np.stack([columns[name] for name in names], axis=1)
