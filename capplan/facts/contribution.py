"""Check one file of facts before it joins models_db."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capplan.errors import FactsError, UnreadableFileError
from capplan.facts.catalog import Catalog
from capplan.facts.checks import check_catalog
from capplan.facts.gpu_names.slices import MIG_COLUMNS, VGPU_COLUMNS, load_mig, load_vgpu
from capplan.facts.gpus import GPU_COLUMNS, load_gpus
from capplan.facts.instances import INSTANCE_COLUMNS, load_instances
from capplan.facts.llms import LLM_COLUMNS, load_llms
from capplan.facts.pairings import (
    ACCEPTANCE_COLUMNS,
    CLAIM_COLUMNS,
    PAIRING_COLUMNS,
    load_acceptance,
    load_claims,
    load_pairings,
)
from capplan.facts.prices import PRICE_COLUMNS, load_prices
from capplan.inputs.limits import FACTS
from capplan.inputs.tables import read_table


@dataclass(frozen=True)
class _Family:
    """One folder of models_db."""

    folder: str
    columns: tuple[str, ...]
    load: Callable[[Path], dict[str, tuple[Any, ...]]]
    """Reads a file into values by the catalogue's field they join."""


def _llms(path: Path) -> dict[str, tuple[Any, ...]]:
    complete, incomplete = load_llms(path)
    return {"llms": complete, "incomplete_llms": incomplete}


_FAMILIES = (
    _Family("gpus", GPU_COLUMNS, lambda path: {"gpus": load_gpus(path)}),
    _Family("models", LLM_COLUMNS, _llms),
    _Family("pairings", PAIRING_COLUMNS, lambda path: {"pairings": load_pairings(path)}),
    _Family("acceptance", ACCEPTANCE_COLUMNS, lambda path: {"acceptance": load_acceptance(path)}),
    _Family("prices", PRICE_COLUMNS, lambda path: {"prices": load_prices(path)}),
    _Family("instances", INSTANCE_COLUMNS, lambda path: {"added_names": load_instances(path)}),
    _Family("mig", MIG_COLUMNS, lambda path: {"added_names": load_mig(path)}),
    _Family("vgpu", VGPU_COLUMNS, lambda path: {"added_names": load_vgpu(path)}),
    _Family("claims", CLAIM_COLUMNS, lambda path: {"claims": load_claims(path)}),
)


@dataclass(frozen=True)
class Checked:
    """Outcome of a check."""

    family: str
    """Folder of models_db that the file belongs into; ``all`` for the whole catalogue."""
    facts: int
    problems: tuple[str, ...]


def check_all(catalog: Catalog) -> Checked:
    """Check every fact of a catalogue against every invariant."""
    fields = ("gpus", "llms", "incomplete_llms", "pairings", "acceptance", "prices", "claims")
    names = catalog.gpu_names
    others = (catalog.api_prices, names.instances, names.mig, names.vgpu)
    count = sum(len(getattr(catalog, field)) for field in fields) + sum(map(len, others))
    return Checked("all", count, check_catalog(catalog))


def check_file(path: Path, catalog: Catalog) -> Checked:
    """Check a file as if it already lay in the catalogue's folder of its family.

    The header tells the family. Only problems that the file brings are returned.

    Raises
    ------
    FactsError
        If the file cannot be read, its header fits no family, or a row is wrong.
    """
    family = _family(path)
    if path.resolve().is_relative_to(catalog.directory.resolve()):
        return replace(check_all(catalog), family=family.folder)
    values = family.load(path)
    merged = replace(
        catalog, **{field: getattr(catalog, field) + found for field, found in values.items()}
    )
    known = set(check_catalog(catalog))
    problems = tuple(problem for problem in check_catalog(merged) if problem not in known)
    return Checked(family.folder, sum(map(len, values.values())), problems)


def _family(path: Path) -> _Family:
    try:
        header = tuple(next(read_table(path, FACTS), (0, ()))[1])
    except UnreadableFileError as error:
        raise FactsError(
            f"{path}: cannot be read: {error.reason}.",
            "Give a CSV file of one family of models_db.",
        ) from error
    for family in _FAMILIES:
        if family.columns == header:
            return family
    nearest = max(_FAMILIES, key=lambda family: len(set(family.columns) & set(header)))
    missing = [name for name in nearest.columns if name not in header]
    extra = [name for name in header if name not in nearest.columns]
    raise FactsError(
        f"{path}:1: the header fits no family; nearest is {nearest.folder} "
        f"(missing: {', '.join(missing) or 'none'}; unknown: {', '.join(extra) or 'none'}).",
        f"Expected: {','.join(nearest.columns)}",
    )
