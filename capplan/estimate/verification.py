"""Time of a verification from the time of a decode step, learnt from other verifications.

What a verification adds to a decode step is a launch difference, arithmetic of the extra tokens
and their attention over the context. The three costs are properties of the GPU group, and a
little of the LLM; they are learnt from verifications measured elsewhere on it. No data sheet is
needed. docs/method/verification.md
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.similarity import NoisePrior, predict_from_similar, same
from capplan.estimate.uncertainty import LogEstimate

Floats = NDArray[np.float64]

NOISE = NoisePrior(sd=0.01, degrees=3.0)
"""Scatter of a verification over its decode step; times are printed with two to three digits."""

_LAUNCH_S = 1e-3
_TOKEN_S = 1e-5
_ATTENTION_S = 1e-10
"""Sizes that the three costs may have (a pass; a token; a token and token of context): they
only set the scale on which costs are learnt. On the A100 and H100 groups of MagicDec 0.5 ms,
3 us and 0.05 ns were found."""
_SHARE = 0.1
"""A share of the step itself, such as the noise of one decode time."""

_OF_GPU = 1.0
_OF_GROUP = 1.0
_OF_LLM = 0.3
"""How far the costs differ between GPUs, group sizes and LLMs, as variances in the sizes above."""


@dataclass(frozen=True)
class VerificationSetting:
    """A pass over several tokens a sequence.

    Attributes
    ----------
    llm, gpu
        Names; LLMs share what their GPU group has in common.
    num_gpus
        GPUs of the group; None if not published.
    batch, context_tokens
        Sequences, and tokens of context of each.
    tokens_per_sequence
        N + 1.
    decode_s
        Time of the plain decode step at the same batch and context.
    """

    llm: str
    gpu: str
    num_gpus: float | None
    batch: float
    context_tokens: float
    tokens_per_sequence: float
    decode_s: float


@dataclass(frozen=True)
class MeasuredVerification:
    """A verification and what it took."""

    setting: VerificationSetting
    verify_s: float


def verification_from_decode(
    measured: Sequence[MeasuredVerification], wanted: VerificationSetting
) -> LogEstimate | None:
    """Predict the time of a verification from its decode step and from other verifications.

    Parameters
    ----------
    measured
        Verifications on any hardware; those of the same GPU group weigh most.
    wanted
        The setting, with its decode time.

    Returns
    -------
    LogEstimate or None
        In seconds; None if nothing was measured on this kind of GPU.
    """
    if not any(one.setting.gpu == wanted.gpu for one in measured):
        return None
    settings = [*(one.setting for one in measured), wanted]
    shared = _shared_costs(settings)
    extra = np.array([one.verify_s / one.setting.decode_s - 1.0 for one in measured])
    found = predict_from_similar(
        extra, shared[:-1, :-1], shared[:-1, -1], float(shared[-1, -1]), NOISE
    )
    ratio = max(1.0 + found.mean, 0.5)
    return LogEstimate(wanted.decode_s * ratio, found.sd / ratio, found.degrees)


def _shared_costs(settings: Sequence[VerificationSetting]) -> Floats:
    """Return the covariance of verification over decode, in units of the noise variance."""
    decode = np.array([s.decode_s for s in settings])
    extra = np.array([s.batch * (s.tokens_per_sequence - 1.0) for s in settings])
    context = np.array([s.context_tokens for s in settings])
    shares = np.column_stack(
        [
            np.full(len(settings), _SHARE),
            _LAUNCH_S / decode,
            _TOKEN_S * extra / decode,
            _ATTENTION_S * extra * context / decode,
        ]
    )
    same_gpu = same([s.gpu for s in settings])
    same_group = same_gpu * same([s.num_gpus for s in settings])
    same_llm = same_group * same([s.llm for s in settings])
    weight = _OF_GPU * (1.0 + same_gpu) + _OF_GROUP * same_group + _OF_LLM * same_llm
    result: Floats = weight * (shares @ shares.T) / NOISE.sd**2
    return result
