"""Workload files: YAML with the fields of one service, or of several."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from capplan.errors import UnreadableFileError, WorkloadError
from capplan.files import write_atomic
from capplan.inputs.limits import WORKLOAD
from capplan.inputs.reading import read_text
from capplan.schema.services import NamedWorkload, Services
from capplan.schema.workload import Slo, Workload
from capplan.workloads.marginals import MARGINALS, with_mix
from capplan.workloads.yaml_text import parse

_DOCS = "docs/workloads.md lists the fields with their units."
_KNOWN = (*Workload.model_fields, *MARGINALS)
_ASKED = ("target", "slo")
"""Of a service among several: what serves it, and how fast."""
_FIGURES = 6
"""Significant figures written: more than any trace is good for."""


def read_workload_file(path: str | Path) -> Services:
    """Read a workload file; one service is named after the file.

    Raises
    ------
    WorkloadError
        If it cannot be read or a field is wrong; names file, field, value and what was expected.
    """
    file = Path(path)
    document = parse(_text(file), file.name)
    if "services" in document:
        return _services(document, file.name)
    return Services(
        services=(NamedWorkload(name=file.stem, workload=_workload(document, file.name, "")),)
    )


def _text(file: Path) -> str:
    try:
        return read_text(file, WORKLOAD)
    except UnreadableFileError as error:
        raise WorkloadError(
            f"Cannot read {file}: {error.reason}.",
            "A workload file is YAML in UTF-8; a trace ends in .csv, .jsonl or .parquet.",
        ) from error


def _services(document: Mapping[str, Any], file: str) -> Services:
    others = sorted(str(key) for key in document if key != "services")
    if others:
        raise WorkloadError(
            f"{file}: {others[0]} stands beside services; expected it in each service.",
            "Move it into the services that it holds for.",
        )
    listed = document["services"]
    if not isinstance(listed, list) or not listed:
        raise WorkloadError(
            f"{file}: services: expected a list of services, each with a name.", _DOCS
        )
    named = [_named(one, index, file) for index, one in enumerate(listed)]
    try:
        return Services(services=tuple(named))
    except ValidationError as error:
        raise _explained(error, file, "services") from error


def _named(one: Any, index: int, file: str) -> NamedWorkload:
    where = f"services[{index}]"
    if not isinstance(one, dict):
        raise WorkloadError(
            f"{file}: {where}: expected fields (name: value), got {_shown(one)}.", _DOCS
        )
    name = one.get("name")
    if not isinstance(name, str) or not name.strip():
        raise WorkloadError(
            f"{file}: {where}.name: got {_shown(name)}; expected the service's name.",
            "Add a line: name: chat",
        )
    fields = {key: value for key, value in one.items() if key not in ("name", *_ASKED)}
    return NamedWorkload(
        name=name.strip(),
        workload=_workload(fields, file, f"{name}."),
        **_asked(one, file, f"{name}."),
    )


def _asked(one: Mapping[str, Any], file: str, prefix: str) -> dict[str, Any]:
    """Return the target and the limits that a service of several asks for."""
    target, limits = one.get("target"), one.get("slo")
    if target is not None and (not isinstance(target, str) or not target.strip()):
        raise WorkloadError(
            f"{file}: {prefix}target: got {_shown(target)}; expected the name of an LLM.", _DOCS
        )
    if limits is not None and (
        not isinstance(limits, dict) or set(limits) - set(Slo.model_fields)
    ):
        raise WorkloadError(
            f"{file}: {prefix}slo: got {_shown(limits)}; expected limits in milliseconds.",
            "Write them as slo: {tpot_ms: 40, ttft_ms: 800}, or one of the two.",
        )
    for where, value in _booleans({"slo": limits} if limits else {}):
        raise WorkloadError(
            f"{file}: {prefix}{where}: got {str(value).lower()}; expected milliseconds.", _DOCS
        )
    try:
        slo = Slo.model_validate(limits or {})
    except ValidationError as error:
        raise _explained(error, file, f"{prefix}slo") from error
    return {"target": target.strip() if target else None, "slo": slo}


def _workload(fields: Mapping[str, Any], file: str, prefix: str) -> Workload:
    for key in fields:
        if key not in _KNOWN:
            raise WorkloadError(
                f"{file}: unknown field {prefix}{key}{_nearest(str(key))}.",
                f"Known: {', '.join(_KNOWN)}.",
            )
    for where, value in _booleans(fields):
        raise WorkloadError(
            f"{file}: {prefix}{where}: got {str(value).lower()}; expected a number or a name.",
            "YAML reads yes, no, on and off as true and false: put names in quotes.",
        )
    try:
        return Workload.model_validate(with_mix(fields))
    except ValidationError as error:
        raise _explained(error, file, prefix.rstrip(".")) from error
    except ValueError as error:
        raise WorkloadError(f"{file}: {prefix}{error}.", _DOCS) from error


def _booleans(value: Any, where: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the places of booleans: only ``thinking`` is one."""
    if isinstance(value, bool):
        if not where.endswith("thinking"):
            yield where, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, bool):
                yield where, key
            yield from _booleans(inner, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _booleans(inner, f"{where}[{index}]")


def _nearest(key: str) -> str:
    found = difflib.get_close_matches(key, _KNOWN, n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def _explained(error: ValidationError, file: str, prefix: str) -> WorkloadError:
    """Say of the first problem which field, what it is and what was expected."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in (prefix, *first["loc"]) if part != "")
    expected = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    got = "" if isinstance(first["input"], dict) else f"got {_shown(first['input'])}; "
    more = error.error_count() - 1
    also = f" ({more} more problem{'s' if more > 1 else ''})" if more else ""
    return WorkloadError(f"{file}: {where + ': ' if where else ''}{got}{expected}{also}.", _DOCS)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def workload_document(services: Services) -> dict[str, Any]:
    """Return what a workload file holds: fields that differ from their defaults."""
    first = services.services[0]
    if len(services.services) == 1 and first.target is None and first.slo == Slo():
        return _fields(first.workload)
    return {"services": [_service(one) for one in services.services]}


def _service(one: NamedWorkload) -> dict[str, Any]:
    limits = one.slo.model_dump(exclude_none=True)
    return {
        "name": one.name,
        **({"target": one.target} if one.target is not None else {}),
        **({"slo": limits} if limits else {}),
        **_fields(one.workload),
    }


def _fields(workload: Workload) -> dict[str, Any]:
    document = workload.model_dump(mode="json", exclude_defaults=True)
    for name in ("prompt_lengths", "output_lengths"):
        lengths = getattr(workload, name)
        if lengths is not None:
            document[name] = {"kind": lengths.kind, **document[name]}
    if workload.mix:
        document.pop("temperature", None)
    return {name: _rounded(value) for name, value in document.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_FIGURES}g}")
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return value


def workload_yaml(services: Services, remark: str = "") -> str:
    """Return the text of a workload file; a remark goes on top as comments."""
    comments = "".join(f"# {line}\n" for line in remark.splitlines())
    document = workload_document(services)
    body = yaml.safe_dump(
        document, sort_keys=False, default_flow_style=None, allow_unicode=True, width=99
    )
    return comments + body


def write_workload_file(path: str | Path, services: Services, remark: str = "") -> None:
    """Write a workload file in one step.

    Raises
    ------
    StorageError
        If it cannot be written; an older file stays as it was.
    """
    write_atomic(Path(path), workload_yaml(services, remark))
