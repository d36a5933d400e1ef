"""YAML with what a typing person gets wrong told apart: keys twice, words that become booleans."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from capplan.errors import WorkloadError


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands there twice: YAML would silently keep the last."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen: set[Hashable] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"{key!r} stands there twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def parse(text: str, file: str) -> dict[str, Any]:
    """Return the mapping of a YAML (or JSON) document.

    Raises
    ------
    WorkloadError
        If it is no YAML, has a key twice, or is no mapping.
    """
    try:
        found = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        why = getattr(error, "problem", None) or str(error) or "nested too deep"
        raise WorkloadError(
            f"{file}{where}: no YAML that can be read: {why}.",
            "Fields stand one a line as name: value; see docs/workloads.md.",
        ) from error
    if not isinstance(found, dict):
        raise WorkloadError(
            f"{file} is no workload: expected fields (name: value), got "
            f"{'nothing' if found is None else type(found).__name__}.",
            "See docs/workloads.md for the fields.",
        )
    return found
