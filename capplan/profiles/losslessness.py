"""Whether speculation left the target's text alone, judged from what a profile recorded.

Speculative decoding promises the text of the target, sampled as without it. A fault breaks that
promise in silence: acceptance and speed look plausible while the text is damaged. The target
itself shows it: it gives text that it did not write a lower log-probability.

Method and thresholds: docs/profiling-vllm.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from capplan.schema.cells import LosslessnessCell
from capplan.schema.verdict import Reason, Stability, Verdict

CHECK = "losslessness"
FAMILY_ERROR = 0.01
"""Chance that a faultless engine is found faulty, over all cells of a profile together."""
WIDEST_NATS = 0.5
"""An interval wider than this on either side shows too little to call the text equal."""
TIE_NATS = {"float32": 0.01, "float16": 0.1, "bfloat16": 0.5}
"""Margins up to this are ties that rounding decides. Logits of LLMs reach 16 to 32, where
neighbouring bfloat16 numbers lie 0.125 apart and float16 ones 0.016; a few roundings add up."""
EQUAL_SHARE, BROKEN_SHARE = 0.02, 0.10
"""Share of requests at temperature 0 that may differ by more than a tie; above the second one
the text is broken."""
FEWEST_REQUESTS = 4
Floats = NDArray[np.float64]


class Outcome(StrEnum):
    """What a comparison shows."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Comparison:
    """One cell, judged."""

    cell: LosslessnessCell
    outcome: Outcome
    value: float
    """Above temperature 0 the difference of the mean log-probability a token, in nats; at 0 the
    share of requests that differ by more than a tie."""
    threshold: float
    """Above 0 the half-width of the interval around no difference; at 0 the share allowed."""
    ties: int = 0

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        return _sentence(self)


@dataclass(frozen=True)
class LosslessnessJudgement:
    """All cells of a profile, judged together."""

    comparisons: tuple[Comparison, ...]
    controls: tuple[Comparison, ...]
    """Plain decoding against itself: a failure there says that the check itself is broken."""

    @property
    def outcome(self) -> Outcome:
        """The worst of the cells; undecided without any, or if the check fails on itself."""
        outcomes = {one.outcome for one in self.comparisons}
        broken = any(one.outcome is Outcome.FAIL for one in self.controls)
        if Outcome.FAIL in outcomes and not broken:
            return Outcome.FAIL
        if broken or Outcome.UNDECIDED in outcomes or not outcomes:
            return Outcome.UNDECIDED
        return Outcome.PASS


def judge_losslessness(cells: Sequence[LosslessnessCell], dtype: str) -> LosslessnessJudgement:
    """Judge every cell; the chance of a false alarm is held over all of them together.

    Parameters
    ----------
    cells
        Of one profile.
    dtype
        The target's number format: it decides what counts as a tie.
    """
    tested = [cell for cell in cells if cell.num_speculative_tokens > 0]
    controls = [cell for cell in cells if cell.num_speculative_tokens == 0]
    warm = sum(cell.temperature > 0 for cell in tested)
    return LosslessnessJudgement(
        tuple(compare(cell, dtype, warm) for cell in tested),
        tuple(compare(cell, dtype, len(controls)) for cell in controls),
    )


def compare(cell: LosslessnessCell, dtype: str, family: int) -> Comparison:
    """Judge one cell as one of ``family`` that are judged together."""
    if cell.temperature == 0:
        return _compare_tokens(cell, dtype)
    difference, error = difference_nats(cell)
    requests = min(len(cell.tokens), len(cell.baseline_tokens))
    if requests < FEWEST_REQUESTS:
        return Comparison(cell, Outcome.UNDECIDED, difference, WIDEST_NATS)
    half = student_quantile(1 - FAMILY_ERROR / (2 * max(family, 1)), requests - 1) * error
    if abs(difference) > half:
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.PASS if half <= WIDEST_NATS else Outcome.UNDECIDED
    return Comparison(cell, outcome, difference, half)


def _compare_tokens(cell: LosslessnessCell, dtype: str) -> Comparison:
    requests = len(cell.tokens)
    limit = TIE_NATS.get(dtype, TIE_NATS["bfloat16"])
    ties = sum(margin <= limit for margin in cell.difference_margins_nats)
    share = (len(cell.difference_margins_nats) - ties) / max(requests, 1)
    if share > BROKEN_SHARE:
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.PASS if share <= EQUAL_SHARE and requests else Outcome.UNDECIDED
    return Comparison(cell, outcome, share, EQUAL_SHARE, ties)


def difference_nats(cell: LosslessnessCell) -> tuple[float, float]:
    """Return the difference of the mean log-probability a token and its standard error.

    Tokens of one request are not independent, so requests are what varies. The same prompt was
    written both ways; where both sides have as many requests, prompts are compared with
    themselves, which leaves out how hard each prompt is.
    """
    ours, our_parts = _mean_and_parts(cell.tokens, cell.log_prob_nats)
    theirs, their_parts = _mean_and_parts(cell.baseline_tokens, cell.baseline_log_prob_nats)
    if len(our_parts) == len(their_parts):
        variance = _sum_of_squares(our_parts - their_parts)
    else:
        variance = _sum_of_squares(our_parts) + _sum_of_squares(their_parts)
    return ours - theirs, math.sqrt(variance)


def _mean_and_parts(tokens: Sequence[int], means: Sequence[float]) -> tuple[float, Floats]:
    """Return the mean over tokens, and what each request adds to its error (linearised)."""
    weights = np.asarray(tokens, dtype=float)
    values = np.asarray(means, dtype=float)
    total = weights.sum()
    if total == 0:
        return 0.0, np.zeros(len(weights))
    mean = float((weights * values).sum() / total)
    return mean, weights * (values - mean) / total


def _sum_of_squares(parts: Floats) -> float:
    requests = len(parts)
    if requests < 2:
        return math.inf
    return float((parts**2).sum() * requests / (requests - 1))


def student_quantile(share: float, freedom: int) -> float:
    """Return the quantile of Student's t, by its expansion in 1/freedom.

    Abramowitz and Stegun 26.7.5; within 1 % from 4 degrees of freedom on, for the shares used.
    """
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return float(z + first / freedom + second / freedom**2 + third / freedom**3)


def losslessness_verdict(cells: Sequence[LosslessnessCell], dtype: str) -> Verdict:
    """Return the verdict that the cells give a profile: ``invalid`` if the text is damaged."""
    judged = judge_losslessness(cells, dtype)
    if judged.outcome is Outcome.PASS or not cells:
        return Verdict(stability=Stability.STABLE)
    if judged.outcome is Outcome.FAIL:
        worst = [one for one in judged.comparisons if one.outcome is Outcome.FAIL]
        stability = Stability.INVALID
    else:
        worst = [
            one
            for one in (*judged.controls, *judged.comparisons)
            if one.outcome is not Outcome.PASS
        ]
        stability = Stability.NOISY
    reasons = tuple(
        Reason(
            check=CHECK,
            value=round(one.value, 6),
            threshold=round(one.threshold, 6),
            remedy=f"{one.sentence} {_REMEDY[stability]}",
        )
        for one in worst
    )
    return Verdict(stability=stability, reasons=reasons)


_REMEDY = {
    Stability.INVALID: (
        "Do not serve it like this: try another version or build of the engine, another way to "
        "draft, or serve this temperature without speculation; then profile again."
    ),
    Stability.NOISY: "Measure more requests: --num-requests.",
}


def _sentence(one: Comparison) -> str:
    cell = one.cell
    control = cell.num_speculative_tokens == 0
    what = "Plain decoding with another seed" if control else f"N={cell.num_speculative_tokens}"
    if cell.draft_sampling is not None:
        what += f" ({cell.draft_sampling.value} drafts)"
    where = f"{what} at temperature {cell.temperature:g}"
    if cell.temperature == 0:
        differing = len(cell.difference_margins_nats)
        return (
            f"{where}: {differing} of {len(cell.tokens)} texts differ from plain decoding, "
            f"{one.ties} of them by a tie."
        )
    return (
        f"{where}: the target gives its text {one.value:+.2f} nats a token against plain "
        f"decoding, {len(cell.tokens)} requests, {one.threshold:.2f} either way is chance."
    )
