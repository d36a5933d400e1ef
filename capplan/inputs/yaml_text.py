"""YAML from outside: plain values only, with what a typing person gets wrong told apart.

Three things make YAML more dangerous than JSON. Aliases: a kilobyte of them stands for a billion
nodes, or for a list that holds itself. Tags and forms: ``2026-13-45`` is taken for a date, and
``1:30`` for a number. And keys that stand there twice, of which the last silently wins.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from capplan.errors import UnreadableFileError
from capplan.inputs.documents import check_depth, check_numbers, check_texts
from capplan.inputs.limits import LONGEST_NUMBER, Limits
from capplan.inputs.reading import read_text

_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_BROKEN_VALUES = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
"""What PyYAML lets through where a value is not what its form or its tag says."""


class _Loader(yaml.SafeLoader):
    """Refuses keys that stand there twice, deep nesting and more nodes than the limit."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text)
        self._limits, self._depth, self._nodes = limits, 0, 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node; the limits hold before anything is built of it."""
        self._nodes += 1
        self._depth += 1
        if self._depth > self._limits.deepest or self._nodes > self._limits.most_groups:
            at = self.peek_event().start_mark  # type: ignore[no-untyped-call] # PyYAML is untyped
            what = (
                f"more than {self._limits.most_groups:,} values"
                if self._nodes > self._limits.most_groups
                else f"nested too deeply, at most {self._limits.deepest} levels"
            )
            raise yaml.composer.ComposerError(None, None, what, at)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen: set[Hashable] = set()
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            continue
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"{key!r:.60} stands there twice", key_node.start_mark
            )
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path, limits: Limits) -> Any:
    """Return the value of a YAML (or JSON) file; see :func:`parse_yaml`."""
    return parse_yaml(read_text(path, limits), str(path), limits)


def parse_yaml(text: str, name: str, limits: Limits) -> Any:
    """Return the value of a YAML text.

    Parameters
    ----------
    text
        The text, already bounded in size.
    name
        What it is called in messages.
    limits
        How deep it may be and how many nodes it may have, aliases counted as what they stand for.

    Raises
    ------
    UnreadableFileError
        If it is no YAML, has a key twice, or exceeds a limit.
    """
    try:
        value = _value(text, limits)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", "it does not parse")
        line = mark.line + 1 if mark is not None else None
        where = f"line {line}: " if line is not None else ""
        raise UnreadableFileError(
            name, f"{where}no YAML that can be read: {_one_line(problem)}", line=line
        ) from error
    except RecursionError as error:
        raise UnreadableFileError(
            name, f"it is nested too deeply; a {limits.what} has at most {limits.deepest} levels"
        ) from error
    except _BROKEN_VALUES as error:
        raise UnreadableFileError(
            name, f"it holds a value that is not what it looks like ({_one_line(error)})"
        ) from error
    check_depth(value, name, limits)
    check_numbers(value, name, finite=False)  # the schema names the field of a NaN
    check_texts(value, name)
    return value


def _value(text: str, limits: Limits) -> Any:
    loader = _Loader(text, limits)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check_size(node, limits)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check_size(root: yaml.Node, limits: Limits) -> None:
    """Count nodes as if every alias were written out, without writing them out."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        known = sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in open_nodes:
            raise yaml.composer.ComposerError(None, None, "a value holds itself", node.start_mark)
        open_nodes.add(id(node))
        count = 1 + sum(map(size, _children(node)))
        open_nodes.discard(id(node))
        sizes[id(node)] = count
        return count

    if size(root) > limits.most_groups:
        raise yaml.composer.ComposerError(
            None, None, f"aliases stand for more than {limits.most_groups:,} values", None
        )


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
        what = f"a number of {len(node.value):,} characters"
        raise yaml.composer.ComposerError(None, None, what, node.start_mark)
    return []


def _one_line(problem: object) -> str:
    text = " ".join(str(problem).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
