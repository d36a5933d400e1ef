"""What an LLM's layers keep of the tokens they have seen: the shape of the KV cache."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from capplan.schema.base import Value

BF16_BYTES = 2.0
"""Bytes of an element where no other KV dtype is asked for."""
FP8_BYTES = 1.0
"""Bytes of an element of an fp8 KV cache."""

_WRITTEN = re.compile(
    r"(?P<layers>\d+) (?P<kind>full|window|latent|state) "
    r"(?:(?P<heads>\d+)x(?P<elements>\d+)|(?P<state>\d+)B)"
    r"(?: last (?P<window>\d+))?(?: @(?P<element>[\d.]+)B)?"
)


class CacheKind(StrEnum):
    """How a layer's cache grows."""

    FULL = "full"
    """Keys and values of every token."""
    WINDOW = "window"
    """Keys and values of the last ``window`` tokens (sliding window, chunked attention)."""
    LATENT = "latent"
    """One compressed vector a token (multi-head latent attention), whole on every GPU."""
    STATE = "state"
    """A state of constant size a request (linear attention, state-space layers)."""


class CacheLayers(Value):
    """Layers of one LLM that cache alike.

    Written in models_db as ``18 full 8x128``, ``18 window 8x128 last 128``,
    ``61 latent 1x576`` or ``48 state 3211264B``: layers, kind, heads x elements a token (key and
    value together) or bytes a request; ``@1B`` fixes the bytes of an element for any KV dtype.
    """

    kind: CacheKind
    layers: int = Field(gt=0)
    heads: int = Field(default=1, gt=0)
    """KV heads; a tensor-parallel group splits them until each GPU holds one."""
    elements: int = Field(default=0, ge=0)
    """Elements a token, head and layer, key and value together."""
    window: int | None = Field(default=None, gt=0)
    state_bytes: float = Field(default=0.0, ge=0)
    """Bytes a request and layer, before tensor parallelism; of ``STATE`` layers only."""
    element_bytes: float | None = Field(default=None, gt=0)
    """Bytes of an element where the architecture fixes them; None follows the KV dtype."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.kind is CacheKind.WINDOW) != (self.window is not None):
            msg = f"a window belongs to kind 'window' and to no other, got {self.kind.value!r}"
            raise ValueError(msg)
        if (self.kind is CacheKind.STATE) != (self.state_bytes > 0):
            msg = f"state_bytes belong to kind 'state' and to no other, got {self.kind.value!r}"
            raise ValueError(msg)
        if (self.kind is CacheKind.STATE) != (self.elements == 0):
            msg = f"kind {self.kind.value!r} with {self.elements} elements a token"
            raise ValueError(msg)
        return self

    @property
    def grows(self) -> bool:
        """Whether every further token takes room, however long the context."""
        return self.kind in (CacheKind.FULL, CacheKind.LATENT)

    def bytes_per_token(self, kv_element_bytes: float = BF16_BYTES) -> float:
        """Return bytes of one token in all these layers, before tensor parallelism."""
        element = kv_element_bytes if self.element_bytes is None else self.element_bytes
        return self.layers * self.heads * self.elements * element

    @classmethod
    def parse(cls, text: str) -> tuple[CacheLayers, ...]:
        """Read groups joined by ``+``, as models_db writes them.

        Raises
        ------
        ValueError
            If a group is not written as the class describes.
        """
        return tuple(cls._parse_one(part.strip()) for part in text.split("+"))

    @classmethod
    def _parse_one(cls, text: str) -> CacheLayers:
        match = _WRITTEN.fullmatch(text)
        if match is None:
            msg = f"{text!r} is not a cache group such as '18 window 8x128 last 128'"
            raise ValueError(msg)
        found = match.groupdict()
        return cls(
            kind=CacheKind(found["kind"]),
            layers=int(found["layers"]),
            heads=int(found["heads"] or 1),
            elements=int(found["elements"] or 0),
            window=None if found["window"] is None else int(found["window"]),
            state_bytes=float(found["state"] or 0),
            element_bytes=None if found["element"] is None else float(found["element"]),
        )

    def __str__(self) -> str:
        """Write the group as :meth:`parse` reads it."""
        shape = f"{self.state_bytes:.0f}B" if self.state_bytes else f"{self.heads}x{self.elements}"
        window = "" if self.window is None else f" last {self.window}"
        element = "" if self.element_bytes is None else f" @{self.element_bytes:g}B"
        return f"{self.layers} {self.kind.value} {shape}{window}{element}"


def kv_bytes_per_token(cache: tuple[CacheLayers, ...]) -> float:
    """Return bf16 bytes that one more token takes for ever, before tensor parallelism.

    Windowed layers stop growing and are left out, unless every layer that keeps tokens is
    windowed: then it is what a token takes inside the window.
    """
    growing = [group for group in cache if group.grows]
    counted = growing or [group for group in cache if group.kind is CacheKind.WINDOW]
    return sum(group.bytes_per_token() for group in counted)


def state_bytes_per_request(cache: tuple[CacheLayers, ...]) -> float:
    """Return bytes that a request takes whatever its length: linear-attention states."""
    return sum(group.layers * group.state_bytes for group in cache)
