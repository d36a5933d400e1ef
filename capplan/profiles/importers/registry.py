"""Which importer reads a file: decided by what stands in it, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from pydantic import ValidationError

from capplan.errors import ResultsFileError
from capplan.profiles.importers import (
    aiperf,
    aiperf_csv,
    aiperf_records,
    guidellm,
    guidellm_csv,
    inference_perf,
    inferencex,
    llamacpp,
    llmperf,
    per_request,
    printed_result,
    prometheus,
    prometheus_query,
    sglang_bench,
    sglang_log,
    trtllm_bench,
    vllm_bench,
    vllm_log,
    vllm_offline,
)
from capplan.profiles.importers.checks import checked
from capplan.profiles.importers.document import Document
from capplan.profiles.importers.inside import results_inside
from capplan.profiles.importers.reading import Known, Reading
from capplan.schema.observation import Observation

MOST_READINGS = 10_000
"""Benchmarks of one file."""


@dataclass(frozen=True)
class Importer:
    """A format: how to know it and how to read it."""

    title: str
    detect: Callable[[Document], bool]
    read: Callable[[Document], Iterable[Reading]]


IMPORTERS: tuple[Importer, ...] = (
    Importer("vllm bench serve JSON", vllm_bench.detect, vllm_bench.read),
    Importer("vllm bench latency or throughput JSON", vllm_offline.detect, vllm_offline.read),
    Importer("InferenceX (InferenceMAX) JSON", inferencex.detect, inferencex.read),
    Importer("SGLang bench_serving JSON lines", sglang_bench.detect, sglang_bench.read),
    Importer("GuideLLM JSON", guidellm.detect, guidellm.read),
    Importer("GuideLLM CSV", guidellm_csv.detect, guidellm_csv.read),
    Importer("AIPerf or genai-perf JSON", aiperf.detect, aiperf.read),
    Importer("AIPerf or genai-perf CSV", aiperf_csv.detect, aiperf_csv.read),
    Importer("AIPerf records (JSON lines)", aiperf_records.detect, aiperf_records.read),
    Importer("inference-perf stage JSON", inference_perf.detect, inference_perf.read),
    Importer("llmperf JSON", llmperf.detect, llmperf.read),
    Importer("trtllm-bench report JSON", trtllm_bench.detect, trtllm_bench.read),
    Importer("Prometheus query answer", prometheus_query.detect, prometheus_query.read),
    Importer("responses with speculative metrics", per_request.detect, per_request.read),
    Importer("llama.cpp log or answers", llamacpp.detect, llamacpp.read),
    Importer("printed serving result", printed_result.detect, printed_result.read),
    Importer("vLLM server log", vllm_log.detect, vllm_log.read),
    Importer("SGLang server log", sglang_log.detect, sglang_log.read),
    Importer("Prometheus text", prometheus.detect, prometheus.read),
)


def find_importer(document: Document) -> Importer:
    """Return the importer of a file.

    Raises
    ------
    ResultsFileError
        If no format is recognised; names what was seen and what is known.
    """
    return _understood(document)[0][2]


_Part = tuple[str, Document, Importer]
"""Place in the file, what stands there, what reads it."""


def _understood(document: Document) -> list[_Part]:
    """Return what of a file can be read: all of it, else the results inside, else its text."""
    if importer := _taker(document):
        return [("", document, importer)]
    inside = [
        (place.lstrip(". "), part, importer)
        for place, part in results_inside(document, lambda part: _taker(part) is not None)
        if (importer := _taker(part))
    ]
    if inside:
        return inside[: MOST_READINGS + 1]
    text = document.as_text()
    if importer := _taker(text):
        return [("", text, importer)]
    raise _unknown(document)


def _taker(document: Document) -> Importer | None:
    return next((importer for importer in IMPORTERS if importer.detect(document)), None)


def _unknown(document: Document) -> ResultsFileError:
    known = "; ".join(importer.title for importer in IMPORTERS)
    return ResultsFileError(
        f"{document.name} is of no known format: {_seen(document)}.", f"Known: {known}."
    )


def read_document(document: Document, known: Known | None = None) -> list[Observation]:
    """Read and check every benchmark of a file.

    Parameters
    ----------
    document
        The opened file.
    known
        What the user states beside it.

    Raises
    ------
    ResultsFileError
        If the format is unknown, or the file holds no benchmark.
    """
    parts = _understood(document)
    title = parts[0][2].title
    try:
        return _checked(document, parts, known)
    except (ValidationError, ArithmeticError) as error:
        raise ResultsFileError(
            f"{document.name} ({title}) holds figures that cannot be: {_first(error)}.",
            "Take the file again from the tool; it was edited, merged or cut.",
        ) from error


def _first(error: ValidationError | ArithmeticError) -> str:
    """Return the field and the fault; the figures of a product may be too large to multiply."""
    if isinstance(error, ArithmeticError):
        return str(error)
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _checked(document: Document, parts: Sequence[_Part], known: Known | None) -> list[Observation]:
    readings = list(islice(_readings(parts), MOST_READINGS + 1))
    title = parts[0][2].title
    if len(readings) > MOST_READINGS:
        raise ResultsFileError(
            f"{document.name} ({title}) holds more than {MOST_READINGS:,} benchmarks.",
            "Give those that are meant, in a file of their own.",
        )
    if not readings:
        raise ResultsFileError(
            f"{document.name} ({title}) holds no finished benchmark.",
            "Run the benchmark to its end, then import its result again.",
        )
    found = [checked(reading, damaged, known) for reading, damaged in readings]
    # values that were changed after they were made are held to the schema again
    return [Observation.model_validate(one.model_dump()) for one in found]


def _readings(parts: Iterable[_Part]) -> Iterator[tuple[Reading, str]]:
    for place, part, importer in parts:
        for reading in importer.read(part):
            names = [name for name in (place, reading.observation.part) if name]
            observation = reading.observation.model_copy(update={"part": ", ".join(names)})
            yield replace(reading, observation=observation), part.damaged


def _seen(document: Document) -> str:
    if document.kind == "text":
        first = next((line.strip() for line in document.head.splitlines() if line.strip()), "")
        return f"text that begins with {first[:80]!r}"
    value = document.value
    if isinstance(value, list):
        return f"a JSON list of {len(value)} values"
    keys = ", ".join(str(key)[:40] for key in list(value)[:8])
    return (
        f"{document.kind} with the fields {keys}" if keys else f"an empty {document.kind} object"
    )
