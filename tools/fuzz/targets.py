"""The readers of outside files, each as a function of bytes, and what must hold for them.

A reader returns a value without NaN, or raises an error of ours with a remedy; nothing else.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from capplan.api.workloads import understand
from capplan.errors import CapplanError, MissingPackageError
from capplan.facts import contribution
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.find_llm import find_path
from capplan.facts.price_file import load_price_file
from capplan.facts.tokenizers import read_tokenizer
from capplan.inputs.arrays import parse_arrays
from capplan.inputs.gguf import read_gguf_header
from capplan.inputs.limits import METRICS, SIDECAR
from capplan.inputs.reading import read_bytes
from capplan.inputs.safetensors import read_tensors
from capplan.jobs.jobfile import load_jobs
from capplan.profiles.calibration_file import load_calibration
from capplan.profiles.importers.document import open_document
from capplan.profiles.importers.registry import read_document
from capplan.profiles.metrics_import import observe_text_parts, observe_window_parts
from capplan.profiles.store import load_profile
from capplan.reporting.plan_file import load_plan
from capplan.validation.folder import read_published
from capplan.workloads.trace_file import read_trace
from capplan.workloads.workload_file import read_workload_file
from profiler.backends.checkpoint_facts import served_llm
from profiler.backends.checkpoints import find_checkpoint
from profiler.prompts import load_prompts

CORPUS = Path(__file__).with_name("corpus")


@dataclass(frozen=True)
class Target:
    """A reader, and the name under which it expects its file."""

    name: str
    file: str
    read: Callable[[Path], Any]
    has_figures: bool = True
    """Whether its value must be without NaN."""

    @property
    def seeds(self) -> list[Path]:
        """Good files to start from, and inputs that once did harm."""
        return sorted((CORPUS / self.name).iterdir())


@cache
def _catalog() -> Catalog:
    return load_catalog()


def _arrays(path: Path) -> Any:
    return parse_arrays(read_bytes(path, SIDECAR), "x", SIDECAR)


def _facts(path: Path) -> Any:
    return contribution._family(path).load(path)


def _metrics(path: Path) -> Any:
    text = read_bytes(path, METRICS).decode("utf-8", errors="replace")
    half = text[: len(text) // 2]
    return observe_text_parts(text, "x"), observe_window_parts(half, text, "x", duration_s=3.0)


def _beside(path: Path) -> Any:
    """Read the folder of a checkpoint whose configuration is sound."""
    config = path.with_name("config.json")
    if not config.exists():
        config.write_bytes((CORPUS / "config" / "llama.json").read_bytes())
    return find_path(str(path.parent)).spec


def _served(path: Path) -> Any:
    """Read a configuration as an engine would serve it, beside weights that are sound."""
    weights = path.with_name("model.safetensors")
    if not weights.exists():
        weights.write_bytes((CORPUS / "safetensors" / "two.safetensors").read_bytes())
    return served_llm(find_checkpoint(str(path.parent)), "bfloat16", "x")


def _tokenizer(path: Path) -> Any:
    return read_tokenizer(path.parent)


TARGETS: Mapping[str, Target] = {
    one.name: one
    for one in (
        Target("profile", "p.json", load_profile),
        Target("sidecar", "p.npz", _arrays),
        Target("plan", "p.json", load_plan),
        Target("calibration", "c.json", load_calibration),
        Target("config", "config.json", lambda path: find_path(str(path)).spec),
        Target("served", "config.json", _served),
        Target("index", "model.safetensors.index.json", _beside),
        Target("safetensors", "model.safetensors", _beside),
        Target("tensors", "model.safetensors", read_tensors),
        Target("gguf", "x.gguf", read_gguf_header),
        Target("tokenizer", "tokenizer.json", _tokenizer, False),
        Target("tekken", "tekken.json", _tokenizer, False),
        Target("pieces", "tokenizer.model", _tokenizer, False),
        Target("vocabulary", "vocab.json", _tokenizer, False),
        Target("specials", "tokenizer_config.json", _tokenizer, False),
        Target("prompts", "p.jsonl", load_prompts),
        Target("results", "r.json", lambda path: read_document(open_document(path))),
        Target("metrics", "m.prom", _metrics),
        Target("workload", "w.yaml", read_workload_file),
        Target("counted", "w.json", lambda path: understand([path])),
        Target("jobs", "j.yaml", load_jobs),
        Target("trace_csv", "t.csv", read_trace),
        Target("trace_jsonl", "t.jsonl", read_trace),
        Target("trace_gz", "t.csv.gz", read_trace),
        Target("prices_csv", "p.csv", lambda path: load_price_file(path, _catalog())),
        Target("prices_json", "p.json", lambda path: load_price_file(path, _catalog())),
        Target("facts", "f.csv", _facts),
        Target("published", "speedup.csv", lambda path: read_published(path.parent)),
    )
}


def check(target: Target, content: bytes, folder: Path) -> str:
    """Feed a reader and hold it to its promise; return what became of it in a word.

    Raises
    ------
    AssertionError
        If an error has no remedy, or a value holds NaN or an infinity.
    """
    path = folder / target.file
    path.write_bytes(content)
    try:
        value = target.read(path)
    except MissingPackageError:
        raise
    except CapplanError as error:
        _check_error(error)
        return "refused"
    if target.has_figures:
        wrong = next(_not_finite(value), None)
        assert wrong is None, f"{target.name}: {wrong} got through"
    return "read"


def _check_error(error: CapplanError) -> None:
    assert error.message, f"{type(error).__name__} without a message"
    assert error.remedy, f"no remedy: {error.message[:300]}"
    assert f"{error.message}{error.remedy}".encode(), "what can be shown can be encoded"


def _not_finite(value: Any) -> Iterator[Any]:
    """Yield the numbers of a value that are none."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield value
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            yield value
    else:
        for one in _parts(value):
            yield from _not_finite(one)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, BaseModel):
        return [getattr(value, name) for name in type(value).model_fields]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, one.name) for one in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple | set | frozenset) else ()
