"""Numbers with units, as people type them."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

import click
from pydantic import ValidationError

from capplan.schema.price import ApiPrice
from capplan.schema.provenance import Kind, Source

UNITS_MS = {"ms": 1.0, "s": 1000.0, "": 1.0}
UNITS_PER_S = {"": 1.0, "/s": 1.0, "/m": 1 / 60, "/min": 1 / 60, "/h": 1 / 3600}


class Number(click.ParamType[float]):
    """A positive finite number, with a unit if the parameter has units."""

    def __init__(self, name: str, units: dict[str, float] | None = None) -> None:
        self.name = name
        self._units = units or {"": 1.0}

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Parse ``40``, ``40ms``, ``0.04s``, ``6/s`` ..."""
        if isinstance(value, float | int):
            return float(value)
        match = re.fullmatch(r"\s*([-+0-9.,_eE]+|[-+]?nan|[-+]?inf)\s*([a-z/]*)\s*", value.lower())
        known = ", ".join(unit for unit in self._units if unit)
        if match is None or match[2] not in self._units:
            hint = f" (units: {known})" if known else ""
            self.fail(f"{value!r} is not a {self.name}{hint}", param, ctx)
        try:
            number = float(match[1].replace(",", "").replace("_", "")) * self._units[match[2]]
        except ValueError:
            self.fail(f"{value!r} is not a {self.name}", param, ctx)
        if not math.isfinite(number) or number <= 0:
            self.fail(f"{value!r} must be a positive, finite {self.name}", param, ctx)
        return number


class GpuPrice(click.ParamType[tuple[str, float]]):
    """``gpu=usd_per_hour``."""

    name = "gpu=usd"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Split at the last equals sign."""
        key, equals, usd = str(value).rpartition("=")
        if not equals or not key:
            self.fail(
                f"{value!r}: expected GPU=USD_PER_HOUR, as in h100-sxm-80gb=2.49", param, ctx
            )
        return key, Number("price").convert(usd, param, ctx)


class Share(click.ParamType[Decimal]):
    """A share of a whole: ``0.3`` or ``30%``."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Decimal:
        """Parse exactly: 0.3 is three tenths."""
        if isinstance(value, Decimal):
            return value
        text = str(value).strip()
        try:
            number = Decimal(text.removesuffix("%").strip())
        except InvalidOperation:
            self.fail(f"{value!r} is not a share, such as 0.3 or 30%", param, ctx)
        share = number / 100 if text.endswith("%") else number
        if not (share.is_finite() and 0 <= share <= 1):
            self.fail(f"{value!r} is not between 0 and 1", param, ctx)
        return share


class ApiPriceText(click.ParamType[ApiPrice]):
    """``in=0.10,out=0.40,cached=0.02``: dollars a million tokens."""

    name = "prices"
    _FIELDS: ClassVar[dict[str, str]] = {
        "in": "input_usd_per_million_tokens",
        "out": "output_usd_per_million_tokens",
        "cached": "cached_input_usd_per_million_tokens",
    }

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> ApiPrice:
        """Parse exactly."""
        if isinstance(value, ApiPrice):
            return value
        cells = dict(part.strip().partition("=")[::2] for part in str(value).split(","))
        if not {"in", "out"} <= set(cells) <= set(self._FIELDS):
            self.fail(f"{value!r}: expected in=USD,out=USD[,cached=USD]", param, ctx)
        try:
            return ApiPrice(
                model="as stated",
                family="other",
                provider="own",
                tiered=False,
                source=Source(
                    kind=Kind.ASSUMED, reference="stated with the request (--api-price)"
                ),
                **{self._FIELDS[name]: Decimal(text) for name, text in cells.items()},
            )
        except (InvalidOperation, ValidationError):
            self.fail(f"{value!r}: expected prices of 0 or more", param, ctx)
