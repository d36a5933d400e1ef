"""Validation: what the estimator predicts beside what others measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capplan.facts.catalog import load_catalog
from capplan.resources import models_db_dir
from capplan.validation.folder import read_published
from capplan.validation.registry import MODES, Validation, run
from capplan.validation.specs import Specs


def validate(
    folder: Path | None = None,
    modes: Sequence[str] = tuple(MODES),
    *,
    all_quality: bool = False,
) -> Validation:
    """Compare estimates with published measurements.

    Parameters
    ----------
    folder
        A folder in the format of ``models_db/published``, which is the default.
    modes
        What to predict from what; all by default.
    all_quality
        Also use rows whose quality is not ``ok``.

    Raises
    ------
    FactsError
        If the folder holds no rows of this format.
    """
    rows = read_published(folder if folder is not None else models_db_dir() / "published")
    specs = Specs()
    if any(MODES[name].needs_specs for name in modes):
        catalog = load_catalog()
        specs = Specs(catalog.llms, catalog.gpus, catalog.pairings)
    return run(rows if all_quality else rows.sound(), modes, specs)
