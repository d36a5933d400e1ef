"""A reported GPU name to its words: chip, memory, form factor, brand. No catalogue is needed."""

from __future__ import annotations

import re
from dataclasses import dataclass

VENDORS = frozenset({"nvidia", "amd"})
BRANDS = frozenset({"geforce", "tesla", "instinct", "quadro"})
"""Product lines: a name may leave them out, but not carry one that is not the board's."""

_FILLERS = frozenset({"gpu", "gpus", "tensor", "core", "corporation", "nvlink"})
_SEPARATORS = re.compile(r"[\s_\-/,;()]+|[®™]")
_COUNT_FIRST = re.compile(r"^\s*(\d{1,3})(?:\s*[x\u00d7*]\s*|\s+(?!gi?b\b))(?=[a-z])")
_COUNT_LAST = re.compile(
    r"(?:[\s_\-(]+x\s*|:|\s*[\u00d7*]\s*|(?<=\d)x|(?<=\d[a-z])x)(\d{1,2})\)?\s*$"
    r"|[\s(]+(\d{1,2})[x\u00d7]\)?\s*$"
)
_GLUED = (
    (re.compile(r"\bq ?(?=rtx)"), "quadro "),
    (re.compile(r"\b(rtx|gtx)(?=\d|a\d|pro)"), r"\1 "),
    (re.compile(r"\bmaxq\b"), "max q"),
    (re.compile(r"\bpro(?=\d{4})"), "pro "),
    (re.compile(r"(\d{4})(ti|super|ada|d)\b"), r"\1 \2"),
    (re.compile(r"\b([a-z]{1,2}\d{2,3}[a-z]?)(sxm\d?|pcie|nvl|oam)\b"), r"\1 \2"),
    (re.compile(r"\b(\d{1,5}) (gb|gib)\b"), r"\1\2"),
)
_REPORTED = re.compile(
    r"(?:[\s,;|(]+(?P<mib>\d{4,6})\s*mi?b\)?|,\s*(?P<bare>\d{4,6}))\s*$", re.IGNORECASE
)
_DOTS = re.compile(r"\s*(?:\.\.\.|\u2026)\s*$")
_MEMORY = re.compile(r"(\d{1,5})(?:gb|gib|g)")
_MEMORY_TYPE = re.compile(r"(?:hbm|gddr)\d?[a-z]?")
_FORM = re.compile(r"sxm\d?|pcie|nvl\d*|oam|hgx|superchip")


@dataclass(frozen=True)
class Words:
    """What the words of a name say."""

    count: int
    chip: tuple[str, ...]
    """What is left: the chip's own words, and any word that nobody knows."""
    memory_gb: tuple[int, ...]
    forms: tuple[str, ...]
    memory_types: tuple[str, ...]
    vendors: frozenset[str]
    brands: frozenset[str]


def tokens(name: str) -> tuple[str, ...]:
    """Return the words in lower case, glued ones taken apart (``RTX4090``, ``H100NVL``)."""
    text = " ".join(filter(None, _SEPARATORS.split(name.lower())))
    for pattern, apart in _GLUED:
        text = pattern.sub(apart, text)
    return tuple(text.split())


def take_count(name: str) -> tuple[int, str]:
    """Split ``8x A100``, ``A100 x8``, ``a100x8`` or ``A100:8`` into a count and the name."""
    lowered = name.lower()
    for pattern in (_COUNT_FIRST, _COUNT_LAST):
        found = pattern.search(lowered)
        count = int(next(filter(None, found.groups()))) if found else 0
        if found and count:
            return count, f"{lowered[: found.start()]} {lowered[found.end() :]}".strip()
    return 1, lowered


def take_memory(name: str) -> tuple[str, float | None]:
    """Split the memory in MiB off a line of ``nvidia-smi --query-gpu=name,memory.total``."""
    found = _REPORTED.search(name)
    if found is None:
        return name, None
    return name[: found.start()], float(found["mib"] or found["bare"])


def cut_off(name: str) -> tuple[str, ...] | None:
    """Return the words of a name that ends in dots, as tables of nvidia-smi print long ones."""
    found = _DOTS.search(name)
    return tokens(name[: found.start()]) if found else None


def _form(word: str) -> str:
    """Return the form factor that a word names; HGX boards carry SXM modules."""
    return "sxm" if word == "hgx" else "nvl" if word.startswith("nvl") else word


def read_words(name: str) -> Words:
    """Sort the words of a name by what they say."""
    count, rest = take_count(name)
    words = [word for word in tokens(rest) if word not in _FILLERS]
    memory = [word for word in words if _MEMORY.fullmatch(word)]
    forms = [word for word in words if _FORM.fullmatch(word)]
    types = [word for word in words if _MEMORY_TYPE.fullmatch(word)]
    known = {*memory, *forms, *types, *VENDORS, *BRANDS}
    return Words(
        count=count,
        chip=tuple(word for word in words if word not in known),
        memory_gb=tuple(int(word.rstrip("gib")) for word in memory),
        forms=tuple(_form(word) for word in forms),
        memory_types=tuple(types),
        vendors=VENDORS.intersection(words),
        brands=BRANDS.intersection(words),
    )
