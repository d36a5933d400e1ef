"""Writing a file never destroys what is no file."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from capplan.errors import StorageError
from capplan.files import write_atomic


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        write_atomic(pipe, "through")
        assert read.result(timeout=10) == "through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_the_null_device_stays_a_device() -> None:
    write_atomic(Path(os.devnull), "gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116 - os.devnull is a string


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Cannot write"):
        write_atomic(tmp_path, "text")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "old, and longer")
    write_atomic(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
