"""Round ratio of one setting from rounds measured on the same machine in other settings.

The round ratio belongs to target, GPU, engine and batch; around its mean it depends on the draft,
grows with the drafted tokens, and varies a little with task and temperature. Where speedups are
end to end it also grows with tokens a round, because prefill and host work do not shrink with the
rounds. docs/method/round-transfer.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.similarity import NoisePrior, average, predict_from_similar, same
from capplan.estimate.uncertainty import LogEstimate

Floats = NDArray[np.float64]

NOISE = NoisePrior(sd=0.02, degrees=3.0)
"""Before any residual is seen: rounding of a printed speedup and of tokens a round."""

ROUND_GROWTH = 0.07
"""Growth of the round with each drafted token, over the round without any: the start from which
measured lengths depart. Published sweeps over N give 0.04 to 0.14."""

# Variances of the shared parts, in units of the noise variance. Round numbers, not fitted: halving
# or doubling any one moves the error of `capplan validate --mode step` by less than 0.05 points
# and that of `--mode forward` by less than 0.3 (docs/method/round-transfer.md has the table).
_DRAFTING = 100.0
_DRAFT = 10.0
_LENGTH = 2.0
_GROWTH = 30.0
_TEMPERATURE = 2.0
_TASK = 3.0
_TOKENS = 100.0
_TASK_SCALES = (0.03, 1.0, 3.0)
"""Whether tasks differ at all is not known beforehand: three answers, weighed by evidence."""

_TYPICAL_LENGTH = 5.0
_TYPICAL_LOG_TOKENS = 1.0
_GROWTH_SPAN = 2.0


@dataclass(frozen=True)
class RoundSetting:
    """What a round was run with, on one target, GPU, engine and batch.

    Attributes
    ----------
    draft, method
        The draft's name and how it drafts.
    num_speculative_tokens, verified_tokens
        N, and tokens a target pass where it is not N + 1; None if not published.
    task, temperature
        The text; None where not published.
    tokens_per_round
        Emitted a round, bonus token included.
    """

    draft: str
    method: str
    num_speculative_tokens: float | None
    verified_tokens: float | None
    task: str
    temperature: float | None
    tokens_per_round: float

    @property
    def drafting(self) -> tuple[str, str]:
        """Draft and method: two settings that differ here say little of one another."""
        return (self.draft, self.method)


@dataclass(frozen=True)
class MeasuredRound:
    """A measured round ratio: tokens a round over speedup."""

    setting: RoundSetting
    round_ratio: float


def transfer_round_ratio(
    measured: Sequence[MeasuredRound], wanted: RoundSetting
) -> LogEstimate | None:
    """Predict the round ratio of ``wanted`` from rounds of the same target, GPU and batch.

    Parameters
    ----------
    measured
        Rounds of the same target, GPU group, engine, batch and context; settings may differ.
    wanted
        The setting to predict; must not be among ``measured``.

    Returns
    -------
    LogEstimate or None
        None if no measured round has the same draft and method.
    """
    if not any(one.setting.drafting == wanted.drafting for one in measured):
        return None
    settings = [*(one.setting for one in measured), wanted]
    growth = np.log1p(ROUND_GROWTH * _lengths(settings))
    values = np.log([one.round_ratio for one in measured]) - growth[:-1]
    found = []
    for scale in _TASK_SCALES:
        shared = _shared_parts(settings, scale)
        found.append(
            predict_from_similar(
                values, shared[:-1, :-1], shared[:-1, -1], float(shared[-1, -1]), NOISE
            )
        )
    prediction = average(found)
    return LogEstimate(
        mid=float(np.exp(prediction.mean + growth[-1])),
        log_sd=prediction.sd,
        degrees=prediction.degrees,
    )


def _lengths(settings: Sequence[RoundSetting]) -> Floats:
    """Return N of each setting; where it is not published, the mean of those that are."""
    known = [s.num_speculative_tokens for s in settings if s.num_speculative_tokens is not None]
    missing = float(np.mean(known)) if known else _TYPICAL_LENGTH
    lengths = (s.num_speculative_tokens for s in settings)
    return np.array([missing if length is None else length for length in lengths])


def _shared_parts(settings: Sequence[RoundSetting], task_scale: float) -> Floats:
    """Return the covariance of the settings, in units of the noise variance."""
    drafting = same([s.drafting for s in settings])
    draft = same([s.draft for s in settings])
    length = same([(s.drafting, s.num_speculative_tokens, s.verified_tokens) for s in settings])
    temperature = same([s.temperature for s in settings])
    task = same([s.task for s in settings])
    growth = (_lengths(settings) - _TYPICAL_LENGTH) / _GROWTH_SPAN
    tokens = np.log([s.tokens_per_round for s in settings]) - _TYPICAL_LOG_TOKENS
    of_task = task_scale * _TASK * task * (1.0 + draft + drafting)
    result: Floats = (
        _DRAFTING * drafting
        + _DRAFT * draft
        + _LENGTH * length
        + _TEMPERATURE * length * temperature
        + _GROWTH * drafting * np.outer(growth, growth)
        + _TOKENS * np.outer(tokens, tokens)
        + of_task
    )
    return result
