"""Small faults for Python source: each turns one place of a module into something else.

Text for people is left alone (strings, f-strings, ``raise`` with its message), and so is what
has no effect when the code runs (annotations) or when a value is right (decorators).
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult,
}  # fmt: skip
_NAMES = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum",
    "argmin": "argmax", "argmax": "argmin", "floor": "ceil", "ceil": "floor",
    "any": "all", "all": "any", "cumsum": "cumprod", "cumprod": "cumsum",
}  # fmt: skip
_LARGE = 1e6
_SKIPPED_NODES = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)
_SKIPPED_FIELDS = frozenset({"annotation", "returns", "decorator_list", "type_params"})
_LONGEST_SHOWN = 70


@dataclass(frozen=True)
class Where:
    """Which lines a test runs that reaches a mutant."""

    name: str
    """``module.Class.function``."""
    scope: range
    """Lines of the function, the class or the module."""
    at_import: bool
    """Outside of function bodies: constants, fields, defaults."""
    statement: range
    line: int


@dataclass(frozen=True)
class Mutant:
    """One place that can be changed: a field of a node of the module's tree."""

    id: str
    """``module.function: before -> after``: holds when code above it moves."""
    where: Where
    node: ast.AST
    field: str
    place: int | None
    """Index where the field is a list."""
    replacement: ast.AST

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Hold the changed node in its tree."""
        kept = _get(self.node, self.field, self.place)
        _set(self.node, self.field, self.place, self.replacement)
        try:
            yield
        finally:
            _set(self.node, self.field, self.place, kept)


class Source:
    """The tree of one module and all its mutants."""

    def __init__(self, module: str, path: Path) -> None:
        self.module, self.path = module, path
        text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(text)
        self._parents: dict[ast.AST, ast.AST] = {}
        self._seen: Counter[str] = Counter()
        whole = range(1, text.count("\n") + 2)
        self.mutants = tuple(self._walk(self.tree, Where(module, whole, True, whole, 1)))

    def compiled(self, mutant: Mutant) -> CodeType:
        """Return the module's code with the fault in it."""
        with mutant.applied():
            return compile(self.tree, str(self.path), "exec")

    def _walk(self, node: ast.AST, outside: Where) -> Iterator[Mutant]:
        where = _where(node, outside)
        for field, place, child in _children(node):
            self._parents[child] = node
            defaults = field == "args" and isinstance(node, ast.FunctionDef)
            here = replace(where, at_import=True) if defaults else where
            for replacement in _replacements(node, field, child):
                yield self._mutant(Mutant("", here, node, field, place, replacement))
            yield from self._walk(child, here)

    def _mutant(self, draft: Mutant) -> Mutant:
        kept = _get(draft.node, draft.field, draft.place)
        line = getattr(kept, "lineno", None) or draft.where.line
        ast.copy_location(draft.replacement, kept)
        ast.fix_missing_locations(draft.replacement)
        shown = self._shown(draft.node)
        before = ast.unparse(shown)
        with draft.applied():
            after = ast.unparse(shown)
        text = f"{draft.where.name}: {_change(before, after)}"
        self._seen[text] += 1
        if self._seen[text] > 1:
            text += f" #{self._seen[text]}"
        return replace(draft, id=text, where=replace(draft.where, line=line))

    def _shown(self, node: ast.AST) -> ast.AST:
        """Return the largest expression around a node that is short enough to be read."""
        while (parent := self._parents.get(node)) is not None:
            if not isinstance(parent, ast.expr | ast.keyword | ast.Return | ast.Assign):
                break
            if len(ast.unparse(parent)) > _LONGEST_SHOWN:
                break
            node = parent
        return node


def _where(node: ast.AST, outside: Where) -> Where:
    """Return where the parts of a node stand."""
    found = replace(outside, line=getattr(node, "lineno", outside.line))
    if isinstance(node, ast.stmt):
        last = node.end_lineno or node.lineno
        body = getattr(node, "body", None)
        if body:  # of a compound statement the head alone
            last = max(body[0].lineno - 1, node.lineno)
        found = replace(found, statement=range(node.lineno, last + 1))
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        inside = isinstance(node, ast.ClassDef)
        found = replace(found, name=f"{outside.name}.{node.name}", scope=lines, at_import=inside)
    return found


def _change(before: str, after: str) -> str:
    """Return ``before -> after``, of long text only what is near to the difference."""
    pairs = zip(before, after, strict=False)
    same = next((n for n, (one, other) in enumerate(pairs) if one != other), None)
    same = min(len(before), len(after)) if same is None else same
    first = max(0, same - _LONGEST_SHOWN // 2) if len(before) > _LONGEST_SHOWN else 0
    cut = [text[first : first + _LONGEST_SHOWN].split("\n")[0] for text in (before, after)]
    return " -> ".join(("..." if first else "") + text for text in cut)


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    for field, value in ast.iter_fields(node):
        if field in _SKIPPED_FIELDS:
            continue
        values = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
        for place, child in values:
            if isinstance(child, ast.AST) and not _skipped(child):
                yield field, place, child


def _skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, _SKIPPED_NODES)


def _replacements(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node may become: one fault for most, none for what is left alone."""
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        yield operator()
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node.value)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Break | ast.Continue):
        yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()
    elif isinstance(node, ast.Name) and node.id in _NAMES and field == "func":
        yield ast.Name(_NAMES[node.id], ast.Load())
    elif isinstance(node, ast.Attribute) and node.attr in _NAMES and field == "func":
        yield ast.Attribute(node.value, _NAMES[node.attr], ast.Load())
    yield from _in_place_of(parent, field, node)


def _other_constants(value: object) -> Iterator[ast.AST]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float) and math.isfinite(value):
        yield ast.Constant(value + 1 if abs(value) < _LARGE else value * 2)


def _in_place_of(parent: ast.AST, field: str, node: ast.AST) -> Iterator[ast.AST]:
    """Yield faults that depend on where an expression stands."""
    nothing = isinstance(node, ast.Constant) and node.value is None
    if isinstance(parent, ast.Return) and not nothing:
        yield ast.Constant(None)
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr | ast.Subscript)
    if isinstance(parent, ast.If | ast.IfExp | ast.While) and field == "test" and plain:
        yield ast.UnaryOp(ast.Not(), node)
    if isinstance(parent, ast.comprehension) and field == "ifs" and plain:
        yield ast.UnaryOp(ast.Not(), node)


def _get(node: ast.AST, field: str, place: int | None) -> ast.AST:
    value = getattr(node, field)
    return value if place is None else value[place]  # type: ignore[no-any-return]


def _set(node: ast.AST, field: str, place: int | None, value: ast.AST) -> None:
    if place is None:
        setattr(node, field, value)
    else:
        getattr(node, field)[place] = value
