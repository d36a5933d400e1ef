"""What became of planted faults, as a table in Markdown."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Z_95 = 1.959964
_NOTICED = frozenset({"killed", "timeout"})
_UNCOUNTED = frozenset({"same", "error"})


@dataclass(frozen=True)
class Result:
    """One mutant and its fate, as a line of the results has it."""

    id: str
    module: str
    population: int
    """Mutants of the package."""
    fate: str
    tests: str
    """Of how many that reach it, how many were run."""

    @property
    def noticed(self) -> bool:
        """Whether a test failed, or did not end."""
        return self.fate in _NOTICED

    @property
    def counted(self) -> bool:
        """Whether the fault could be planted."""
        return self.fate not in _UNCOUNTED

    @property
    def package(self) -> str:
        """``estimate`` of ``capplan.estimate.steptime``."""
        return self.module.split(".")[1]


def wilson(hits: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson's score interval)."""
    share, z2 = hits / of, Z_95**2
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z_95 / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return middle - half, middle + half


def shown(results: Sequence[Result], equivalent: Mapping[str, str]) -> str:
    """Return tables by package and by module, and every survivor."""
    packages: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        packages[one.package].append(one)
    lines = [
        "| package | mutants | tried | killed | timeout | survived | unreached | equivalent "
        "| killed of tried (95 %) | without equivalent ones |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(_package(name, found, equivalent) for name, found in sorted(packages.items())),
        "",
        *_modules(results, equivalent),
        "",
        *(f"- {one.fate}: `{one.id}` ({one.tests} tests)" for one in results
          if not one.noticed and one.id not in equivalent),
    ]  # fmt: skip
    return "\n".join(lines)


def _package(name: str, results: Sequence[Result], equivalent: Mapping[str, str]) -> str:
    counted = [one for one in results if one.counted]
    fates = Counter(one.fate for one in counted)
    alike = sum(one.id in equivalent and not one.noticed for one in counted)
    noticed, tried = sum(one.noticed for one in counted), len(counted)
    low, high = wilson(noticed, tried)
    return (
        f"| {name} | {results[0].population:,} | {tried:,} | {fates['killed']:,} "
        f"| {fates['timeout']} | {fates['survived'] - alike} | {fates['unreached']} | {alike} "
        f"| {noticed / tried:.1%} ({low:.1%}-{high:.1%}) | {noticed / (tried - alike):.1%} |"
    )


def _modules(results: Sequence[Result], equivalent: Mapping[str, str]) -> list[str]:
    modules: dict[str, list[bool]] = defaultdict(list)
    for one in results:
        if one.counted and (one.noticed or one.id not in equivalent):
            modules[one.module].append(one.noticed)
    weakest = sorted(modules, key=lambda name: sum(modules[name]) / len(modules[name]))
    return [
        "| module | noticed | of |",
        "|---|---|---|",
        *(f"| {name} | {sum(modules[name])} | {len(modules[name])} |" for name in weakest),
    ]
