"""Numbers with units, as people type them."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

import click
from pydantic import ValidationError

from capplan.economics.bill import LONGEST_MONTH_HOURS
from capplan.schema.price import ApiPrice
from capplan.schema.provenance import Kind, Source

UNITS_MS = {"ms": 1.0, "s": 1000.0, "": 1.0}
UNITS_USD = {"": 1.0, "k": 1e3, "m": 1e6}
UNITS_COUNT = {**UNITS_USD, "b": 1e9}
UNITS_PER_S = {"": 1.0, "/s": 1.0, "/m": 1 / 60, "/min": 1 / 60, "/h": 1 / 3600}

_NUMBER = re.compile(r"\s*([-+0-9.,_eE]+|[-+]?nan|[-+]?inf)\s*([a-z/]*)\s*")
_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_CURRENCY = re.compile(r"[€£¥]|\b(eur|gbp|jpy|cny|inr|chf)\b|(?<=\d)(eur|gbp|jpy|cny|inr|chf)\b")


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
        match = _NUMBER.fullmatch(value.lower())
        known = ", ".join(unit for unit in self._units if unit)
        if match is None or match[2] not in self._units:
            hint = f" (units: {known})" if known else ""
            if _CURRENCY.search(value.lower()):
                hint = ": amounts are in USD; convert it first"
            self.fail(f"{value!r} is not a {self.name}{hint}", param, ctx)
        if "," in match[1] and not _GROUPED.fullmatch(match[1]):
            # 2,49 read as 249 would be a hundred times the price
            self.fail(f"{value!r}: write 2.49, not 2,49; a comma sets thousands apart", param, ctx)
        try:
            number = float(match[1].replace(",", "").replace("_", "")) * self._units[match[2]]
        except ValueError:
            self.fail(f"{value!r} is not a {self.name}", param, ctx)
        if not math.isfinite(number) or number <= 0:
            self.fail(f"{value!r} must be a positive, finite {self.name}", param, ctx)
        return number


class TokenCount(click.ParamType[int]):
    """A count of tokens as vLLM's own options take it: ``32768``, ``32k`` (32,000), ``32K``."""

    name = "tokens"
    _UNITS: ClassVar[dict[str, int]] = {"": 1, "k": 1000, "m": 1000**2, "K": 1024, "M": 1024**2}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse; lower-case units are decimal, upper-case ones binary."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", str(value).strip().replace(",", ""))
        count = float(match[1]) * self._UNITS[match[2]] if match is not None else 0.0
        if count < 1 or not count.is_integer():
            self.fail(f"{value!r} is not a count of tokens such as 32768, 32k or 32K", param, ctx)
        return int(count)


class MonthHours(Number):
    """Hours of one month: no month has more than 744."""

    def __init__(self) -> None:
        super().__init__("number of hours")

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse, and refuse the hours of a year."""
        hours = super().convert(value, param, ctx)
        if hours > LONGEST_MONTH_HOURS:
            self.fail(
                f"{value!r} is more than the {LONGEST_MONTH_HOURS} hours of the longest month; "
                "count machines with --nodes",
                param,
                ctx,
            )
        return hours


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


class Ratio(click.ParamType[Decimal]):
    """So many of one to one of another: ``3`` or ``3:1``; zero is an answer."""

    name = "ratio"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Decimal:
        """Parse exactly."""
        if isinstance(value, Decimal):
            return value
        first, colon, second = str(value).partition(":")
        try:
            ratio = Decimal(first.strip()) / (Decimal(second.strip()) if colon else 1)
        except ArithmeticError:
            self.fail(f"{value!r} is not a ratio, such as 3 or 3:1", param, ctx)
        if not ratio.is_finite() or ratio < 0:
            self.fail(f"{value!r} is not a ratio of 0 or more", param, ctx)
        return ratio


class Share(click.ParamType[Decimal]):
    """A share of a whole: ``0.3`` or ``30%``."""

    name = "share"

    def __init__(self, *, above_zero: bool = False) -> None:
        self._above_zero = above_zero

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
            self.fail(f"{value!r} is not between 0 and 1 (or 0% and 100%)", param, ctx)
        if self._above_zero and not share:
            self.fail(f"{value!r} must be above 0", param, ctx)
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
        parts = [part.strip().partition("=")[::2] for part in str(value).split(",")]
        cells = dict(parts)
        if len(cells) < len(parts) or not {"in", "out"} <= set(cells) <= set(self._FIELDS):
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
