"""Which matrices a quantisation setting names: exact names, wildcards and regular expressions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from capplan.errors import FactsError

_FUSED: Mapping[str, tuple[str, ...]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Names under which engines join matrices, and what checkpoints call them."""

_FEW = 40
_REGEX = "re:"
_CLASS = re.compile(r"[A-Z]\w*")
"""Names of layer classes (``Linear``, ``Qwen3MoeExperts``) begin with a capital."""


def _inside(name: str) -> str:
    """Return a name without what stands before ``layers``: wrappers differ between files."""
    before, found, after = name.partition("layers.")
    return f"layers.{after}" if found and not before.strip(".").endswith("mtp") else name


@dataclass(frozen=True)
class ModuleNames:
    """A list of names as ``modules_to_not_convert``, ``ignore`` or ``targets`` give it."""

    listed: tuple[str, ...]
    where: str = ""
    """For messages."""
    classes: frozenset[str] = field(default=frozenset())
    """Listed names that are layer classes (``Linear``): they mean every matrix."""
    exact: bool = False
    """Whether a name means that one matrix, not all inside the module it names."""

    @cached_property
    def _plain(self) -> frozenset[str]:
        return frozenset(name for text in self.listed for name in _expanded(text))

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(self._compiled(text) for text in self.listed if _is_pattern(text))

    def _compiled(self, text: str) -> re.Pattern[str]:
        if not text.startswith(_REGEX):
            whole = _inside(text)
            inner = f"{whole}.*"  # a name also stands for all matrices inside the module
            return re.compile(f"{fnmatch.translate(whole)}|{fnmatch.translate(inner)}")
        try:
            return re.compile(text.removeprefix(_REGEX))
        except re.error as error:
            raise FactsError(
                f"{self.where}: {text!r} is no regular expression: {error}.",
                "Correct the list of modules in the quantisation settings.",
            ) from None

    def __bool__(self) -> bool:
        """Whether anything is listed."""
        return bool(self.listed)

    def match(self, name: str) -> bool:
        """Return whether a matrix, such as ``layers.3.self_attn.q_proj``, is named."""
        if not self.listed:
            return False
        return self._is_plain(name) or any(self._fits(pattern, name) for pattern in self._patterns)

    def _is_plain(self, name: str) -> bool:
        if self.exact:
            return name in self._plain
        if len(self._plain) <= _FEW:  # quicker than taking the name apart
            whole = f".{name}."
            return any(f".{plain}." in whole for plain in self._plain)
        return any(piece in self._plain for piece in _pieces(name))

    @staticmethod
    def _fits(pattern: re.Pattern[str], name: str) -> bool:
        # the same matrix goes by several full names, depending on the wrapper around the LLM
        full = (name, f"model.{name}", f"language_model.model.{name}")
        return any(pattern.match(text) for text in full)


def _is_pattern(text: str) -> bool:
    return text.startswith(_REGEX) or any(sign in text for sign in "*?[")


def _expanded(text: str) -> Iterator[str]:
    if _is_pattern(text):
        return
    name = _inside(text).removesuffix(".weight")
    parent, _, last = name.rpartition(".")
    yield name
    for single in _FUSED.get(last, ()):
        yield f"{parent}.{single}" if parent else single


def _pieces(name: str) -> Iterator[str]:
    """Yield every run of whole words of a dotted name: a module is named by any of them."""
    words = name.split(".")
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            yield ".".join(words[start:end])


def module_names(listed: Iterable[str], where: str, *, exact: bool = False) -> ModuleNames:
    """Return a list of names, with the names of layer classes told apart."""
    names = tuple(listed)
    classes = frozenset(name for name in names if _CLASS.fullmatch(name))
    return ModuleNames(tuple(name for name in names if name not in classes), where, classes, exact)
