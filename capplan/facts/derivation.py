"""How an LLM's facts follow from its files, line by line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from capplan.schema.cache import CacheKind, CacheLayers

TENSOR_PARALLEL_SIZES = (1, 2, 4, 8)
_LONGEST_HOW = 160
"""Characters of a sum where lines are not wrapped; JSON has all of it."""
_NARROWEST = 24
"""Columns below which the sum goes under its figure."""


@dataclass(frozen=True)
class Line:
    """One quantity with the sum or the field behind it."""

    section: str
    """``parameters``, ``weights``, ``cache``, ``context`` or ``warning``."""
    quantity: str
    value: int | float | str | None
    unit: str
    how: str

    def as_record(self) -> dict[str, int | float | str | None]:
        """Return the line as JSON types, whole numbers as integers."""
        return {
            "section": self.section,
            "quantity": self.quantity,
            "value": whole(self.value) if isinstance(self.value, float) else self.value,
            "unit": self.unit,
            "how": self.how,
        }


def whole(value: float) -> int | float:
    """Return a number without a fraction as an integer."""
    return int(value) if float(value).is_integer() else value


def written(value: float | str | None) -> str:
    """Return a value for people."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    number = whole(value)
    return f"{number:,}" if isinstance(number, int) else f"{number:,.1f}"


def cache_lines(cache: Iterable[CacheLayers]) -> Iterator[Line]:
    """Yield what each group of layers keeps, then the sums a token, at each size of TP."""
    groups = tuple(cache)
    for group in groups:
        yield _group_line(group)
    if not groups:
        return
    windows = window_bytes_per_request(groups)
    if windows:
        how = "windowed layers, once their windows are full"
        yield Line("cache", "windows a request", windows, "B", how)
    for size in TENSOR_PARALLEL_SIZES:
        name = "KV a token and GPU" if size > 1 else "KV a token"
        value, how = _per_token(groups, size)
        yield Line("cache", f"{name}, TP {size}", value, "B", how)


def _group_line(group: CacheLayers) -> Line:
    if group.kind is CacheKind.STATE:
        how = f"{_layers(group)} x {written(group.state_bytes)} B, whatever the length"
        return Line("cache", "state a request", group.layers * group.state_bytes, "B", how)
    element = 2.0 if group.element_bytes is None else group.element_bytes
    what = f"{group.elements} (key and value) x {element:g} B"
    if group.kind is CacheKind.LATENT:
        how = f"{_layers(group)} x {group.elements} x {element:g} B"
    else:
        how = f"{_layers(group)} x {group.heads} KV heads x {what}"
    name = {
        CacheKind.FULL: "every token",
        CacheKind.WINDOW: f"last {written(group.window)} tokens",
        CacheKind.LATENT: "every token, latent",
    }[group.kind]
    return Line("cache", name, group.bytes_per_token(), "B", how)


def _layers(group: CacheLayers) -> str:
    return "1 layer" if group.layers == 1 else f"{group.layers} layers"


def _per_token(groups: Sequence[CacheLayers], size: int) -> tuple[float | None, str]:
    """Return bytes that each further token takes on one GPU of a group."""
    growing = [group for group in groups if group.grows]
    counted = growing or [group for group in groups if group.kind is CacheKind.WINDOW]
    what = "layers that grow" if growing else "inside the window"
    total = 0.0
    for group in counted:
        share = 1.0 if group.kind is CacheKind.LATENT else _share(group.heads, size)
        if share is None:
            return None, f"{group.heads} KV heads do not divide among {size} GPUs"
        total += group.bytes_per_token() * share
    fixed = all(group.element_bytes is not None for group in counted)
    what = f"as stored, {what}" if counted and fixed else f"bf16, {what}"
    if size > 1 and any(group.kind is CacheKind.LATENT for group in counted):
        return total, f"{what}; a latent cache is whole on every GPU"
    return total, what


def _share(heads: int, size: int) -> float | None:
    """Return the part of the KV heads that one GPU holds; at least one head."""
    if heads % size == 0:
        return 1 / size
    return 1 / heads if size % heads == 0 else None


def window_bytes_per_request(cache: Iterable[CacheLayers]) -> float:
    """Return bf16 bytes of a request's windowed layers once their windows are full."""
    return sum(
        group.bytes_per_token() * group.window for group in cache if group.window is not None
    )


def to_text(lines: Iterable[Line], width: int | None = None) -> str:
    """Return aligned lines: quantity, value with unit, how; what is to be known last.

    Parameters
    ----------
    width
        Columns to wrap to; None: long lines are cut instead, one line a quantity.
    """
    listed = tuple(lines)
    sections: dict[str, list[Line]] = {}
    for line in listed:
        if line.section != "warning":
            sections.setdefault(line.section, []).append(line)
    blocks = [[name, *_section(rows, width)] for name, rows in sections.items()]
    warnings = [line.how for line in listed if line.section == "warning"]
    if warnings:
        notes = (_wrapped(note, "  - " if width else "  ", "    ", width) for note in warnings)
        blocks.append(["to know", *notes])
    return "\n\n".join("\n".join(block) for block in blocks)


def _section(rows: Sequence[Line], width: int | None) -> Iterator[str]:
    """Yield one quantity a line, with columns as wide as this section needs."""
    values = [f"{written(row.value)} {row.unit}".rstrip() for row in rows]
    units = [len(row.unit) + 1 if row.unit else 0 for row in rows]
    # numbers end in one column, units stand behind it
    numbers = max(len(value) - unit for value, unit in zip(values, units, strict=True))
    names, behind = max(len(row.quantity) for row in rows), max(units)
    for row, value, unit in zip(rows, values, units, strict=True):
        padded = value.rjust(numbers + unit).ljust(numbers + behind)
        start = f"  {row.quantity.ljust(names)}  {padded}  "
        yield _wrapped(row.how, start, " " * len(start), width)


def _wrapped(text: str, start: str, following: str, width: int | None) -> str:
    if width is None:
        cut = text if len(text) <= _LONGEST_HOW else f"{text[: _LONGEST_HOW - 4]} ..."
        return f"{start}{cut}".rstrip()
    if not text:
        return start.rstrip()
    if width - len(start) < _NARROWEST:  # no room beside the figures: below them
        return "\n".join((start.rstrip(), _wrapped(text, "      ", "      ", width)))
    found = textwrap.wrap(text, width, initial_indent=start, subsequent_indent=following)
    return "\n".join(found)
