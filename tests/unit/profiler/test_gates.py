"""What no honest measurement can show."""

from __future__ import annotations

import pytest

from capplan.schema.cells import Phase, Role, RoundsCell, TimingCell
from capplan.schema.verdict import Stability
from profiler.experiment import Wishes
from profiler.gates import judge_profile
from profiler.timing.verdict import STABLE, doubt

SMALL = Wishes(batches=(1, 2), contexts=(64,), max_tokens=8, requests_per_task=1)


@pytest.fixture
def profile(session):
    return session.run(wishes=SMALL).profile


def decode(batch, second, verdict=STABLE):
    return TimingCell(
        role=Role.TARGET,
        phase=Phase.DECODE,
        batch=batch,
        tokens_per_sequence=1,
        context=64,
        seconds=(second,) * 3,
        verdict=verdict,
    )


def rounds(identical, requests=4):
    return RoundsCell(
        task="code",
        temperature=0.0,
        num_speculative_tokens=1,
        batch=1,
        requests=requests,
        rounds=2,
        drafted=2,
        accepted=1,
        accepted_per_position=(1,),
        emitted=3,
        seconds=1.0,
        baseline_emitted=3,
        baseline_seconds=1.0,
        identical_outputs=identical,
    )


def judged(profile, peak=None, **changes):
    plain = {"timing": (), "rounds": (), **changes}
    return judge_profile(profile.model_copy(update=plain), [], peak)


def test_a_larger_batch_that_is_faster_is_doubted(profile):
    verdict = judged(profile, timing=(decode(1, 0.10), decode(2, 0.05)))
    assert [r.check for r in verdict.reasons] == ["time_falls_with_batch"]
    assert judged(profile, timing=(decode(1, 0.10), decode(2, 0.095))) == STABLE


def test_bandwidth_above_the_hardware_is_invalid_where_the_hardware_is_known(profile):
    big = profile.target.spec.model_copy(update={"weight_bytes_active": 16e9})
    target = profile.target.model_copy(update={"spec": big})
    cells = (decode(1, 0.001),)
    verdict = judged(profile, peak=2e12, timing=cells, target=target)
    assert verdict.stability is Stability.INVALID
    assert verdict.reasons[0].value == pytest.approx(1.6e13)
    assert judged(profile, peak=None, timing=cells, target=target) == STABLE
    assert judged(profile, peak=2e12, timing=(decode(1, 0.01),), target=target) == STABLE


def test_text_changed_by_speculation_is_a_fault_in_float32_and_a_doubt_in_bfloat16(profile):
    assert judged(profile, rounds=(rounds(4),)) == STABLE
    assert judged(profile, rounds=(rounds(3),)).stability is Stability.NOISY
    assert judged(profile, rounds=(rounds(1),)).stability is Stability.INVALID
    low = profile.target.model_copy(update={"dtype": "bfloat16"})
    assert judged(profile, rounds=(rounds(1),), target=low).stability is Stability.NOISY


def test_one_bad_cell_makes_noise_and_a_majority_makes_the_profile_invalid(profile):
    bad = doubt("spread", 0.9, 0.5, "r", Stability.INVALID)
    good = [decode(b, 0.1) for b in (1, 2)]
    assert judged(profile, timing=(*good, decode(4, 0.1, bad))).stability is Stability.NOISY
    worse = (good[0], decode(2, 0.1, bad), decode(4, 0.1, bad))
    assert judged(profile, timing=worse).stability is Stability.INVALID
