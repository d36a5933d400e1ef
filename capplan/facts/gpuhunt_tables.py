"""gpuhunt's tables of offers: from the network, or from a folder of its own format."""

from __future__ import annotations

import csv
import logging
import os
import queue
import re
import threading
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from capplan.errors import FactsError, MissingPackageError, RequestError
from capplan.schema.provenance import Kind, Source

LOCAL_CATALOGUE = "GPUHUNT_CATALOG_DIR"
"""gpuhunt's own variable: a folder with one CSV a provider, read instead of the network."""

PROVIDERS = {"lambdalabs": "lambda", "vastai": "vast"}
"""gpuhunt's names of providers that models_db calls otherwise."""

LOAD_TIMEOUT_S = 120.0
"""Some MB for all providers together."""

_VERSION_DAY = re.compile(r"(20\d\d)(\d\d)(\d\d)(?:\D|$)")


@dataclass(frozen=True)
class Skipped:
    """Offers left out for one reason."""

    reason: str
    count: int
    example: str


class SkipLog:
    """Counts what is left out; the first example of a reason is kept."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}

    def add(self, reason: str, example: str) -> None:
        """Count one offer."""
        self._found.setdefault(reason, []).append(example)

    def skipped(self) -> tuple[Skipped, ...]:
        """Return the reasons, most frequent first."""
        ordered = sorted(self._found.items(), key=lambda item: -len(item[1]))
        return tuple(Skipped(reason, len(items), items[0]) for reason, items in ordered)


@dataclass(frozen=True)
class Tables:
    """gpuhunt's catalogue, opened."""

    catalogue: Any
    providers: tuple[str, ...]
    """Providers asked for, by gpuhunt's names."""
    origin: str
    """Where the tables are from, for people."""
    folder: Path | None
    release: str

    def source(self, provider: str, as_of: str | None) -> Source:
        """Return where a provider's offers are from; its table may tell the day itself."""
        loaded = self.catalogue.catalog.get(provider)
        match = _VERSION_DAY.match(loaded.version) if loaded is not None else None
        day = "-".join(match.groups()) if match else as_of
        return Source(kind=Kind.CITED, reference=f"{self.release}, {provider} table", date=day)

    def offers(self, provider: str) -> list[Any]:
        """Return a provider's offers of GPUs, gpuhunt's own values.

        Raises
        ------
        FactsError
            If the table cannot be read at all.
        """
        if self.folder is not None and not (self.folder / f"{provider}.csv").is_file():
            return []
        try:
            found: list[Any] = self.catalogue.query(provider=provider, min_gpu_count=1)
        except (OSError, ValueError, csv.Error) as error:
            raise FactsError(
                f"gpuhunt could not read its {provider} table: {error}.",
                "Replace the file, or name other providers with --provider.",
            ) from error
        return found


def open_tables(asked: Collection[str]) -> Tables:
    """Load gpuhunt's tables.

    Parameters
    ----------
    asked
        Providers, by gpuhunt's names or ours; empty for all that it has a table of. Providers
        that gpuhunt asks live are none of them: most want credentials.

    Raises
    ------
    MissingPackageError
        If gpuhunt is not installed.
    FactsError
        If no table can be loaded.
    RequestError
        If a provider is not known.
    """
    try:
        gpuhunt = import_module("gpuhunt")
    except ImportError as error:
        raise MissingPackageError("Refreshing prices", "gpuhunt", "prices") from error
    known = import_module(gpuhunt.Catalog.__module__).OFFLINE_PROVIDERS
    providers = _chosen(tuple(known), asked)
    catalogue = gpuhunt.Catalog(auto_reload=False)
    folder = os.environ.get(LOCAL_CATALOGUE)
    if folder is None:
        _load(gpuhunt, catalogue)
        origin = "gpuhunt's published tables"
    elif Path(folder).is_dir():
        origin = f"the folder {folder}"
    else:
        raise FactsError(
            f"{LOCAL_CATALOGUE} names {folder}, which is no folder.",
            "Point it at a folder with one CSV a provider, or unset it.",
        )
    release = f"gpuhunt {version('gpuhunt')}"
    return Tables(catalogue, providers, origin, None if folder is None else Path(folder), release)


def _load(gpuhunt: Any, catalogue: Any) -> None:
    """Load the tables; gpuhunt asks without a time-out, so it is waited for only so long."""
    ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def load() -> None:
        try:
            catalogue.load()
        except (gpuhunt.GPUHuntError, OSError, ValueError, zipfile.BadZipFile) as error:
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=load, daemon=True).start()
    try:
        error = ended.get(timeout=LOAD_TIMEOUT_S)
    except queue.Empty:
        raise FactsError(
            f"gpuhunt's tables did not come within {LOAD_TIMEOUT_S:g} s.", _OTHERWISE
        ) from None
    if error is not None:
        raise FactsError(f"gpuhunt could not load its tables: {error}.", _OTHERWISE) from error


_OTHERWISE = f"Look at the network, or set {LOCAL_CATALOGUE} to a folder with one CSV a provider."


def _chosen(known: tuple[str, ...], asked: Collection[str]) -> tuple[str, ...]:
    ours = {PROVIDERS.get(name, name): name for name in known}
    unknown = [name for name in asked if name not in ours and name not in known]
    if unknown:
        raise RequestError(
            f"gpuhunt has no table of the provider {unknown[0]!r}.",
            f"It has: {', '.join(sorted(ours))}.",
        )
    return tuple(ours.get(name, name) for name in asked) or known


@contextmanager
def warnings_counted(log: SkipLog) -> Iterator[None]:
    """Count what gpuhunt skips: it says so in warnings, which would scroll by or be lost."""
    logger = logging.getLogger("gpuhunt")
    handler, propagates = _Counter(log), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates


class _Counter(logging.Handler):
    def __init__(self, log: SkipLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.add("gpuhunt could not read it", record.getMessage())
