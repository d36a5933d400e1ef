"""The modes by name. A mode is a pure function from rows to scored predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from capplan.validation.rows import PublishedRows
from capplan.validation.scoring import ModeResult, Scored, result_of
from capplan.validation.specs import Specs


@dataclass(frozen=True)
class Mode:
    """A module of ``capplan.validation.modes`` with one function ``predict``.

    Attributes
    ----------
    summary
        What is predicted from what, for ``capplan validate --help``.
    needs_specs
        Whether ``predict`` takes facts of LLMs and GPUs beside the rows.
    """

    summary: str
    needs_specs: bool = False


MODES: Mapping[str, Mode] = {
    "step": Mode("speedup; tokens a round given, cost from the machine's other rows"),
    "forward": Mode("speedup of an unseen task at an unseen N"),
    "datasheet": Mode("speedup; tokens a round given, nothing measured", needs_specs=True),
    "datasheet_family": Mode("the same; the engine's other LLMs are known", needs_specs=True),
    "verify": Mode("time of a verification from the time of a decode step"),
    "decode": Mode("decode step; one measured step left out", needs_specs=True),
    "decode_datasheet": Mode("decode step; nothing of that GPU and engine", needs_specs=True),
    "serving": Mode("time a token under load; one LLM and GPU left out", needs_specs=True),
    "serving_ttft": Mode("time to first token under load, likewise", needs_specs=True),
    "batch": Mode("speedup at other batch sizes, from the smallest and the largest"),
    "acceptance": Mode("tokens a round at N, from smaller N"),
    "temperature": Mode("tokens a round at a temperature, from another one and other sources"),
    "task": Mode("tokens a round on a text, from other texts of the pair"),
    "choose_n": Mode("speedup at the N chosen against the best; error is regret"),
}
"""In the order in which people read them."""

NAMES = tuple(MODES)


@dataclass(frozen=True)
class Validation:
    """Results by mode, and what of the folder could not be read."""

    modes: Mapping[str, ModeResult]
    problems: tuple[str, ...]


def predictions(name: str, rows: PublishedRows, specs: Specs) -> Sequence[Scored]:
    """Run one mode; its module is imported on use."""
    predict = import_module(f"capplan.validation.modes.{name}").predict
    found: Sequence[Scored] = predict(rows, specs) if MODES[name].needs_specs else predict(rows)
    return found


def run(
    rows: PublishedRows, names: Sequence[str] = NAMES, specs: Specs | None = None
) -> Validation:
    """Run modes over rows; those without data are absent from the result."""
    known = specs or Specs()
    results = ((name, result_of(predictions(name, rows, known))) for name in names)
    found = {name: result for name, result in results if result is not None}
    return Validation(found, rows.problems)
