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
        Files of a folder that are of no known format, and files that hold what another one holds.
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
        Files, folders or patterns. Two files of Prometheus text are a window, the first before;
        of more, each that goes on where the one before ended.
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
    contents: dict[str, str] = {}
    named_metrics: list[Document] = []
    lying_metrics: list[Document] = []
    for path, named in expand(given):
        try:
            document = open_document(path)
            if find_importer(document).title == _PROMETHEUS:
                (named_metrics if named else lying_metrics).append(document)
                continue
            found = read_document(document, told)
            new = [one for one in found if _content(one) not in contents]
            if not new:
                left_out[str(path)] = _repeated(document, contents[_content(found[0])])
            contents |= {_content(one): one.source for one in new}
            observations += new
        except CapplanError as error:
            unknown = isinstance(error, ResultsFileError) and not named
            (left_out if unknown else failures)[str(path)] = error
    pairs = [*_pairs(named_metrics, before), *_in_turn(_by_age(lying_metrics))]
    for name, read in _metrics(pairs, told):
        if isinstance(read, CapplanError):
            failures[name] = read
        else:
            observations.append(read)
    return ImportedResults(tuple(observations), failures, left_out)


def _repeated(document: Document, source: str) -> ResultsFileError:
    """Say that a file adds nothing: a folder may have each run and a summary of all."""
    return ResultsFileError(f"It holds what {source} holds.", f"Leave out {document.name}.")


def _content(observation: Observation) -> str:
    return observation.model_copy(update={"source": "", "part": ""}).model_dump_json()


_Pair = tuple[Document | None, Document]
"""Text before, where there is one, and the text that is read."""


def _metrics(
    pairs: Sequence[_Pair], known: Known
) -> Iterator[tuple[str, Observation | CapplanError]]:
    """Yield windows of pairs of metrics texts, totals of single ones."""
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


def _pairs(documents: Sequence[Document], before: str | Path | None) -> list[_Pair]:
    """Return the windows that are meant by files as they were named."""
    if before is not None:
        if len(documents) != 1:
            raise ResultsFileError(
                f"--before needs one file of metrics taken after, got {len(documents)}.",
                "Give it as FILE: capplan import after.prom --before before.prom",
            )
        return [(open_document(Path(before)), documents[0])]
    if len(documents) == _A_PAIR:
        return [(documents[0], documents[1])]
    return _in_turn(documents)


_A_PAIR = 2


def _in_turn(documents: Sequence[Document]) -> list[_Pair]:
    """Return windows between texts of one server that follow each other, the others alone.

    Totals of two of them would count what both hold twice.
    """
    pairs: list[_Pair] = []
    for place, later in enumerate(documents):
        earlier = documents[place - 1] if place else None
        if earlier is None or not _continues(earlier, later):
            pairs.append((None, later))
            continue
        if pairs[-1][0] is None:
            pairs.pop()
        pairs.append((earlier, later))
    return pairs


def _continues(earlier: Document, later: Document) -> bool:
    try:
        return prometheus.continues(earlier, later)
    except CapplanError:
        return False  # it is said where the text is read


def _by_age(documents: Sequence[Document]) -> list[Document]:
    """Return the texts of a folder server by server, the oldest first: its counters are lowest."""
    ages: list[tuple[tuple[tuple[str, ...], float], Document]] = []
    for document in documents:
        try:
            ages.append((prometheus.age(document), document))
        except CapplanError:
            ages.append((((), 0.0), document))
    return [document for _, document in sorted(ages, key=lambda pair: pair[0])]


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
