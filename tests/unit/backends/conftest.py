"""A tiny target and its draft, built once for the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> tuple[Path, Path]:
    """Folders of a random Llama and of the same Llama without its last layer."""
    folder = tmp_path_factory.mktemp("pair")
    target = tiny_llms.save_target(folder / "target")
    return target, tiny_llms.save_draft(target, folder / "draft")
