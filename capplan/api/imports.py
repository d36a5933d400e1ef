"""Result files of other tools: read and checked, never averaged over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capplan.errors import CapplanError, RequestError, ResultsFileError
from capplan.profiles.importers import prometheus
from capplan.profiles.importers.checks import checked
from capplan.profiles.importers.document import Document, expand, open_document
from capplan.profiles.importers.reading import Known
from capplan.profiles.importers.registry import find_importer, read_document
from capplan.schema.observation import Observation, Use
from capplan.units import SECONDS_PER_HOUR, TOKENS_PER_MILLION

_PROMETHEUS = "Prometheus text"


@dataclass(frozen=True)
class ImportedResults:
    """What was read.

    Attributes
    ----------
    observations
        One a benchmark or window, in the order of the files; never averaged over.
    failures
        Files that were named and could not be read, with the reason.
    left_out
        Files of a folder that are of no known format.
    """

    observations: tuple[Observation, ...] = ()
    failures: Mapping[str, CapplanError] = field(default_factory=dict)
    left_out: Mapping[str, CapplanError] = field(default_factory=dict)

    def usable_for(self, use: Use) -> tuple[Observation, ...]:
        """Return the observations that no flag speaks against for a use."""
        return tuple(one for one in self.observations if one.usable_for(use))


def import_results(
    paths: Sequence[str | Path] | str | Path,
    *,
    before: str | Path | None = None,
    known: Known | None = None,
) -> ImportedResults:
    """Read result files of benchmark tools, engine logs and metrics; flag what does not add up.

    Parameters
    ----------
    paths
        Files, folders or patterns. Two files of Prometheus text are a window, the first before.
    before
        Prometheus text taken before; the one among ``paths`` was then taken after.
    known
        What the files do not say: temperature, draft, GPU.

    Returns
    -------
    ImportedResults
        Observations with their flags; a bad file does not lose the others.

    Raises
    ------
    ResultsFileError
        If a folder or pattern holds no file, or ``before`` has no counterpart.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    told = known or Known()
    observations: list[Observation] = []
    failures: dict[str, CapplanError] = {}
    left_out: dict[str, CapplanError] = {}
    metrics: list[Document] = []
    for path, named in expand(given):
        try:
            document = open_document(path)
            if named and find_importer(document).title == _PROMETHEUS:
                metrics.append(document)
            else:
                observations += read_document(document, told)
        except CapplanError as error:
            unknown = isinstance(error, ResultsFileError) and not named
            (left_out if unknown else failures)[str(path)] = error
    for name, read in _metrics(metrics, before, told):
        if isinstance(read, CapplanError):
            failures[name] = read
        else:
            observations.append(read)
    return ImportedResults(tuple(observations), failures, left_out)


def _metrics(
    documents: Sequence[Document], before: str | Path | None, known: Known
) -> Iterator[tuple[str, Observation | CapplanError]]:
    """Yield windows of pairs of metrics texts, totals of single ones."""
    pairs: list[tuple[Document | None, Document]] = [(None, one) for one in documents]
    if before is not None:
        if len(documents) != 1:
            raise ResultsFileError(
                f"--before needs one file of metrics taken after, got {len(documents)}.",
                "Give it as FILE: capplan import after.prom --before before.prom",
            )
        pairs = [(open_document(Path(before)), documents[0])]
    elif len(documents) == _A_PAIR:
        pairs = [(documents[0], documents[1])]
    for earlier, later in pairs:
        try:
            readings = (
                prometheus.read(later)
                if earlier is None
                else prometheus.read_window(earlier, later)
            )
            yield from ((later.name, checked(reading, "", known)) for reading in readings)
        except CapplanError as error:
            yield later.name, error


_A_PAIR = 2


def usd_per_million_output_tokens(observation: Observation, usd_per_hour: float) -> float:
    """Return what a million output tokens cost on a machine at the observed throughput.

    Raises
    ------
    RequestError
        If the observation is no capacity: its throughput is that of the arrivals, or is flagged.
    """
    against = [flag for flag in observation.flags if "capacity" in flag.unusable_for]
    if against:
        raise RequestError(
            f"{observation.source} is no capacity figure ({against[0].check}): {against[0].text}.",
            against[0].remedy,
        )
    if not observation.output_tokens_per_s:
        raise RequestError(
            f"{observation.source} holds no throughput of output tokens.",
            "Import a benchmark that counts them.",
        )
    per_hour = observation.output_tokens_per_s * SECONDS_PER_HOUR
    return usd_per_hour / per_hour * TOKENS_PER_MILLION
