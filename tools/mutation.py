"""Plant small faults in a package, one at a time, and see whether the tests notice.

Run from the repository, in the environment of ``make test``:

    python tools/mutation.py economics estimate --sample 800 --seed 1 --results mutants.jsonl
    python tools/mutation.py --show mutants.jsonl

A run that was stopped goes on where it ended. ``--survivors-of FILE`` tries again only what
survived there. docs/quality.md says what was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from mutation_campaign import Campaign, Fate
from mutation_operators import Mutant, Source
from mutation_report import Result, shown

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.toml")
TESTS = (
    "tests/unit/estimate",
    "tests/unit/economics",
    "tests/unit/planning",
    "tests/property",
    "tests/reference",
)
CPU_SECONDS_A_MUTANT = 6.0

Chosen = list[tuple[Source, Mutant]]


def population(package: str) -> Chosen:
    """Return every mutant of a package of capplan."""
    found: Chosen = []
    for path in sorted((ROOT / "capplan" / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        source = Source(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path)
        found += [(source, mutant) for mutant in source.mutants]
    return found


def sampled(mutants: Chosen, size: int, seed: int) -> Chosen:
    """Return a simple random sample that depends on nothing but the mutants' names.

    In the order drawn: a run that is stopped leaves a smaller sample of the same kind.
    """

    def place(pair: tuple[Source, Mutant]) -> str:
        return hashlib.sha256(f"{seed} {pair[1].id}".encode()).hexdigest()

    return sorted(mutants, key=place)[:size]


def read(path: Path) -> list[Result]:
    """Return the results in a file, the last one of each mutant."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return list({one.id: one for one in (Result(**json.loads(line)) for line in lines)}.values())


def present(results: Sequence[Result]) -> list[Result]:
    """Return the results of mutants that the code still has, with their number of today."""
    sizes = {package: population(package) for package in {one.package for one in results}}
    known = {mutant.id for mutants in sizes.values() for _, mutant in mutants}
    return [replace(one, population=len(sizes[one.package])) for one in results if one.id in known]


def equivalents() -> dict[str, str]:
    """Return mutants that behave as the original does, with the reason."""
    return dict(tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"])


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="estimate, economics")
    parser.add_argument("--sample", type=int, default=sys.maxsize, help="mutants a package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--results", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--survivors-of", type=Path)
    parser.add_argument("--baseline", type=Path, help="keep what every test reaches in this file")
    parser.add_argument("--tests", nargs="+", default=[str(ROOT / each) for each in TESTS])
    parser.add_argument("--pytest", default="", help="more arguments of pytest, as one word")
    parser.add_argument("--show", type=Path, nargs="+", help="print the report of results")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Plant the faults, or show what became of them."""
    asked = arguments(argv)
    if asked.show:
        latest = {one.id: one for path in asked.show for one in read(path)}
        print(shown(present(list(latest.values())), equivalents()))
        return 0
    again = {one.id for one in read(asked.survivors_of) if not one.noticed} \
        if asked.survivors_of else None  # fmt: skip
    done = {one.id for one in read(asked.results)}
    chosen: Chosen = []
    sizes: dict[str, int] = {}
    for package in asked.packages:
        mutants = population(package)
        sizes |= {source.module: len(mutants) for source, _ in mutants}
        chosen += sampled(mutants, asked.sample, asked.seed)
    chosen = [
        (source, mutant)
        for source, mutant in chosen
        if asked.only in mutant.id
        and mutant.id not in done
        and (again is None or mutant.id in again)
    ]

    def tell(source: Source, mutant: Mutant, fate: Fate, tests: str) -> None:
        line = json.dumps({
            "id": mutant.id,
            "module": source.module,
            "population": sizes[source.module],
            "fate": fate,
            "tests": tests,
        })  # fmt: skip
        with asked.results.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    campaign = Campaign(chosen, tell, CPU_SECONDS_A_MUTANT, asked.baseline)
    options = ["-q", "--no-header", "-p", "no:cacheprovider", *asked.pytest.split()]
    return int(pytest.main([*options, *asked.tests], plugins=[campaign]))


if __name__ == "__main__":
    sys.exit(main())
