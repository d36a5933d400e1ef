"""Fields of a class as its source has them: type, default and the text under each."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from reference_docs.markdown import cell, code_cell


@dataclass(frozen=True)
class Written:
    """What the source says of a field."""

    annotation: str
    text: str


def written_fields(kind: type) -> dict[str, Written]:
    """Return the annotated fields of a class and of what it inherits from in capplan."""
    found: dict[str, Written] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith(("capplan.", "profiler.")):
            found.update(_of_source(base))
    return found


def _of_source(kind: type) -> Iterator[tuple[str, Written]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    for index, node in enumerate(definition.body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            following = definition.body[index + 1 : index + 2]
            yield node.target.id, Written(ast.unparse(node.annotation), _text(following))


def _text(nodes: list[ast.stmt]) -> str:
    """Return the string that stands alone after a field, if one does."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            value = node.value.value
            return value if isinstance(value, str) else ""
    return ""


def field_rows(kind: type[BaseModel]) -> Iterator[str]:
    """Yield a table of a schema's fields."""
    written = written_fields(kind)
    yield from ("| field | type | default | meaning |", "|---|---|---|---|")
    for name, field in kind.model_fields.items():
        said = written[name]
        default = "empty" if field.default_factory is not None else default_cell(field.default)
        yield f"| `{name}` | {code_cell(said.annotation)} | {default} | {cell(said.text)} |"


def default_cell(value: Any) -> str:
    """Return a default as a cell: code, or ``needed`` where there is none."""
    return "needed" if value is PydanticUndefined else code_cell(_shown(value))


def _shown(value: Any) -> str:
    if isinstance(value, BaseModel):
        return f"{type(value).__name__}()"
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(_shown(each) for each in value)}{comma})"
    return repr(value) if isinstance(value, str | float | None) else str(value)
