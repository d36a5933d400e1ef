"""Instance types and labels by their names, whole ones and patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from capplan.facts.gpu_names.outcome import nearest
from capplan.facts.instances import Instance, InstanceKind

_PREFIXES = ("standard_", "ml.")
"""What Azure and SageMaker put before the name of a machine."""
_MOST_GPUS = 16
_DIGITS = re.compile(r"\d+")
_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True)
class Machines:
    """What providers rent out, findable by name."""

    instances: tuple[Instance, ...]

    @cached_property
    def _labels(self) -> dict[str, Instance]:
        return {i.instance: i for i in self.instances if i.kind is InstanceKind.LABEL}

    @cached_property
    def _by_key(self) -> dict[str, Instance]:
        machines = (i for i in self.instances if i.kind is InstanceKind.INSTANCE)
        return {_key(i.instance): i for i in machines}

    @cached_property
    def _patterns(self) -> tuple[tuple[re.Pattern[str], Instance], ...]:
        patterns = (i for i in self.instances if i.kind is InstanceKind.PATTERN)
        return tuple((_pattern(i.instance), i) for i in patterns)

    def find(self, name: str) -> Instance | None:
        """Return the instance type or label of this name."""
        key = _key(name)
        return self._labels.get(name) or self._by_key.get(key) or self._spelled_out(key)

    def _spelled_out(self, key: str) -> Instance | None:
        for pattern, instance in self._patterns:
            found = pattern.fullmatch(key)
            if found and 0 < int(found["count"]) <= _MOST_GPUS:
                return instance.model_copy(update={"gpu_count": int(found["count"])})
        return None

    def siblings(self, name: str) -> tuple[str, ...]:
        """Return machines of the same family whose names are most alike."""
        family = _family(name)
        return nearest(name, [i for i in self._names if _family(i) == family])

    def alike(self, name: str) -> tuple[str, ...]:
        """Return machines whose names are most alike; without a digit it names none."""
        return nearest(name, self._names) if _DIGITS.search(name) else ()

    @property
    def _names(self) -> list[str]:
        return [machine.instance for machine in self._by_key.values()]


def _key(name: str) -> str:
    key = name.strip().lower()
    for prefix in _PREFIXES:
        key = key.removeprefix(prefix)
    return key


def _pattern(instance: str) -> re.Pattern[str]:
    parts = re.escape(instance.lower()).replace(r"\#", "#").replace(r"\*", "*")
    return re.compile(parts.replace("#", r"(?P<count>\d{1,2})").replace("*", r"\d+"), re.ASCII)


def _family(name: str) -> str:
    """Return what an instance family's sizes share: ``p5``, ``nc#ads_a100_v4``, ``a2-highgpu-#g``.

    The size comes after the last dot, is the last number between hyphens, or else the first one.
    """
    key = _key(name)
    beginning, dot, _ = key.rpartition(".")
    if dot:
        return beginning
    return (_LAST_NUMBER if "-" in key else _DIGITS).sub("#", key, count=1)
