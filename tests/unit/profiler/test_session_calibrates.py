"""What a session writes is enough to calibrate from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from capplan.api.calibration import calibrate
from capplan.errors import CalibrationError
from capplan.profiles.store import StoredProfile
from capplan.schema.cells import Phase
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import Device, ProfiledLlm
from profiler.backends.fake import FakeBackend
from profiler.experiment import Wishes
from profiler.protocol import TimingPoint

WISHES = Wishes(batches=(1, 4, 16), contexts=(256, 1000), max_tokens=16, requests_per_task=2)
H100 = Device(kind="cuda", name="NVIDIA H100 80GB HBM3", memory_bytes=81559 * 2.0**20)


@dataclass
class PlantedBackend(FakeBackend):
    """Passes take as long as planted constants say of the LLM ``spec``."""

    spec: LlmSpec | None = None
    planted: Any = None

    def _llm(self, name: str, params: float) -> ProfiledLlm:
        assert self.spec is not None
        return ProfiledLlm(spec=self.spec, weight_sha256="0" * 64, dtype="bfloat16")

    def pass_s(self, point: TimingPoint) -> float:
        noise = float(1 + 0.01 * self._noise.uniform(-1, 1))
        if point.phase is Phase.PREFILL:
            return noise * float(self.planted.prompt_seconds(self.spec, point.tokens_per_sequence))
        at = (point.batch, point.tokens_per_sequence, point.context)
        return noise * float(self.planted.seconds(self.spec, *at))


def on_an_h100(stored: StoredProfile) -> StoredProfile:
    profile = stored.profile
    environment = profile.environment.model_copy(update={"device": H100})
    return replace(stored, profile=profile.model_copy(update={"environment": environment}))


def measured(session: Any, planted_engine: Any) -> list[StoredProfile]:
    llms = (planted_engine.SMALL, planted_engine.MIDDLE, planted_engine.LARGE)
    return [
        session.run(PlantedBackend(spec=llm, planted=planted_engine), wishes=WISHES, force=True)
        for llm in llms
    ]


def test_sessions_on_a_gpu_give_back_the_planted_constants(
    session: Any, planted_engine: Any
) -> None:
    found = calibrate([on_an_h100(stored) for stored in measured(session, planted_engine)])
    assert found.engine == "fake"
    assert found.step.held_out_error < 0.02 < 0.1 < found.step.datasheet_error
    values = found.step.values
    for name in ("layer_s", "weight_bandwidth_efficiency", "kv_bandwidth_efficiency"):
        assert values[name] == pytest.approx(planted_engine.PLANTED[name], rel=0.1)


def test_a_session_on_this_cpu_cannot_calibrate_and_says_why(
    session: Any, planted_engine: Any
) -> None:
    with pytest.raises(CalibrationError, match=r"taken on a CPU .* no data-sheet bandwidth"):
        calibrate(measured(session, planted_engine)[:1])
