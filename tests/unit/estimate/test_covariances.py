"""Predictions from similar measurements against a plain reading of their method pages.

The reference takes the covariances of docs/method/round-transfer.md and
docs/method/verification.md entry by entry and conditions one normal distribution on the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import pytest

from capplan.estimate.round_transfer import MeasuredRound, RoundSetting, transfer_round_ratio
from capplan.estimate.task_transfer import TaskTokens, predict_task
from capplan.estimate.temperature import Drafter, KeptShare, predict_kept_share
from capplan.estimate.verification import (
    MeasuredVerification,
    VerificationSetting,
    verification_from_decode,
)

MEAN_VARIANCE, DEGREES = 1e4, 3.0
Setting = TypeVar("Setting")


class Expected(NamedTuple):
    mean: float
    sd: float
    log_evidence: float


def conditioned(
    values: Sequence[float],
    settings: Sequence[Setting],
    covariance: Callable[[Setting, Setting], float],
    noise_sd: float,
) -> Expected:
    """Condition the last setting's value on those of the others, by matrix inversion."""
    whole = np.array([[covariance(a, b) + MEAN_VARIANCE for b in settings] for a in settings])
    whole += np.eye(len(settings))
    inverse = np.linalg.inv(whole[:-1, :-1])
    centred = np.array(values) - np.mean(values)
    weights = inverse @ whole[:-1, -1]
    degrees = DEGREES + len(values) - 1
    squares = DEGREES * noise_sd**2 + centred @ inverse @ centred
    variance = whole[-1, -1] - weights @ whole[:-1, -1]
    return Expected(
        float(np.mean(values) + weights @ centred),
        math.sqrt(squares / degrees * variance),
        float(-np.linalg.slogdet(whole[:-1, :-1])[1] / 2 - degrees / 2 * math.log(squares)),
    )


# ---- rounds

BASE = RoundSetting("head", "chain", 3.0, 4.0, "chat", 0.0, 2.5)
N5 = replace(BASE, num_speculative_tokens=5.0, verified_tokens=6.0, tokens_per_round=2.9)
UNKNOWN = replace(BASE, num_speculative_tokens=None, verified_tokens=None)


def of_rounds(scale: float) -> Callable[[RoundSetting, RoundSetting], float]:
    """Return the table of docs/method/round-transfer.md, tasks weighed by ``scale``."""

    def covariance(a: RoundSetting, b: RoundSetting) -> float:
        draft = a.draft == b.draft
        drafting = draft and a.method == b.method
        length = drafting and (a.num_speculative_tokens, a.verified_tokens) == (
            b.num_speculative_tokens,
            b.verified_tokens,
        )
        slope = (length_of(a) - 5) / 2 * (length_of(b) - 5) / 2
        tokens = (math.log(a.tokens_per_round) - 1) * (math.log(b.tokens_per_round) - 1)
        return (
            100 * drafting
            + 10 * draft
            + 2 * length
            + 2 * (length and a.temperature == b.temperature)
            + 30 * drafting * slope
            + 3 * scale * (a.task == b.task) * (1 + draft + drafting)
            + 100 * tokens
        )

    return covariance


def length_of(setting: RoundSetting) -> float:
    n = setting.num_speculative_tokens
    return 5.0 if n is None else n


@pytest.mark.parametrize(
    ("rounds", "wanted"),
    [
        ([(BASE, 1.3)], N5),
        ([(BASE, 1.3)], replace(BASE, temperature=1.0)),
        ([(BASE, 1.3)], replace(BASE, verified_tokens=9.0)),
        ([(BASE, 1.3)], replace(BASE, task="code", tokens_per_round=3.5)),
        ([(BASE, 1.3), (replace(BASE, draft="llm"), 2.1)], replace(BASE, task="code")),
        ([(BASE, 1.3), (replace(BASE, method="tree"), 1.7)], N5),
        ([(BASE, 1.3), (replace(BASE, task="code"), 1.5), (N5, 1.52)], replace(N5, task="code")),
        (
            [(BASE, 1.3), (N5, 1.47), (replace(N5, temperature=1.0, task="code"), 1.6)],
            replace(BASE, temperature=1.0, tokens_per_round=2.0),
        ),
        ([(UNKNOWN, 1.3), (replace(UNKNOWN, task="code"), 1.4)], replace(UNKNOWN, task="maths")),
    ],
)
def test_a_round_is_carried_as_the_table_of_the_method_says(
    rounds: list[tuple[RoundSetting, float]], wanted: RoundSetting
) -> None:
    settings = [*(setting for setting, _ in rounds), wanted]
    start = [math.log(1 + 0.07 * length_of(setting)) for setting in settings]
    values = [math.log(ratio) - at for (_, ratio), at in zip(rounds, start, strict=False)]
    of_scales = [
        conditioned(values, settings, of_rounds(scale), noise_sd=0.02)
        for scale in (0.03, 1.0, 3.0)
    ]
    weights = np.exp([one.log_evidence - of_scales[0].log_evidence for one in of_scales])
    weights /= weights.sum()
    mean = sum(w * one.mean for w, one in zip(weights, of_scales, strict=True))
    spread = sum(
        w * (one.sd**2 + (one.mean - mean) ** 2) for w, one in zip(weights, of_scales, strict=True)
    )
    found = transfer_round_ratio([MeasuredRound(*one) for one in rounds], wanted)
    assert found is not None
    assert found.mid == pytest.approx(math.exp(mean + start[-1]), rel=1e-7)
    assert found.log_sd == pytest.approx(math.sqrt(spread), rel=1e-6)
    assert found.degrees == DEGREES + len(rounds) - 1


def test_a_length_that_was_not_published_is_the_mean_of_those_that_were() -> None:
    wanted = replace(BASE, num_speculative_tokens=7.0)
    unknown = transfer_round_ratio([MeasuredRound(UNKNOWN, 1.3), MeasuredRound(N5, 1.5)], wanted)
    # 5 and 7 are known: 6
    six = replace(UNKNOWN, num_speculative_tokens=6.0)
    known = transfer_round_ratio([MeasuredRound(six, 1.3), MeasuredRound(N5, 1.5)], wanted)
    assert unknown == known


def test_the_same_round_again_differs_by_the_noise_of_both() -> None:
    found = transfer_round_ratio([MeasuredRound(BASE, 1.3)], BASE)
    assert found is not None
    assert found.mid == pytest.approx(1.3)
    assert found.log_sd == pytest.approx(0.02 * math.sqrt(2), rel=1e-3)


# ---- texts and temperatures


def of_texts(a: TaskTokens, b: TaskTokens) -> float:
    return 4.0 * (a.pair == b.pair) + 4.0 * (a.task == b.task)


def test_a_text_is_foretold_from_its_pair_and_from_other_pairs_on_it() -> None:
    rows = [("a", "code", 3.6), ("a", "chat", 2.4), ("b", "code", 3.1), ("c", "maths", 2.9)]
    measured = [TaskTokens((pair,), task, tokens) for pair, task, tokens in rows]
    settings = [*measured, TaskTokens(("b",), "chat", 0.0)]
    values = [math.log(one.tokens_per_round) for one in measured]
    expected = conditioned(values, settings, of_texts, noise_sd=0.10)
    found = predict_task(measured, ("b",), "chat")
    assert found.mid == pytest.approx(math.exp(expected.mean))
    assert (found.log_sd, found.degrees) == (pytest.approx(expected.sd), 6.0)


def of_shares(a: KeptShare, b: KeptShare) -> float:
    drafter = a.drafter == b.drafter
    pair = (a.source, a.pair) == (b.source, b.pair)
    return 10.0 * drafter + 2.0 * (drafter and a.source == b.source) + 2.0 * pair


def test_a_kept_share_is_foretold_from_its_kind_its_source_and_its_pair() -> None:
    measured = [
        KeptShare("a", ("p",), Drafter.HEAD, 0.9),
        KeptShare("a", ("q",), Drafter.HEAD, 0.8),
        KeptShare("a", ("p",), Drafter.LLM, 0.65),
        KeptShare("b", ("p",), Drafter.LLM, 0.6),
        KeptShare("b", ("p",), Drafter.HEAD, 0.75),
    ]
    for source, pair, drafter in (
        ("a", ("p",), Drafter.HEAD),
        ("b", ("q",), Drafter.LLM),
        ("c", ("p",), Drafter.LLM),
    ):
        settings = [*measured, KeptShare(source, pair, drafter, 1.0)]
        values = [math.log(one.share) for one in measured]
        expected = conditioned(values, settings, of_shares, noise_sd=0.05)
        found = predict_kept_share(measured, source, pair, drafter)
        assert found.mid == pytest.approx(math.exp(expected.mean))
        assert (found.log_sd, found.degrees) == (pytest.approx(expected.sd), 7.0)


@pytest.mark.parametrize(("stated", "taken"), [(0.0, 0.05), (-1.0, 0.05), (5.0, 2.0)])
def test_shares_that_no_text_keeps_are_cut(stated: float, taken: float) -> None:
    found = predict_kept_share([KeptShare("a", (), Drafter.LLM, stated)], "b", (), Drafter.LLM)
    assert found.mid == pytest.approx(taken)


# ---- verifications

A100 = VerificationSetting("8B", "A100", 8.0, 32.0, 8000.0, 4.0, 0.012)
SHARE, LAUNCH_S, TOKEN_S, ATTENTION_S = 0.1, 1e-3, 1e-5, 1e-10


def of_verifications(a: VerificationSetting, b: VerificationSetting) -> float:
    """Return the covariance of verification over decode, in noise variances of 1 %."""

    def parts(s: VerificationSetting) -> list[float]:
        extra = s.batch * (s.tokens_per_sequence - 1)
        seconds = (LAUNCH_S, TOKEN_S * extra, ATTENTION_S * extra * s.context_tokens)
        return [SHARE, *(each / s.decode_s for each in seconds)]

    gpu = a.gpu == b.gpu
    group = gpu and a.num_gpus == b.num_gpus
    llm = group and a.llm == b.llm
    common = sum(x * y for x, y in zip(parts(a), parts(b), strict=True))
    return (1.0 + 1.0 * gpu + 1.0 * group + 0.3 * llm) * common / 0.01**2


@pytest.mark.parametrize(
    ("measured", "wanted"),
    [
        ([(A100, 0.014)], replace(A100, llm="32B")),
        ([(A100, 0.014)], replace(A100, num_gpus=4.0, decode_s=0.02)),
        ([(A100, 0.014)], replace(A100, context_tokens=64_000.0)),
        ([(A100, 0.014)], replace(A100, batch=256.0, tokens_per_sequence=8.0)),
        (
            [(A100, 0.014), (replace(A100, gpu="H100", decode_s=0.007), 0.008)],
            replace(A100, batch=64.0),
        ),
        (
            [(A100, 0.014), (replace(A100, batch=128.0, decode_s=0.03), 0.041),
             (replace(A100, num_gpus=None, context_tokens=1e5, decode_s=0.05), 0.07)],
            replace(A100, tokens_per_sequence=6.0),
        ),
    ],
)  # fmt: skip
def test_a_verification_costs_what_the_method_says(
    measured: list[tuple[VerificationSetting, float]], wanted: VerificationSetting
) -> None:
    settings = [*(setting for setting, _ in measured), wanted]
    extra = [seconds / setting.decode_s - 1 for setting, seconds in measured]
    expected = conditioned(extra, settings, of_verifications, noise_sd=0.01)
    found = verification_from_decode([MeasuredVerification(*one) for one in measured], wanted)
    assert found is not None
    assert found.mid == pytest.approx(wanted.decode_s * (1 + expected.mean), rel=1e-6)
    assert found.log_sd == pytest.approx(expected.sd / (1 + expected.mean), rel=1e-5)
    assert found.degrees == DEGREES + len(measured) - 1


def test_a_verification_is_never_put_below_half_a_step() -> None:
    absurd = [MeasuredVerification(A100, 0.1 * A100.decode_s)]
    found = verification_from_decode(absurd, A100)
    assert found is not None
    assert found.mid == 0.5 * A100.decode_s
