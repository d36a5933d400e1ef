"""How an LLM's facts follow from its files, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from capplan.schema.cache import CacheKind, CacheLayers

TENSOR_PARALLEL_SIZES = (1, 2, 4, 8)
_LONGEST_HOW = 160
"""Characters of a sum on the terminal; JSON has all of it."""


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
        name = "KV bytes a token and GPU" if size > 1 else "KV bytes a token"
        value, how = _per_token(groups, size)
        yield Line("cache", f"{name}, TP {size}", value, "B", how)


def _group_line(group: CacheLayers) -> Line:
    if group.kind is CacheKind.STATE:
        how = f"{group.layers} layers x {written(group.state_bytes)} B, whatever the length"
        return Line("cache", "state a request", group.layers * group.state_bytes, "B", how)
    element = 2.0 if group.element_bytes is None else group.element_bytes
    what = f"{group.elements} (key and value) x {element:g} B"
    if group.kind is CacheKind.LATENT:
        how = f"{group.layers} layers x {group.elements} x {element:g} B"
    else:
        how = f"{group.layers} layers x {group.heads} KV heads x {what}"
    name = {
        CacheKind.FULL: "every token",
        CacheKind.WINDOW: f"last {written(group.window)} tokens",
        CacheKind.LATENT: "every token, latent",
    }[group.kind]
    return Line("cache", name, group.bytes_per_token(), "B a token", how)


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
    if size > 1 and any(group.kind is CacheKind.LATENT for group in counted):
        return total, f"bf16, {what}; a latent cache is whole on every GPU"
    return total, f"bf16, {what}"


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


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_HOW else f"{text[: _LONGEST_HOW - 4]} ..."


def to_text(lines: Iterable[Line]) -> str:
    """Return aligned lines: quantity, value with unit, how; warnings last."""
    listed = tuple(lines)
    warnings = [line for line in listed if line.section == "warning"]
    plain = [line for line in listed if line.section != "warning"]
    names = max((len(line.quantity) for line in plain), default=0)
    values = max((len(written(line.value)) for line in plain), default=0)
    units = max((len(line.unit) for line in plain), default=0)
    text: list[str] = []
    section = ""
    for line in plain:
        if line.section != section:
            text += ["", line.section] if text else [line.section]
            section = line.section
        columns = (
            line.quantity.ljust(names),
            written(line.value).rjust(values),
            line.unit.ljust(units),
        )
        text.append(f"  {'  '.join(columns)}  {_shortened(line.how)}".rstrip())
    if warnings:
        text += ["", "to know", *(f"  {line.how}" for line in warnings)]
    return "\n".join(text)
