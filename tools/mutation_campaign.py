"""Run the tests that reach a fault against it, one fork a fault (a pytest plugin).

The tests are collected and run once as they are, under coverage that notes which test reaches
which line. Then every mutant gets a fork of that warm process: it needs no start and no import.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import coverage
import mutation_grafting as grafting
import pytest
from _pytest.runner import runtestprotocol
from mutation_baseline import Baseline
from mutation_operators import Mutant, Source

import capplan

PACKAGES = ("estimate", "economics", "planning")
"""What may be mutated; other code is not traced, which would cost time."""
_CPU_SECONDS_AT_LEAST = 5
_CPU_FACTOR = 3
"""CPU time that a mutant may take: so many times what its tests took under coverage."""
_MEMORY_BYTES = 4 << 30
"""Room above what the process has when it forks: a wrong size must not take the machine down."""


class Fate(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"
    UNREACHED = "unreached"
    """No test runs its line."""
    SAME = "same"
    """Neither code nor constants differ that could be put in place: not counted."""
    ERROR = "error"
    """The fork itself failed: not counted either."""


_FATES = (Fate.SURVIVED, Fate.KILLED, Fate.SAME, Fate.ERROR)
"""By the exit status of a fork."""


@dataclass
class Campaign:
    """Pytest plugin: instead of one run of the tests, one run and then one a mutant.

    Attributes
    ----------
    chosen
        Mutants to try, by their source.
    tell
        Called with every mutant's fate, the tests it was given and how many there are in all.
    budget_s
        Tests of a mutant are taken cheapest first until they cost this much together.
    kept
        File in which the run of the tests as they are is kept for the next time.
    """

    chosen: Sequence[tuple[Source, Mutant]]
    tell: Callable[[Source, Mutant, Fate, str], None]
    budget_s: float
    kept: Path | None = None
    _baseline: Baseline = field(default_factory=Baseline)
    _items: dict[str, pytest.Item] = field(default_factory=dict)
    _remembered: grafting.Remembered | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run everything once, then the mutants."""
        if session.testsfailed:
            raise session.Interrupted("errors during collection")
        self._baseline = Baseline.read(self.kept)
        new = [item for item in session.items if item.nodeid not in self._baseline.seconds]
        self._as_it_is(new)
        if self.kept is not None:
            self._baseline.write(self.kept)
        passed = [item for item in session.items if item.nodeid in self._baseline.seconds]
        self._items = {item.nodeid: item for item in passed}
        self._remembered = grafting.Remembered.now()
        for item in passed:
            _without_shrinking(item)
        gc.freeze()  # forks share the pages of what is here
        for source, mutant in self.chosen:
            fate, tests = self._try(source, mutant)
            self.tell(source, mutant, fate, tests)
        return True

    def _as_it_is(self, items: Sequence[pytest.Item]) -> None:
        folder = Path(capplan.__file__).parent
        paths = [str(folder / package / "*") for package in PACKAGES]
        measured = coverage.Coverage(data_file=None, include=paths, config_file=False)
        measured.start()
        for item, following in zip(items, [*items[1:], None], strict=True):
            measured.switch_context(item.nodeid)
            started = time.process_time()
            reports = runtestprotocol(item, log=False, nextitem=following)
            if all(report.passed for report in reports):
                self._baseline.seconds[item.nodeid] = time.process_time() - started
            elif any(report.failed for report in reports):
                print(f"not used, does not pass: {item.nodeid}", file=sys.stderr)
        measured.stop()
        data = measured.get_data()
        for path in data.measured_files():
            self._baseline.add(path, data.contexts_by_lineno(path))

    def _try(self, source: Source, mutant: Mutant) -> tuple[Fate, str]:
        reaching = [self._items[test] for test in self._tests(source, mutant)]
        if not reaching:
            return Fate.UNREACHED, "0 of 0"
        cost_s, chosen = 0.0, []
        for item in reaching:
            cost_s += self._baseline.seconds[item.nodeid]
            if chosen and cost_s > self.budget_s:
                break
            chosen.append(item)
        limit_s = math.ceil(_CPU_SECONDS_AT_LEAST + _CPU_FACTOR * cost_s)
        return self._forked(source, mutant, chosen, limit_s), f"{len(chosen)} of {len(reaching)}"

    def _tests(self, source: Source, mutant: Mutant) -> list[str]:
        """Return the tests that run a mutant's line, cheapest first.

        What runs at import (a constant, a field, a default) has no test of its own: then those
        of the function or class it belongs to, or of the whole module.
        """
        where = mutant.where
        ranges = [range(where.line, where.line + 1), where.statement]
        if where.at_import:
            ranges += [where.scope, range(1, sys.maxsize)]
        for lines in ranges:
            found = self._baseline.reaching(str(source.path), lines, self._items)
            if found:
                return found
        return []

    def _forked(
        self, source: Source, mutant: Mutant, items: Sequence[pytest.Item], limit_s: int
    ) -> Fate:
        code = source.compiled(mutant)
        child = os.fork()
        if child == 0:
            status = _FATES.index(Fate.ERROR)
            with contextlib.suppress(BaseException):
                _limit(limit_s)
                status = self._in_child(source, code, items)
            os._exit(status)
        _, ended = os.waitpid(child, 0)
        if os.WIFSIGNALED(ended):
            timed_out = os.WTERMSIG(ended) in {signal.SIGXCPU, signal.SIGKILL}
            return Fate.TIMEOUT if timed_out else Fate.KILLED
        return _FATES[os.WEXITSTATUS(ended)]

    def _in_child(self, source: Source, code: Any, items: Sequence[pytest.Item]) -> int:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        module = sys.modules[source.module]
        try:
            changed = grafting.executed(module, code)
        except Exception:  # noqa: BLE001 - a module that cannot be imported fails any test
            return _FATES.index(Fate.KILLED)
        if not grafting.graft(module, changed):
            return _FATES.index(Fate.SAME)
        assert self._remembered is not None, "found before the first fork"
        self._remembered.forget()
        held = all(_passes(items))
        return _FATES.index(Fate.SURVIVED if held else Fate.KILLED)


def _passes(items: Sequence[pytest.Item]) -> Iterable[bool]:
    for item, following in zip(items, [*items[1:], None], strict=True):
        reports = runtestprotocol(item, log=False, nextitem=following)
        yield all(report.passed for report in reports)


def _limit(cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a number, no file
        pages = int(file.read().split()[0])
    room = pages * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (room, room))


def _without_shrinking(item: pytest.Item) -> None:
    """Let hypothesis stop at the first failure: which example is smallest does not matter here."""
    import hypothesis  # not above: pytest wants to import its plugin first

    test = getattr(item, "obj", None)
    name = "_hypothesis_internal_use_settings"
    if hasattr(test, name):
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        setattr(
            getattr(test, "__func__", test),
            name,
            hypothesis.settings(getattr(test, name), phases=phases, database=None),
        )
