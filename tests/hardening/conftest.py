"""Servers and engines that go wrong on purpose."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from capplan.schema.pairing import Method
from profiler.experiment import Wishes
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

if TYPE_CHECKING:
    from types import ModuleType

    from profiler.backends.fake_engine import FakeEngineFactory

SMALL = Wishes(batches=(1, 2), contexts=(64,), lengths=(1, 3), max_tokens=12, requests_per_task=2)


@pytest.fixture(scope="session")
def hostile() -> ModuleType:
    """The module with Hostile, a loopback server with a fault for every way to go wrong."""
    return _helper("hostile_server")


@pytest.fixture(scope="session")
def planted_worker() -> ModuleType:
    """The module with a worker process that goes wrong where it is told to."""
    return _helper("planted_worker")


@pytest.fixture
def session(tmp_path: Path) -> Any:
    """Run sessions of an engine in one folder."""

    def run(factory: FakeEngineFactory, telemetry: Any = None, **wanted: Any) -> Any:
        options: dict[str, Any] = {"target": "big", "method": Method.NGRAM, "wishes": SMALL}
        return run_session(
            SessionRequest(
                output=tmp_path / "p.json", backend="fake-engine", **(options | wanted)
            ),
            on_progress=lambda _: None,
            clock=factory.clock,
            telemetry=telemetry or FakeTelemetry(factory.clock),
            engine=factory,
        )

    return run


def _helper(name: str) -> ModuleType:
    # Loaded by path: the suite runs without its own folder on sys.path (import-mode=importlib).
    path = Path(__file__).parents[1] / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module
