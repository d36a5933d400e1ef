from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capplan.errors import CheckpointError, MissingPackageError, UnknownIdError
from profiler.backends.checkpoints import find_checkpoint, require


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> Path:
    folder: Path = tiny_llms.save_target(tmp_path_factory.mktemp("checkpoint"))
    return folder


@pytest.fixture
def config_only(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    return tmp_path


def cut(path: Path, into: Path) -> Path:
    whole = path.read_bytes()
    into.write_bytes(whole[: len(whole) // 2])
    return into


def test_an_unknown_id_says_that_nothing_is_downloaded() -> None:
    pytest.importorskip("huggingface_hub")
    with pytest.raises(UnknownIdError, match="nobody/nothing-1B") as caught:
        find_checkpoint("nobody/nothing-1B")
    assert "hf download nobody/nothing-1B" in caught.value.remedy


def test_a_path_that_is_not_there_is_unknown_too() -> None:
    pytest.importorskip("huggingface_hub")
    with pytest.raises(UnknownIdError, match=r"missing\.gguf"):
        find_checkpoint("/nowhere/missing.gguf")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickled_weights_are_refused(config_only: Path, name: str) -> None:
    (config_only / name).write_bytes(b"\x80\x04.")
    with pytest.raises(CheckpointError, match="pickle"):
        find_checkpoint(str(config_only))
    with pytest.raises(CheckpointError, match="pickle"):
        find_checkpoint(str(config_only / name))


def test_a_folder_without_weights_offers_dummy_weights(config_only: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no \*\.safetensors") as caught:
        find_checkpoint(str(config_only))
    assert "--weights dummy" in caught.value.remedy
    assert find_checkpoint(str(config_only), dummy_weights=True).folder == config_only


def test_a_folder_without_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json"):
        find_checkpoint(str(tmp_path))


def test_a_cut_safetensors_file_names_both_sizes(target: Path, config_only: Path) -> None:
    whole = target / "model.safetensors"
    half = cut(whole, config_only / "model.safetensors")
    with pytest.raises(CheckpointError) as caught:
        find_checkpoint(str(config_only))
    assert f"{half.stat().st_size:,}" in caught.value.message
    assert f"{whole.stat().st_size:,}" in caught.value.message


def test_a_file_of_noise_is_no_safetensors(config_only: Path) -> None:
    (config_only / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(CheckpointError, match="no readable header"):
        find_checkpoint(str(config_only))


def test_a_pointer_of_git_lfs_is_named_with_the_way_to_the_weights(config_only: Path) -> None:
    (config_only / "model.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 123456\n"
    )
    with pytest.raises(CheckpointError, match="Git LFS pointer") as caught:
        find_checkpoint(str(config_only))
    assert "git lfs pull" in caught.value.remedy


def test_a_missing_shard_is_named(target: Path, config_only: Path) -> None:
    (config_only / "model-1.safetensors").write_bytes((target / "model.safetensors").read_bytes())
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (config_only / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"model-2\.safetensors"):
        find_checkpoint(str(config_only))


def test_a_gguf_cut_in_half_names_its_size(target: Path, tmp_path: Path, tiny_llms: Any) -> None:
    pytest.importorskip("gguf")
    half = cut(tiny_llms.save_gguf(tmp_path, target), tmp_path / "half.gguf")
    with pytest.raises(CheckpointError, match="is cut") as caught:
        find_checkpoint(str(half))
    assert f"{half.stat().st_size:,} bytes" in caught.value.message
    assert "Download the file again" in caught.value.remedy


def test_a_gguf_cut_inside_its_header_is_cut_too(
    target: Path, tmp_path: Path, tiny_llms: Any
) -> None:
    pytest.importorskip("gguf")
    whole = tiny_llms.save_gguf(tmp_path, target).read_bytes()
    for length in (4, 9, 40, 400, len(whole) - 1):
        (tmp_path / "short.gguf").write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="is cut"):
            find_checkpoint(str(tmp_path / "short.gguf"))


def test_a_file_that_only_calls_itself_gguf_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    (tmp_path / "fake.gguf").write_bytes(b"PK\x03\x04 not a model")
    with pytest.raises(CheckpointError, match="no GGUF file"):
        find_checkpoint(str(tmp_path / "fake.gguf"))


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(CheckpointError, match="neither"):
        find_checkpoint(str(tmp_path / "notes.txt"))


def test_the_hash_changes_with_the_weights(target: Path, config_only: Path) -> None:
    original = find_checkpoint(str(target)).sha256()
    changed = bytearray((target / "model.safetensors").read_bytes())
    changed[-1] ^= 1
    (config_only / "model.safetensors").write_bytes(changed)
    assert find_checkpoint(str(target)).sha256() == original
    assert find_checkpoint(str(config_only)).sha256() != original


def test_a_missing_package_gives_the_install_line() -> None:
    with pytest.raises(MissingPackageError, match="no_such_package") as caught:
        require("Testing", "json", "no_such_package")
    assert "capplan[profile]" in caught.value.remedy


@pytest.mark.parametrize("unknown", ["target", "draft"])
def test_an_unknown_name_is_refused_before_torch_is_imported(
    tmp_path: Path, target: Path, unknown: str
) -> None:
    names = {"target": [str(target)], "draft": ["--draft", str(target)]}
    names[unknown][-1] = "nobody/nothing-1B"
    arguments = ["profile", *names["target"], *names["draft"], "-o", str(tmp_path / "p.json")]
    code = (
        "import sys; from capplan.cli import main\n"
        f"sys.argv[1:] = {arguments!r}\n"
        "try: main()\n"
        "finally: print(*({'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "There is no checkpoint 'nobody/nothing-1B'" in done.stderr
    assert done.stdout.strip() == ""
