"""A verification from its decode step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capplan.estimate.verification import (
    MeasuredVerification,
    VerificationSetting,
    verification_from_decode,
)

BASE = VerificationSetting("8B", "A100", 8.0, 32.0, 8000.0, 4.0, 0.012)
LAUNCH_S, TOKEN_S = 4e-4, 6e-6


def true_seconds(setting: VerificationSetting) -> float:
    return (
        setting.decode_s + LAUNCH_S + TOKEN_S * setting.batch * (setting.tokens_per_sequence - 1)
    )


def known(*batches: float, gpu: str = "A100") -> list[MeasuredVerification]:
    settings = [
        replace(BASE, gpu=gpu, batch=b, tokens_per_sequence=q, decode_s=0.006 + 2e-4 * b)
        for b in batches
        for q in (3.0, 5.0)
    ]
    return [MeasuredVerification(s, true_seconds(s)) for s in settings]


def test_costs_of_launch_and_tokens_carry_to_another_batch_and_length() -> None:
    wanted = replace(BASE, batch=64.0, tokens_per_sequence=8.0, decode_s=0.0188)
    found = verification_from_decode(known(8, 16, 32, 96), wanted)
    assert found is not None
    assert found.mid == pytest.approx(true_seconds(wanted), rel=0.02)
    low, high = found.interval_90()
    assert low <= true_seconds(wanted) <= high


def test_verification_costs_more_than_decoding() -> None:
    found = verification_from_decode(known(8, 16, 32), replace(BASE, batch=24.0))
    assert found is not None
    assert found.mid > BASE.decode_s


def test_another_kind_of_gpu_alone_is_no_answer() -> None:
    assert verification_from_decode(known(8, 16, gpu="H100"), BASE) is None


def test_other_llms_of_the_group_help_and_leave_more_doubt() -> None:
    rounds = known(8, 16, 32, 96)
    own = verification_from_decode(rounds, BASE)
    foreign = verification_from_decode(rounds, replace(BASE, llm="32B"))
    assert own is not None
    assert foreign is not None
    assert foreign.mid == pytest.approx(own.mid, rel=0.05)
    assert foreign.log_sd > own.log_sd
