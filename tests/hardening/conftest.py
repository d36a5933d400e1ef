"""Sessions of an engine that goes wrong on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from capplan.schema.pairing import Method
from profiler.experiment import Wishes
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

if TYPE_CHECKING:
    from profiler.backends.fake_engine import FakeEngineFactory

SMALL = Wishes(batches=(1, 2), contexts=(64,), lengths=(1, 3), max_tokens=12, requests_per_task=2)


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
