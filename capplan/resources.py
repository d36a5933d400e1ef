"""Find the data files, from a wheel and from a checkout alike."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

_ROOT = Path(str(files("capplan")))


def _data_dir(in_wheel: str, in_checkout: str) -> Path:
    shipped = _ROOT / "_data" / in_wheel
    return shipped if shipped.is_dir() else _ROOT.parent / in_checkout


def models_db_dir() -> Path:
    """Return the folder of facts shipped with capplan."""
    return _data_dir("models_db", "models_db")


def templates_dir() -> Path:
    """Return the folder of report templates shipped with capplan."""
    return _data_dir("templates", "reports/templates")
