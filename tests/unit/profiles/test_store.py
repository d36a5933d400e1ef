"""Profile files: whole or not at all, and every way in which one can be unreadable."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from capplan.errors import ProfileFormatError, ProfileVersionError, StorageError
from capplan.files import write_atomic
from capplan.profiles.store import load_profile, save_profile
from capplan.schema.profile import Profile

DOCUMENT = {
    "schema_version": 2,
    "id": "profile-1",
    "created_at": "2026-11-29T00:00:00+00:00",
    "capplan_version": "0.1.0",
    "complete": True,
    "request": {"target": "big", "batches": [1, 2], "seed": 0, "budget": None, "demo": True},
    "environment": {
        "device": {"kind": "cpu", "name": "CPU", "memory_bytes": 1e9},
        "python": "3.11",
        "libraries": {"numpy": "2"},
    },
    "backend": {"name": "fake", "version": "1"},
    "target": {
        "spec": {
            "id": "big",
            "family": "fake",
            "params_total": 1e8,
            "params_active": 1e8,
            "weight_bytes": 4e8,
            "weight_bytes_active": 4e8,
            "layers": 2,
            "hidden": 64,
            "vocab_size": 256,
            "dtype": "float32",
            "source": {"kind": "assumed", "reference": "test"},
        },
        "dtype": "float32",
    },
    "verdict": {"stability": "stable"},
}


@pytest.fixture
def profile():
    return Profile.model_validate(DOCUMENT)


@pytest.fixture
def saved(tmp_path, profile):
    path = tmp_path / "p.json"
    save_profile(path, profile, {"acceptance/0/offsets": np.arange(3)})
    return path


def test_a_profile_comes_back_equal_with_its_arrays(tmp_path, profile):
    arrays = {"a/b": np.array([1.5, 2.5], dtype=np.float32), "c": np.arange(4, dtype=np.uint8)}
    stored = save_profile(tmp_path / "p.json", profile, arrays)
    read = load_profile(tmp_path / "p.json")
    assert read.profile == stored.profile
    assert read.profile.request["batches"] == (1, 2)
    for key, values in arrays.items():
        assert np.array_equal(read.arrays[key], values)
        assert read.arrays[key].dtype == values.dtype


def test_without_arrays_there_is_no_sidecar(tmp_path, profile):
    assert save_profile(tmp_path / "p.json", profile, {}).profile.sidecar is None
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def test_the_sidecar_is_named_by_its_content_and_superseded_ones_go(saved, profile):
    first = load_profile(saved).profile.sidecar
    save_profile(saved, profile, {"x": np.arange(5)})
    second = load_profile(saved).profile.sidecar
    assert first != second
    assert {p.name for p in saved.parent.iterdir()} == {"p.json", second}
    save_profile(saved, profile, {"x": np.arange(5)})
    assert load_profile(saved).profile.sidecar == second


def test_the_sidecar_of_another_profile_in_the_folder_stays(saved, profile):
    other = saved.with_name("p-2.json")
    save_profile(other, profile, {"y": np.arange(2)})
    save_profile(saved, profile, {"x": np.arange(9)})
    assert load_profile(other).arrays.keys() == {"y"}


def test_a_profile_may_be_renamed_while_its_sidecar_keeps_its_name(saved):
    moved = saved.rename(saved.with_name("renamed.json"))
    assert "acceptance/0/offsets" in load_profile(moved).arrays


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0, 0.999))
def test_a_profile_cut_anywhere_is_a_format_error_and_never_a_traceback(saved, share):
    text = saved.read_text().rstrip()
    cut = saved.with_name("cut.json")
    cut.write_text(text[: int(len(text) * share)])
    with pytest.raises(ProfileFormatError) as caught:
        load_profile(cut)
    assert "cut.json" in caught.value.message
    assert caught.value.remedy


def test_a_truncated_profile_is_called_so_with_the_position(saved):
    text = saved.read_text()
    saved.write_text(text[: len(text) // 2])
    with pytest.raises(ProfileFormatError, match=r"truncated\), line \d+, column \d+"):
        load_profile(saved)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1, 2]", "expected a JSON object, got list"),
        (b"{}", "schema_version is None"),
        (b'{"schema_version": "1"}', "schema_version is '1'"),
        (b'{"schema_version": true}', "schema_version is True"),
        (b'{"schema_version": 1}', "is not a valid profile: id: Field required"),
        (b'{"schema_version": 2}', "is not a valid profile: id: Field required"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"hello", "is not JSON"),
    ],
)
def test_what_is_no_profile_is_named_with_the_reason(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ProfileFormatError) as caught:
        load_profile(path)
    assert message in caught.value.message


def test_a_newer_schema_is_told_apart_from_a_broken_file(saved):
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps({**document, "schema_version": 3, "new_field": 1}))
    with pytest.raises(ProfileVersionError, match="schema version 3; this capplan reads up to 2"):
        load_profile(saved)


def test_a_profile_of_version_1_is_read_as_one_of_today(saved):
    document = json.loads(saved.read_text())
    added = ("losslessness", "observations", "engine_memory")
    old = {key: value for key, value in document.items() if key not in added}
    saved.write_text(json.dumps({**old, "schema_version": 1}))
    read = load_profile(saved).profile
    assert read.schema_version == 2
    assert read == Profile.model_validate(document)
    assert read.losslessness == read.observations == read.engine_memory == ()


def test_an_unknown_field_is_an_error_that_names_it(saved):
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps({**document, "surprise": 1}))
    with pytest.raises(ProfileFormatError, match="surprise"):
        load_profile(saved)


def test_a_missing_profile_is_an_error_with_its_path(tmp_path):
    with pytest.raises(ProfileFormatError, match="No such file"):
        load_profile(tmp_path / "absent.json")


def test_a_missing_sidecar_says_to_copy_it_along(saved):
    (saved.parent / load_profile(saved).profile.sidecar).unlink()
    with pytest.raises(ProfileFormatError) as caught:
        load_profile(saved)
    assert ".npz" in caught.value.remedy


def test_a_sidecar_with_one_changed_byte_is_noticed(saved):
    sidecar = saved.parent / load_profile(saved).profile.sidecar
    content = bytearray(sidecar.read_bytes())
    content[len(content) // 2] ^= 1
    sidecar.write_bytes(content)
    with pytest.raises(ProfileFormatError, match="damaged"):
        load_profile(saved)


@pytest.mark.parametrize("name", ["../../etc/x.npz", "/etc/passwd"])
def test_a_sidecar_outside_the_folder_is_refused(saved, name):
    document = json.loads(saved.read_text())
    saved.write_text(json.dumps({**document, "sidecar": name}))
    with pytest.raises(ProfileFormatError, match="bare file name"):
        load_profile(saved)


def test_pickled_objects_are_neither_written_nor_read(tmp_path, profile):
    with pytest.raises(ValueError, match="pickle"):
        save_profile(tmp_path / "p.json", profile, {"x": np.array([{}], dtype=object)})
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def small_files_only():
    """Let the kernel refuse writes beyond a size, as a full disk would."""

    @contextmanager
    def limit(size_bytes: int) -> Iterator[None]:
        old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        old_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, old_limit[1]))
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old_limit)
            signal.signal(signal.SIGXFSZ, old_handler)

    return limit


def test_when_the_disk_is_full_the_old_pair_stays_whole(saved, profile, small_files_only):
    before = load_profile(saved)
    with small_files_only(100), pytest.raises(StorageError, match="unchanged"):
        save_profile(saved, profile, {"x": np.arange(1000)})
    assert load_profile(saved).profile == before.profile
    assert {p.name for p in saved.parent.iterdir()} == {saved.name, before.profile.sidecar}


def test_a_failure_between_sidecar_and_profile_leaves_the_old_pair(
    saved, profile, small_files_only
):
    before = load_profile(saved)
    long = profile.model_copy(update={"id": "x" * 9000})
    with small_files_only(5000), pytest.raises(StorageError):
        save_profile(saved, long, {"x": np.arange(7)})
    assert load_profile(saved).profile == before.profile
    assert {p.name for p in saved.parent.iterdir()} == {saved.name, before.profile.sidecar}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_a_storage_error(tmp_path, profile):
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="Permission denied"):
        save_profile(tmp_path / "p.json", profile, {})
    tmp_path.chmod(0o700)


def test_a_missing_folder_is_a_storage_error(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        write_atomic(tmp_path / "absent" / "x", "text")


def test_a_new_file_gets_the_usual_mode_and_an_old_one_keeps_its_own(tmp_path):
    path: Path = tmp_path / "x"
    write_atomic(path, "one")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    write_atomic(path, b"two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text() == "two"
