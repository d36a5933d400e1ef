"""A GPU that is lost in the middle of a run: told at once, nothing lost, resumed later."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capplan.errors import DeviceError, EngineError
from capplan.profiles.store import load_profile
from capplan.schema.verdict import Stability
from profiler.backends.fake import FakeBackend
from profiler.backends.fake_engine import FakeEngineFactory
from profiler.experiment import Wishes
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

NEVER = 10**9


class TestLostGpu:
    """Telemetry that stops answering in the middle of a run."""

    def test_the_run_of_an_engine_ends_at_once_and_keeps_what_it_has(
        self, session: Any, tmp_path: Path
    ) -> None:
        factory = FakeEngineFactory(kind="cuda")
        telemetry = FakeTelemetry(factory.clock)
        lost = {"at": 20}

        def hook(what: str) -> None:
            lost["at"] -= what.startswith("serve")
            if lost["at"] < 0:
                telemetry.gone_because = "GPU is lost"
                raise EngineError("CUDA error: the device is gone.")

        factory.hook = hook
        with pytest.raises(DeviceError, match="GPU is lost") as caught:
            session(factory, telemetry)
        assert caught.value.exit_code == 1
        assert "Xid" in caught.value.remedy
        assert len(factory.started) < 5
        self.check_kept(tmp_path)
        lost["at"] = NEVER
        again = session(FakeEngineFactory(kind="cuda"), resume=True).profile
        assert again.complete
        assert again.verdict.stability is Stability.STABLE

    @pytest.mark.parametrize("told_by", ["telemetry", "error"])
    def test_so_does_the_run_of_single_passes(self, tmp_path: Path, told_by: str) -> None:
        backend = FakeBackend()
        telemetry = FakeTelemetry(backend.clock)
        tried: list[str] = []

        def hook(what: str) -> None:
            tried.append(what)
            if len(tried) == 12:
                telemetry.gone_because = "GPU is lost" if told_by == "telemetry" else ""
                message = "CUDA error: an illegal memory access was encountered"
                raise RuntimeError(message if told_by == "error" else "it is gone")

        backend.hook = hook
        with pytest.raises(DeviceError, match="device is lost"):
            self.run_single(tmp_path, backend, telemetry)
        assert len(tried) == 12
        self.check_kept(tmp_path)
        again = self.run_single(tmp_path, FakeBackend(), None, resume=True).profile
        assert again.complete
        assert again.verdict.stability is Stability.STABLE

    def test_a_cell_that_does_not_fit_ends_nothing(self, tmp_path: Path) -> None:
        backend = FakeBackend()
        tried: list[str] = []

        def hook(what: str) -> None:
            tried.append(what)
            if len(tried) > 5:
                raise RuntimeError("CUDA error: out of memory")

        backend.hook = hook
        assert self.run_single(tmp_path, backend, None).profile.complete

    @staticmethod
    def run_single(folder: Path, backend: FakeBackend, telemetry: Any, **more: Any) -> Any:
        return run_session(
            SessionRequest(
                output=folder / "p.json",
                target="big",
                prompt_lookup=(2, 4),
                backend="fake",
                wishes=Wishes(batches=(1, 2), contexts=(64,), max_tokens=12, requests_per_task=2),
                **more,
            ),
            on_progress=lambda _: None,
            clock=backend.clock,
            telemetry=telemetry or FakeTelemetry(backend.clock),
            backend=backend,
        )

    @staticmethod
    def check_kept(folder: Path) -> None:
        kept = load_profile(folder / "p.json").profile
        assert not kept.complete
        assert kept.timing
        assert {r.check for r in kept.verdict.reasons} >= {"device_lost"}
        assert any("device is lost" in skipped.reason for skipped in kept.skipped)


def test_a_driver_that_lost_its_gpu_says_so_and_lets_itself_be_closed() -> None:
    from profiler.telemetry.nvml import NvmlTelemetry

    class NVMLError(Exception):
        pass

    def lost(*_: Any) -> None:
        raise NVMLError("GPU is lost")

    watch = NvmlTelemetry.__new__(NvmlTelemetry)
    watch._nvml = SimpleNamespace(
        NVMLError=NVMLError, nvmlDeviceGetMemoryInfo=lost, nvmlShutdown=lost
    )
    watch._handle = None
    assert watch.gone() == "GPU is lost"
    with pytest.raises(DeviceError, match="GPU is lost"):
        watch.device()
    watch.close()
