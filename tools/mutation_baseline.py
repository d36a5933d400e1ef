"""Which lines every test reaches and what it costs, kept from one run to the next.

What is known of a test is dropped when a module that it reaches has changed. A change of the test
itself is not seen: delete the file then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Baseline:
    """Tests that pass on unchanged code."""

    seconds: dict[str, float] = field(default_factory=dict)
    """CPU time of each test under coverage."""
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """Lines that a test reaches, by test and by module's path."""

    @classmethod
    def read(cls, path: Path | None) -> Baseline:
        """Return what an earlier run left, as far as it still holds."""
        if path is None or not path.exists():
            return cls()
        kept = json.loads(path.read_text(encoding="utf-8"))
        changed = {name for name, digest in kept["modules"].items() if _digest(name) != digest}
        lines = {test: each for test, each in kept["lines"].items() if not changed & each.keys()}
        return cls({test: kept["seconds"][test] for test in lines}, lines)

    def write(self, path: Path) -> None:
        """Keep it for the next run."""
        modules = {name for each in self.lines.values() for name in each}
        text = json.dumps({
            "modules": {name: _digest(name) for name in sorted(modules)},
            "seconds": self.seconds,
            "lines": self.lines,
        })  # fmt: skip
        path.write_text(text, encoding="utf-8")

    def add(self, path: str, contexts: dict[int, list[str]]) -> None:
        """Enter what coverage saw of one module."""
        for line, tests in contexts.items():
            for test in tests:
                if test in self.seconds:
                    self.lines.setdefault(test, {}).setdefault(path, []).append(line)

    def reaching(self, path: str, lines: range, among: Iterable[str]) -> list[str]:
        """Return the tests that reach any of the lines, cheapest first."""
        found = [
            test for test in among
            if any(line in lines for line in self.lines.get(test, {}).get(path, ()))
        ]  # fmt: skip
        return sorted(found, key=lambda test: (self.seconds[test], test))


def _digest(path: str) -> str:
    file = Path(path)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""
