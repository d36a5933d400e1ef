"""Replacing a file, whatever the disk, the folder, the name or another process does."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import StorageError
from capplan.files import PART_SUFFIX, remove_parts, write_atomic

FAULTS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EACCES)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("code", FAULTS, ids=errno.errorcode.get)
def test_a_fault_at_any_call_leaves_the_old_file_or_the_new_and_nothing_else(
    tmp_path: Path, disk: Any, code: int
) -> None:
    path = tmp_path / "plan.json"
    with disk.failing(-1, code):
        write_atomic(path, "old")
    calls = len(disk.seen)
    assert {"open", "write", "fchmod", "fsync", "replace"} <= set(disk.seen)
    failed = 0
    for number in range(calls):
        write_atomic(path, "old")
        with disk.failing(number, code):
            error = disk.refusal(lambda: write_atomic(path, "new, and longer"))
        if error is None:
            assert path.read_text() == "new, and longer"
        else:
            failed += 1
            assert os.strerror(code) in error.message
            assert "unchanged" in error.message
            assert error.remedy
            assert path.read_text() == "old"
        assert names(tmp_path) == {"plan.json"}
    assert failed >= 5


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, bytes(data[:7])))
    write_atomic(tmp_path / "a", "0123456789" * 5)
    assert (tmp_path / "a").read_text() == "0123456789" * 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_really_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    path = small_disk / "plan.json"
    write_atomic(path, "old" * 1000)
    with pytest.raises(StorageError, match="No space left"):
        write_atomic(path, "new" * 40_000)
    assert path.read_text() == "old" * 1000
    assert names(small_disk) == {"plan.json"}


def test_a_read_only_file_system_is_explained(small_disk: Path) -> None:
    path = small_disk / "plan.json"
    write_atomic(path, "old")
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True, capture_output=True)
    with pytest.raises(StorageError, match="Read-only file system"):
        write_atomic(path, "new")
    assert path.read_text() == "old"


def test_a_link_to_another_file_system_stays_a_link(small_disk: Path, tmp_path: Path) -> None:
    real, link = small_disk / "plan.json", tmp_path / "latest.json"
    real.write_text("old")
    link.symlink_to(real)
    write_atomic(link, "new")
    assert link.readlink() == real
    assert real.read_text() == "new"
    assert names(small_disk) == {"plan.json"}


def test_a_link_keeps_pointing_to_what_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    real = tmp_path / "runs" / "plan.json"
    link, second = tmp_path / "latest.json", tmp_path / "newest.json"
    link.symlink_to(Path("runs") / "plan.json")
    second.symlink_to(link)
    write_atomic(second, "made through the links")
    write_atomic(second, "new")
    assert (real.read_text(), link.is_symlink(), second.is_symlink()) == ("new", True, True)
    assert names(tmp_path / "runs") == {"plan.json"}


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(StorageError, match="symbolic links"):
        write_atomic(tmp_path / "a", "text")
    assert (tmp_path / "a").is_symlink()


def test_standard_output_by_its_name_is_appended_to_and_never_replaced(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from capplan.files import write_atomic; "
        "print('first', flush=True); write_atomic(Path('/dev/stdout'), 'second\\n')"
    )
    before = Path("/dev/stdout").readlink()
    with (tmp_path / "out").open("ab") as stream:
        subprocess.run(
            [sys.executable, "-c", code],
            stdout=stream,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
    assert (tmp_path / "out").read_text() == "first\nsecond\n"
    assert Path("/dev/stdout").readlink() == before


@pytest.mark.parametrize("length", [200, 220, 255])
def test_the_longest_names_that_a_file_system_takes_are_written(
    tmp_path: Path, length: int
) -> None:
    for name in ("n" * length, "é" * (length // 2)):
        write_atomic(tmp_path / name, "whole")
        assert (tmp_path / name).read_text() == "whole"


def test_a_name_that_is_too_long_is_explained(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="File name too long"):
        write_atomic(tmp_path / ("n" * 300), "text")


def test_a_file_where_a_folder_is_expected_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(StorageError, match="Not a directory"):
        write_atomic(tmp_path / "file" / "plan.json", "text")
    assert (tmp_path / "file").read_text() == "kept"


def test_what_a_killed_writer_left_goes_with_the_next_write_and_what_lives_stays(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "p[1].json", tmp_path / "p1.json"
    for one in (path, other):
        (tmp_path / f".{one.name}.abcdefgh{PART_SUFFIX}").write_text("half")
    code = (
        "import sys, time, tempfile; from pathlib import Path\n"
        "from capplan.files.writing import _new_part\n"
        "print(_new_part(Path(sys.argv[1]))[1].name, flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert writer.stdout is not None
    alive = writer.stdout.readline().strip()
    write_atomic(path, "whole")
    assert names(tmp_path) == {"p[1].json", alive, f".p1.json.abcdefgh{PART_SUFFIX}"}
    writer.kill()
    writer.communicate()
    remove_parts(path)
    assert names(tmp_path) == {"p[1].json", f".p1.json.abcdefgh{PART_SUFFIX}"}


@pytest.fixture
def as_nobody() -> Callable[[str, Path], str]:
    """Write as a user without rights, in a process of its own where this one is root."""
    code = (
        "import os, sys; from pathlib import Path; from capplan.errors import StorageError\n"
        "from capplan.files import write_atomic\n"
        "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: write_atomic(Path(sys.argv[1]), sys.argv[2])\n"
        "except StorageError as error: print(error.message)\n"
    )

    def write(text: str, path: Path) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), text],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        return done.stdout

    return write


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that everybody may enter, unlike those of the tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def test_a_file_made_read_only_is_not_replaced_though_its_folder_would_allow_it(
    shared_folder: Path, as_nobody: Callable[[str, Path], str]
) -> None:
    path = shared_folder / "plan.json"
    path.write_text("kept")
    path.chmod(0o444)
    assert "the file is read-only" in as_nobody("new", path)
    assert path.read_text() == "kept"
    assert names(shared_folder) == {"plan.json"}


def test_a_folder_without_permission_is_explained(
    shared_folder: Path, as_nobody: Callable[[str, Path], str]
) -> None:
    path = shared_folder / "plan.json"
    path.write_text("kept")
    path.chmod(0o666)
    shared_folder.chmod(0o555)
    assert "Permission denied" in as_nobody("new", path)
    assert path.read_text() == "kept"
    assert names(shared_folder) == {"plan.json"}
    shared_folder.chmod(0o777)
