"""Faults of a disk, injected at the calls by which capplan writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from capplan.errors import StorageError

CALLS = ("open", "write", "fchmod", "fsync", "replace")
"""Functions of :mod:`os` that can fail while a file is replaced."""


@dataclass
class Disk:
    """Fails with an error number at one call, or from it on."""

    monkeypatch: pytest.MonkeyPatch
    seen: list[str] = field(default_factory=list)

    @contextmanager
    def failing(
        self, number: int, code: int, *, calls: tuple[str, ...] = CALLS, for_good: bool = False
    ) -> Iterator[None]:
        """Let the call of that number fail; a negative number lets none fail."""
        self.seen.clear()
        with self.monkeypatch.context() as patch:
            for name in calls:
                call = self._counted(name, getattr(os, name), number, code, for_good=for_good)
                patch.setattr(os, name, call)
            yield

    @staticmethod
    def refusal(write: Callable[[], object]) -> StorageError | None:
        """Return the error that explains why something could not be written, if it could not."""
        try:
            write()
        except StorageError as error:
            return error
        return None

    def _counted(
        self, name: str, real: Callable[..., Any], number: int, code: int, *, for_good: bool
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.seen.append(name)
            place = len(self.seen) - 1
            if place == number or (for_good and 0 <= number <= place):
                raise OSError(code, os.strerror(code))
            return real(*arguments, **named)

        return call


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)
