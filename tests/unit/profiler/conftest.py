"""A session without any LLM: fake backend, fake clock, fake telemetry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from capplan.profiles.store import StoredProfile
from profiler.backends.fake import FakeBackend
from profiler.session import Progress, SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry


@dataclass
class FakeSession:
    """Runs sessions in one folder and keeps what they reported."""

    folder: Path
    progress: list[Progress] = field(default_factory=list)

    def run(
        self,
        backend: FakeBackend | None = None,
        telemetry: FakeTelemetry | None = None,
        **wanted: Any,
    ) -> StoredProfile:
        """Run one session; every test gets fresh progress."""
        used = backend or FakeBackend()
        self.progress.clear()
        options = {"target": "big", "prompt_lookup": (2, 4), "backend": "fake", **wanted}
        return run_session(
            SessionRequest(output=self.path, **options),
            on_progress=self.progress.append,
            clock=used.clock,
            telemetry=telemetry or FakeTelemetry(used.clock),
            backend=used,
        )

    @property
    def path(self) -> Path:
        """The profile file of this folder."""
        return self.folder / "profile.json"


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    return FakeSession(tmp_path)


@pytest.fixture
def fail_at() -> Callable[[int, BaseException], Callable[[str], None]]:
    """A hook that raises at the k-th piece of work after loading."""

    def make(k: int, error: BaseException) -> Callable[[str], None]:
        seen: list[str] = []

        def hook(what: str) -> None:
            seen.append(what)
            if len(seen) == k + 1:
                raise error

        return hook

    return make
