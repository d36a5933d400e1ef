"""A profile run on a disk that fails, under a clock that jumps, into files of all kinds."""

from __future__ import annotations

import errno
import os
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capplan.errors import CapplanError, StorageError
from capplan.profiles.store import StoredProfile, load_profile, save_profile
from profiler import ledger
from profiler.backends.fake import FakeBackend
from profiler.experiment import Wishes
from profiler.protocol import TimingPoint
from profiler.session import SessionRequest, run_session
from profiler.telemetry.fake import FakeTelemetry

WISHES = Wishes(batches=(1, 2), contexts=(64,), max_tokens=12, requests_per_task=2)


class Steady(FakeBackend):
    """Its noise hangs on the point alone: a cell has its values whenever it is measured."""

    def pass_s(self, point: TimingPoint) -> float:
        self._noise = np.random.default_rng(zlib.crc32(repr(point).encode()))
        return super().pass_s(point)


def run(path: Path, **options: Any) -> StoredProfile:
    backend = Steady(hook=options.pop("hook", lambda _what: None))
    request = SessionRequest(
        output=path,
        target="big",
        prompt_lookup=(2, 4),
        backend="fake",
        wishes=WISHES,
        **{"resume": True, **options},
    )
    return run_session(
        request,
        on_progress=lambda _step: None,
        clock=backend.clock,
        telemetry=FakeTelemetry(backend.clock),
        backend=backend,
    )


def comparable(stored: StoredProfile) -> dict[str, Any]:
    document = stored.profile.model_dump(mode="json")
    return {key: document[key] for key in document if key not in ("id", "created_at")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> StoredProfile:
    """What a run becomes that nothing disturbs."""
    return run(tmp_path_factory.mktemp("whole") / "p.json")


def test_a_fault_at_any_call_of_a_save_leaves_a_whole_pair_and_nothing_else(
    tmp_path: Path, disk: Any, whole: StoredProfile
) -> None:
    path, refusal = tmp_path / "p.json", disk.refusal
    with disk.failing(-1, errno.ENOSPC):
        save_profile(path, whole.profile, {**whole.arrays, "x": np.arange(9)})
    calls, failed = len(disk.seen), 0
    assert calls > 10
    for number in range(calls):
        save_profile(path, whole.profile, {**whole.arrays, "x": np.arange(5)})
        with disk.failing(number, errno.ENOSPC):
            error = refusal(
                lambda: save_profile(path, whole.profile, {**whole.arrays, "x": np.arange(9)})
            )
        if error is not None:
            failed += 1
            assert "No space left" in error.message
        stored = load_profile(path)
        assert len(stored.arrays["x"]) in (5, 9)
        assert {one.name for one in tmp_path.iterdir()} == {"p.json", stored.profile.sidecar}
    assert failed >= 8


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_a_disk_that_fills_during_a_run_costs_no_finished_cell(
    tmp_path: Path, disk: Any, whole: StoredProfile, share: float
) -> None:
    path = tmp_path / "p.json"
    with disk.failing(-1, errno.ENOSPC):
        run(path, force=True)
    number = int(share * len(disk.seen))
    path.unlink()
    with (
        disk.failing(number, errno.ENOSPC, for_good=True),
        pytest.raises(StorageError, match="No space left") as caught,
    ):
        run(path)
    assert caught.value.remedy
    kept = load_profile(path).profile if path.exists() else None
    assert not list(tmp_path.glob(".*.part"))
    finished = run(path)
    assert comparable(finished) == comparable(whole)
    assert kept is None or kept.id == finished.profile.id
    assert {one.name for one in tmp_path.iterdir()} == {"p.json", finished.profile.sidecar}


class Jumping(datetime):
    """A wall clock that somebody sets back by a year between two readings."""

    readings = 0

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        cls.readings += 1
        return datetime(2026, 12, 1, tzinfo=UTC) - timedelta(days=365 * (cls.readings - 1))


def test_a_clock_set_back_in_the_middle_changes_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: StoredProfile
) -> None:
    monkeypatch.setattr(ledger, "datetime", Jumping)
    monkeypatch.setattr(Jumping, "readings", 0)
    path, pieces = tmp_path / "p.json", []

    def stop(what: str) -> None:
        pieces.append(what)
        if len(pieces) == 12:
            raise KeyboardInterrupt

    with pytest.raises(CapplanError, match="Interrupted"):
        run(path, hook=stop)
    finished = run(path)
    assert Jumping.readings == 2
    assert finished.profile.created_at == "2026-12-01T00:00:00+00:00", "when the run was begun"
    assert comparable(finished) == comparable(whole)


def test_durations_are_read_from_clocks_that_nobody_can_set() -> None:
    root = Path(__file__).parents[2]
    sources = [*(root / "capplan").rglob("*.py"), *(root / "profiler").rglob("*.py")]
    wrong = [
        str(path.relative_to(root)) for path in sources if "time.time()" in path.read_text("utf-8")
    ]
    assert wrong == []


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    def measured(what: str) -> None:
        pytest.fail(f"{what} although the file cannot be written")

    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    cases = {
        "folder.json": "it is a folder",
        "absent/p.json": "does not exist",
        "file/p.json": "Not a directory",
        f"{'n' * 248}.json": "14 bytes too long",
        "n" * 300: "File name too long",
        "a": "symbolic links",
    }
    for name, why in cases.items():
        with pytest.raises(CapplanError, match=why) as caught:
            run(tmp_path / name, hook=measured, resume=False, force=True)
        assert caught.value.remedy
    assert {one.name for one in tmp_path.iterdir()} == {"folder.json", "file", "a", "b"}


def test_the_longest_name_that_is_taken_is_written_whole(tmp_path: Path) -> None:
    longest = 255 - len("-0123456789abcdef.npz")
    path = tmp_path / f"{'n' * longest}.json"
    stored = run(path)
    assert load_profile(path).profile == stored.profile
    assert len(list(tmp_path.iterdir())) == 2


def test_a_profile_behind_a_link_keeps_its_arrays_beside_it(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    real, link = tmp_path / "runs" / "one.json", tmp_path / "latest.json"
    link.symlink_to(real)
    stored = run(link)
    assert link.is_symlink()
    assert {one.name for one in real.parent.iterdir()} == {"one.json", stored.profile.sidecar}
    for path in (link, real):
        assert load_profile(path).arrays.keys() == stored.arrays.keys() != set()


def test_a_profile_may_be_thrown_away_into_the_null_device(tmp_path: Path) -> None:
    before = set(Path("/dev").iterdir())
    run(Path(os.devnull), resume=False, force=True)
    assert set(Path("/dev").iterdir()) == before


def test_what_a_kill_at_the_very_end_left_goes_with_the_next_look(
    tmp_path: Path, whole: StoredProfile
) -> None:
    path = tmp_path / "p.json"
    finished = run(path)
    orphan = tmp_path / "p-0123456789abcdef.npz"
    part = tmp_path / ".p-0123456789abcdef.npz.abcdefgh.part"
    lock = tmp_path / ".p.json.lock"
    for one in (orphan, part, lock):
        one.write_bytes(b"left")
    again = run(path)
    assert comparable(again) == comparable(whole)
    assert {one.name for one in tmp_path.iterdir()} == {"p.json", finished.profile.sidecar}
