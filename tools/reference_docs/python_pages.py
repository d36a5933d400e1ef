"""Pages of the public names of ``capplan``, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic import BaseModel

import capplan
from reference_docs.docstrings import docstring_lines
from reference_docs.fields import default_cell, field_rows
from reference_docs.markdown import cell, code_cell

_WIDTH = 99
_LONGEST_DEFAULT = 30
GROUPS = {
    "planning": (
        "Plans",
        *("recommend", "PlanRequest", "Workload", "Slo", "Plan", "PlanOption", "Quantity"),
        *("Method", "Purchase", "load_plan", "render", "to_frame"),
        *("launch", "launch_parts", "migrate"),
    ),
    "questions": (
        "Questions about a plan",
        *("answer_what_if", "Questions", "Spot", "Commitment", "PlanAnswers", "whatif", "WhatIf"),
        *("ScenarioGrid", "compare_with_apis", "diff", "simulate_serving", "ServingWishes"),
        "ServingLoad",
    ),
    "measuring": (
        "Profiles and measurements",
        *("load_profile", "Profile", "summarise_profile", "import_results", "calibrate"),
        *("load_calibration", "compare_prompts", "validate", "run_batch", "BatchResult", "Job"),
    ),
    "lengths": (
        "Speculation lengths",
        *("schedule", "ScheduleWishes", "LengthSchedule", "simulate", "SimulationWishes"),
        "Simulation",
    ),
    "facts": (
        "Facts, loads and memory",
        *("load_catalog", "Catalog", "with_price_files", "load_llm", "LlmSpec", "pair"),
        *("plan_memory", "MemoryRequest", "MemoryUse", "load_workload", "save_workload"),
        *("Arrival", "load_services", "Services", "NamedWorkload"),
        *("audit_guide", "guide_points", "CapplanError", "__version__"),
    ),
}
"""Public names by page, a title first. A test holds them to ``capplan.__all__``."""


def python_pages() -> dict[str, str]:
    """Return the pages of ``docs/reference/library``."""
    pages = {"library/README.md": "\n".join(_overview())}
    for group, (title, *names) in GROUPS.items():
        lines = [f"# {title}", ""]
        for name in names:
            lines += _of_name(name)
        pages[f"library/{group}.md"] = "\n".join(lines)
    return pages


def _overview() -> Iterator[str]:
    yield from (
        "# Library",
        "",
        "The names that `import capplan` gives. They load on first use.",
        "",
    )
    for group, (title, *names) in GROUPS.items():
        yield from (f"## {title}", "", "| name | what it is |", "|---|---|")
        for name in names:
            anchor = "version" if name == "__version__" else name.lower()
            yield f"| [`{name}`]({group}.md#{anchor}) | {cell(_summary(name))} |"
        yield ""


def _summary(name: str) -> str:
    value = getattr(capplan, name)
    text = inspect.getdoc(value) if callable(value) else ""
    return (text or "The version of this package.").split("\n\n")[0]


def _of_name(name: str) -> Iterator[str]:
    value = getattr(capplan, name)
    if not callable(value):
        yield from ("## version", "", f"`capplan.{name}`: the version of this package.", "")
        return
    yield from (f"## {name}", "")
    if inspect.isclass(value):
        yield from _of_class(value)
    else:
        yield from (f"    {line}" for line in _signature(name, value))
        yield from ("", *docstring_lines(value.__doc__ or ""))


def _signature(name: str, value: Any) -> list[str]:
    """Return a signature, a parameter a line where it is long."""
    signature = inspect.signature(value)
    shown = list(_parameters(signature))
    returns = _annotation(signature.return_annotation)
    whole = f"capplan.{name}({', '.join(shown)}) -> {returns}"
    if len(whole) <= _WIDTH:
        return [whole]
    return [f"capplan.{name}(", *(f"    {each}," for each in shown), f") -> {returns}"]


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Yield the parameters as they are written, with the star before those by name alone."""
    starred = False
    for parameter in signature.parameters.values():
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        text = f"{_stars(parameter)}{parameter.name}: {_annotation(parameter.annotation)}"
        if parameter.default is not inspect.Parameter.empty:
            text += f" = {_shown(parameter.default)}"
        yield text


def _stars(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD:
        return "**"
    return "*" if parameter.kind is parameter.VAR_POSITIONAL else ""


def _annotation(annotation: Any) -> str:
    """Return an annotation; modules of capplan keep theirs as text."""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _shown(value: Any) -> str:
    # A default that prints an address or a whole value says no more than that there is one.
    text = repr(value)
    return text if len(text) <= _LONGEST_DEFAULT and " at 0x" not in text else "..."


def _of_class(kind: type) -> Iterator[str]:
    yield from docstring_lines(kind.__doc__ or "")
    if issubclass(kind, BaseModel):
        yield from (*field_rows(kind), "")
    elif dataclasses.is_dataclass(kind):
        yield from (*_dataclass_rows(kind), "")
    elif issubclass(kind, Enum):
        yield from (" ".join(f"`{member.value}`" for member in kind), "")
    methods = list(_methods(kind))
    if methods:
        yield from ("| method | what it does |", "|---|---|", *methods, "")


def _dataclass_rows(kind: Any) -> Iterator[str]:
    """Yield a table of a dataclass's fields; what they mean stands above, in its docstring."""
    yield from ("| field | type | default |", "|---|---|---|")
    for each in dataclasses.fields(kind):
        made = each.default_factory
        value = each.default if made is dataclasses.MISSING else made()
        default = "needed" if value is dataclasses.MISSING else default_cell(value)
        yield f"| `{each.name}` | {code_cell(str(each.type))} | {default} |"


def _methods(kind: type) -> Iterator[str]:
    """Yield a row a public method or property that capplan wrote."""
    for name, member in inspect.getmembers(kind):
        function = _function(member)
        if name.startswith("_") or function is None or not inspect.getdoc(function):
            continue
        if (function.__module__ or "").startswith("capplan"):
            arguments = "" if isinstance(member, property) else "()"
            summary = (inspect.getdoc(function) or "").split("\n\n")[0]
            yield f"| `{name}{arguments}` | {cell(summary)} |"


def _function(member: Any) -> Any:
    """Return the function behind a method or property, or None."""
    if isinstance(member, property):
        return member.fget
    found = inspect.unwrap(member) if callable(member) else None
    return found if hasattr(found, "__module__") and not inspect.isclass(found) else None
