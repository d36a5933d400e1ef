"""Write ``docs/dependencies.md``: what capplan needs, under which licence, why, and what is known.

::

    python tools/dependency_table.py            asks the package index for licences and the rest
    python tools/dependency_table.py --check    only compares the page with the locks

The locks in ``constraints/`` say what there is and who asked for it. The package index says the
licence, and which vulnerabilities are known of a version; where it only answers for the latest
one and the lock has another, the page says so instead of calling it clean.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "dependencies.md"
INDEX = "https://pypi.org/pypi"
GROUPS = {
    "core.txt": "What `pip install capplan` brings",
    "build.txt": "What builds the wheel",
    "tests.txt": "Profiling, tests and linting",
}
WHY = {
    "click": "command line",
    "jinja2": "HTML report",
    "numpy": "arithmetic on arrays",
    "plotly": "charts of the report",
    "pydantic": "file formats: reading, checking, JSON Schema",
    "pyyaml": "workloads, jobs, constants of engines",
    "rich": "tables and progress on a terminal",
    "hatchling": "build backend",
    "torch": "profiling: passes of an LLM",
    "transformers": "profiling: LLMs and tokenizers; reference of parameter counts in the tests",
    "safetensors": "profiling: weight files",
    "gguf": "profiling: weight files of llama.cpp",
    "accelerate": "profiling: transformers loads GGUF with it",
    "nvidia-ml-py": "profiling: power, clocks and other processes of a GPU",
    "pandas": "data frames in notebooks",
    "pyarrow": "traces and cost rows as Parquet",
    "gpuhunt": "`prices refresh`",
    "genai-prices": "prices of hosted APIs",
    "pytest": "tests",
    "pytest-timeout": "tests",
    "coverage": "tests: which branches they leave out",
    "hypothesis": "tests: properties",
    "nbclient": "tests: the notebooks run",
    "nbformat": "tests: the notebooks run",
    "ipykernel": "tests: the notebooks run",
    "axe-core-python": "tests: rules of accessibility for the report, run in Chromium",
    "mkdocs": "documentation as a site",
    "mkdocs-material": "documentation as a site: theme, search",
    "ruff": "linting",
    "mypy": "types",
    "import-linter": "import contracts",
    "types-pyyaml": "types",
    "pandas-stubs": "types",
}
PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Python Software|0BSD|Unlicense|Zlib|CC0|HPND|CNRI", re.IGNORECASE
)
WEAK_COPYLEFT = re.compile(r"MPL|Mozilla", re.IGNORECASE)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")
_LONGEST_LICENCE = 60


@dataclass(frozen=True)
class Pin:
    """A line of a lock."""

    name: str
    version: str
    needed_by: tuple[str, ...]
    """Names of the packages that ask for it; empty where capplan does."""


@dataclass(frozen=True)
class Known:
    """What the index says of a pin."""

    licence: str
    vulnerabilities: tuple[str, ...] | None
    """None where the index only answers for another version."""


def pins(lock: Path) -> list[Pin]:
    """Return the pins of a lock with who asked for them."""
    found: list[Pin] = []
    by: list[str] = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        pin, via = _PIN.match(line), re.match(r"^ +# +(?:via +)?(\S+)", line)
        if pin:
            by = []
            found.append(Pin(pin[1].lower(), pin[2], ()))
        elif via and found and via[1] != "via":
            by.append(via[1])
            needed = tuple(name for name in by if name not in ("-r", "-c", "capplan"))
            found[-1] = Pin(found[-1].name, found[-1].version, needed)
    return found


def ask(pin: Pin) -> Known:
    """Ask the package index for the licence and the known vulnerabilities."""
    document = _answer(f"{pin.name}/{pin.version}") or _answer(pin.name)
    if document is None:
        return Known("not known: the index does not answer", None)
    info = document["info"]
    is_this = info["version"] == pin.version
    ids = tuple(one["id"] for one in document.get("vulnerabilities", ()))
    return Known(licence_of(info), ids if is_this else None)


def _answer(path: str) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(f"{INDEX}/{path}/json", timeout=30) as response:
            document: dict[str, Any] = json.load(response)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return None
    return document


def licence_of(info: dict[str, Any]) -> str:
    """Return the licence as the package declares it: expression, classifiers, or a short text."""
    if info.get("license_expression"):
        return str(info["license_expression"])
    classified = [
        one.rpartition(" :: ")[2].removesuffix(" License")
        for one in info.get("classifiers") or ()
        if one.startswith("License ::") and not one.endswith("OSI Approved")
    ]
    text = (info.get("license") or "").strip().partition("\n")[0]
    short = text if len(text) <= _LONGEST_LICENCE else ""
    return " and ".join(classified) or short or _declared_here(info["name"]) or "not stated"


def _declared_here(name: str) -> str:
    """Return the licence of the installed package, which newer metadata tell and the index not."""
    try:
        found = metadata.metadata(name).get("License-Expression")
    except metadata.PackageNotFoundError:
        return ""
    return str(found or "")


def page(known: Mapping[tuple[str, str], Known], day: str) -> str:
    """Return the page."""
    lines = [_HEAD.format(day=day, audit=_audit(known))]
    listed: set[tuple[str, str]] = set()
    for lock, title in GROUPS.items():
        lines += [f"## {title}", "", "| package | version | licence | why |", "|---|---|---|---|"]
        for pin in pins(ROOT / "constraints" / lock):
            key = (pin.name, pin.version)
            if key in listed:
                continue
            listed.add(key)
            why = WHY.get(pin.name) or "needed by " + ", ".join(pin.needed_by[:4])
            lines.append(f"| {pin.name} | {pin.version} | {known[key].licence} | {why} |")
        lines.append("")
    return "\n".join(lines)


_HEAD = """# Dependencies

Written by `python tools/dependency_table.py` on {day} from the locks in `constraints/`:
`core.txt` and `build.txt` with the hash of every file, `tests.txt` as constraints of `make test`.
Licences are those that the packages declare. capplan is under Apache-2.0 and ships none of them.

{audit}
"""


def _audit(known: Mapping[tuple[str, str], Known]) -> str:
    asked = [one for one in known.values() if one.vulnerabilities is not None]
    found = sorted({name for one in asked for name in one.vulnerabilities or ()})
    silent = sorted(name for (name, _), one in known.items() if one.vulnerabilities is None)
    other = sorted(name for (name, _), one in known.items() if not _is_plain(one.licence))
    return (
        f"**Audit.** Known vulnerabilities of the {len(asked)} of {len(known)} packages for whose "
        f"locked version the index answers: {', '.join(found) or 'none'}. It answers for the "
        f"latest version alone; what is known of the locked one was not told for "
        f"{', '.join(silent) or 'none'}.\n\n"
        "**Licences.** Permissive (MIT, BSD, Apache, PSF, ISC), or the Mozilla Public Licence, "
        "whose files are used unchanged. Of another kind, or without a statement, are libraries "
        "of CUDA, which the index's build of torch brings along and its build for processors "
        f"does not: {', '.join(other) or 'none'}."
    )


def _is_plain(licence: str) -> bool:
    return bool(PERMISSIVE.search(licence) or WEAK_COPYLEFT.search(licence))


def missing() -> list[str]:
    """Return pins that the page does not have."""
    text = PAGE.read_text(encoding="utf-8")
    return [
        f"{pin.name} {pin.version}"
        for lock in GROUPS
        for pin in pins(ROOT / "constraints" / lock)
        if f"| {pin.name} | {pin.version} |" not in text
    ]


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="ask nobody; compare names alone")
    if parser.parse_args().check:
        absent = missing()
        print("\n".join(absent) or "the page has every pin")
        return 1 if absent else 0
    every = [pin for lock in GROUPS for pin in pins(ROOT / "constraints" / lock)]
    known: dict[tuple[str, str], Known] = {}
    for pin in every:
        if (pin.name, pin.version) not in known:
            known[pin.name, pin.version] = ask(pin)
    PAGE.write_text(page(known, datetime.now(UTC).date().isoformat()), encoding="utf-8")
    for (name, version), one in known.items():
        if one.vulnerabilities:
            print(f"{name} {version}: {', '.join(one.vulnerabilities)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
