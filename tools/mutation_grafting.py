"""Put changed code into modules that are already imported, so that a fork is a mutant.

Functions keep their identity and get another body: whoever imported them by name sees the fault.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import sys
from collections.abc import Iterable
from decimal import Decimal
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from pydantic import BaseModel

_PLAIN = (bool, int, float, str, bytes, Decimal, type(None))
_KEPT = frozenset({
    "__module__", "__dict__", "__weakref__", "__doc__", "__annotations__",
    "__package__", "__loader__", "__spec__",  # of the module itself, whatever its code
})  # fmt: skip
_FIELDS = "__dataclass_fields__"


def executed(module: ModuleType, code: CodeType) -> ModuleType:
    """Return what a module would be with other code; whoever has imported it sees nothing yet."""
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    exec(code, fresh.__dict__)  # our own source, one operator changed
    return fresh


def graft(module: ModuleType, fresh: ModuleType) -> bool:
    """Give a module the functions, defaults and constants of another; False: none differed."""
    changed = False
    for name, new in vars(fresh).items():
        old = vars(module).get(name)
        defined = isinstance(new, type | FunctionType) or hasattr(new, "__wrapped__")
        if name in _KEPT or (defined and new.__module__ != module.__name__):
            continue  # imported, not made here
        if _is_plain(new) and not _same(old, new):
            _set_everywhere(name, old, new)
            changed = True
        else:
            changed |= _graft_value(old, new)
    return changed


def _graft_value(old: Any, new: Any) -> bool:
    if isinstance(new, type):
        return _graft_class(old, new)
    if dataclasses.is_dataclass(new) or isinstance(new, BaseModel):
        pairs = [(name, vars(old)[name], value) for name, value in vars(new).items()]
        return _any(_graft_attribute(old, *pair) for pair in pairs)
    if isinstance(new, dict):
        return _any(_graft_value(old[key], value) for key, value in new.items() if key in old)
    if isinstance(new, tuple | list):
        return _any(_graft_value(*pair) for pair in zip(old, new, strict=False))
    pairs_of_code = zip(_functions(old), _functions(new), strict=True)
    return _any(_graft_function(*pair) for pair in pairs_of_code)


def _any(changes: Iterable[bool]) -> bool:
    return sum(changes) > 0  # all of them: any() would stop at the first


def _graft_class(old: type, new: type) -> bool:
    changed = False
    of_class = vars(new).items()
    if issubclass(new, Enum):  # its members cannot be replaced, and are the same
        of_class = {name: value for name, value in of_class if _functions(value)}.items()
    for name, value in of_class:
        if name == _FIELDS:
            factories = ((getattr(old, _FIELDS)[each].default_factory, field.default_factory)
                         for each, field in value.items())  # fmt: skip
            changed |= _any(_graft_value(*pair) for pair in factories)
        elif name not in _KEPT and name in vars(old):
            changed |= _graft_attribute(old, name, vars(old)[name], value)
    return changed


def _graft_attribute(owner: Any, name: str, old: Any, new: Any) -> bool:
    if not _is_plain(new):
        return _graft_value(old, new)
    if _same(old, new):
        return False
    if isinstance(owner, type):
        setattr(owner, name, new)
    else:
        object.__setattr__(owner, name, new)  # frozen values, too
    return True


def _functions(value: Any) -> list[FunctionType]:
    """Return the functions inside a property, a class method, a cached function and the like."""
    if isinstance(value, property):
        found = [value.fget, value.fset]
    elif isinstance(value, functools.cached_property):
        found = [value.func]
    elif isinstance(value, functools.partial):
        return _functions(value.func)
    else:
        found = [getattr(value, "__wrapped__", value)]
    return [each for each in found if isinstance(each, FunctionType)]


def _graft_function(old: FunctionType, new: FunctionType) -> bool:
    changed = False
    if old.__code__ != new.__code__:
        old.__code__ = new.__code__
        changed = True
    defaults = _plain_of(old.__defaults__ or (), new.__defaults__ or ())
    if not _same(old.__defaults__ or (), defaults):
        old.__defaults__ = defaults
        changed = True
    keywords = new.__kwdefaults__
    if keywords and _is_plain(keywords) and not _same(old.__kwdefaults__, keywords):
        old.__kwdefaults__ = keywords
        changed = True
    return changed


def _plain_of(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return new values, the old ones where they are no plain data (a dataclass's factories)."""
    pairs = zip(old, new, strict=True)
    return tuple(fresh if _is_plain(fresh) else kept for kept, fresh in pairs)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return all(_is_plain(each) for each in value)
    if isinstance(value, dict):
        return all(_is_plain(each) for pair in value.items() for each in pair)
    return isinstance(value, (*_PLAIN, np.ndarray))


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, np.ndarray) or isinstance(new, np.ndarray):
        return bool(np.array_equal(old, new))
    with contextlib.suppress(ValueError):  # arrays inside of tuples
        return type(old) is type(new) and bool(old == new)
    return repr(old) == repr(new)


def _set_everywhere(name: str, old: Any, new: Any) -> None:
    for module in list(sys.modules.values()):
        if vars(module).get(name, new) is not new and _same(vars(module)[name], old):
            setattr(module, name, new)


@dataclasses.dataclass(frozen=True)
class Remembered:
    """Everything alive that may hold what unchanged code has computed."""

    caches: tuple[Any, ...]
    """Cached functions."""
    properties: tuple[tuple[Any, str], ...]
    """Objects and their cached properties."""

    @classmethod
    def now(cls) -> Remembered:
        """Find it: a look at every object, so done once, before the forks."""
        alive = gc.get_objects()
        kind = type(functools.lru_cache(maxsize=1)(lambda: None))
        names = {
            one: [name for name, value in vars(one).items() if _is_cached(value)]
            for one in {type(each) for each in alive}
            if _depends(str(one.__module__))
        }
        return cls(
            tuple(one for one in alive if type(one) is kind and _depends(str(one.__module__))),
            tuple((one, name) for one in alive for name in names.get(type(one), ())),
        )

    def forget(self) -> None:
        """Let everything be computed again."""
        for cached in self.caches:
            cached.cache_clear()
        for owner, name in self.properties:
            vars(owner).pop(name, None)


def _is_cached(value: Any) -> bool:
    return isinstance(value, functools.cached_property)


def _depends(module: str) -> bool:
    # facts and schema do not import the estimates (an import contract), and are slow to load
    if module.startswith(("capplan.facts", "capplan.schema")):
        return False
    return module.startswith(("capplan", "profiler")) or "test" in module
