"""Typed access to the fields of a configuration; a wrong one is an error that names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from capplan.errors import FactsError

REMEDY = "Correct the field in config.json, or take the file from the checkpoint's own repository."


@dataclass(frozen=True)
class Fields:
    """A JSON object with what messages and absent fields need.

    A field may go by several names (``hidden_size``, ``n_embd``): the first that is not null
    counts. One that is null everywhere is None; one that is absent everywhere has the default
    that transformers gives it for this type.
    """

    config: Mapping[str, object]
    where: str
    """Path of the file or id of the checkpoint, for messages."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    defaulted: dict[str, object] = field(default_factory=dict)
    """Defaults that were taken, by name: each is a note in the result."""

    def value(self, *names: str) -> object:
        """Return a field as JSON has it, its default if absent, None if there is neither."""
        present = [name for name in names if name in self.config]
        for name in present:
            if self.config[name] is not None:
                return self.config[name]
        if present:
            return None
        for name in names:
            if self.defaults.get(name) is not None:
                self.defaulted[name] = self.defaults[name]
                return self.defaults[name]
        return None

    def has(self, *names: str) -> bool:
        """Return whether the configuration itself states one of these fields."""
        return any(self.config.get(name) is not None for name in names)

    def error(self, name: str, expected: str) -> FactsError:
        """Return the error for a field that is not what it should be."""
        if name in self.defaulted and name not in self.config:
            got = f"is absent and {self.defaulted[name]!r} by default"
            return FactsError(f"{self.where}: {name} {got}, expected {expected}.", REMEDY)
        if self.config.get(name) is None:
            return FactsError(f"{self.where}: {name} is missing, expected {expected}.", REMEDY)
        got = f"{self.config[name]!r}"
        got = got if len(got) <= 80 else f"{got[:77]}..."
        return FactsError(f"{self.where}: {name} is {got}, expected {expected}.", REMEDY)

    def optional(self, *names: str) -> int | None:
        """Return a whole number of 0 or more, None if there is none.

        A list of one number a layer counts as that number if all are the same.
        """
        value = _same(self.value(*names))
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(self._named(names), "a whole number of 0 or more")
        return value

    def integer(self, *names: str) -> int:
        """Return a whole number above 0.

        Raises
        ------
        FactsError
            If the field is absent without a default, null, or no such number.
        """
        value = self.optional(*names)
        if not value:
            raise self.error(self._named(names), "a whole number above 0")
        return value

    def number(self, name: str) -> float | None:
        """Return a number, None if there is none."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(name, "a number")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return true or false."""
        value = self.value(*names)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(self._named(names), "true or false")
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return some text."""
        value = self.value(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.error(name, "some text")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts, empty if there is none."""
        value = self.value(name)
        if value is None:
            return ()
        if not _is_list(value) or not all(isinstance(item, str) for item in value):
            raise self.error(name, "a list of texts")
        return tuple(str(item) for item in value)

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of whole numbers, empty if there is none."""
        value = self.value(name)
        if value is None:
            return ()
        if not _is_list(value):
            raise self.error(name, "a list of whole numbers")
        whole = [item for item in value if isinstance(item, int) and not isinstance(item, bool)]
        if len(whole) != len(value):
            raise self.error(name, "a list of whole numbers")
        return tuple(whole)

    def inner(self, name: str) -> Fields:
        """Return an object inside this one; an empty one if there is none."""
        value = self.value(name)
        if value is None:
            return Fields({}, f"{self.where}: {name}")
        if not isinstance(value, Mapping):
            raise self.error(name, "an object")
        return Fields(value, f"{self.where}: {name}")

    def _named(self, names: tuple[str, ...]) -> str:
        """Return the name to blame: the first that is present, else the usual one."""
        return next((name for name in names if self.has(name)), names[0])


def _same(value: object) -> object:
    if isinstance(value, list) and value and all(one == value[0] for one in value):
        return value[0]
    return value


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)
