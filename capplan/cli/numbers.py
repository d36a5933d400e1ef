"""Numbers with units, as people type them."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

import click
from pydantic import ValidationError

from capplan.economics.bill import LARGEST_BILL_USD, LONGEST_MONTH_HOURS
from capplan.schema.price import ApiPrice
from capplan.schema.provenance import Kind, Source

UNITS_MS = {"ms": 1.0, "s": 1000.0, "": 1.0}
UNITS_USD = {"": 1.0, "k": 1e3, "m": 1e6}
UNITS_COUNT = {**UNITS_USD, "b": 1e9, "t": 1e12}
UNITS_PER_S = {"": 1.0, "/s": 1.0, "/m": 1 / 60, "/min": 1 / 60, "/h": 1 / 3600, "/day": 1 / 86400}
UNITS_THROUGHPUT = {"": 1.0, "k": 1e3, "m": 1e6, "/s": 1.0, "tokens/s": 1.0, "tok/s": 1.0}

_NUMBER = re.compile(r"\s*([-+0-9.,_eE]+|[-+]?nan|[-+]?inf)\s*([a-z/]*)\s*")
_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_CURRENCY = re.compile(r"[€£¥₹]|\b[a-z]{1,2}\$|(\b|(?<=\d))(eur|gbp|jpy|cny|inr|chf|cad|aud)\b")
_DECIMAL_COMMA = re.compile(r"=[^,=]*\d,\d")
_DOLLARS = re.compile(r"^(us)?\$\s*|^usd\s*|\s*(us)?\$$|\s*usd$")


class Number(click.ParamType[float]):
    """A positive finite number, with a unit if the parameter has units."""

    def __init__(
        self,
        name: str,
        units: dict[str, float] | None = None,
        *,
        least: float = 0.0,
        most: float = math.inf,
    ) -> None:
        self.name = name
        self._units = units or {"": 1.0}
        self._least, self._most = least, most
        """Less or more is a slip of the unit."""

    def convert(
        self,
        value: Any,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Parse ``40``, ``40ms``, ``0.04s``, ``6/s`` ..."""
        if isinstance(value, float | int):
            return float(value)
        match = _NUMBER.fullmatch(self._bare(value.strip().lower()))
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
        if not self._least <= number <= self._most:
            asked = f"expected {self._least:.0e} to {self._most:.0e}"
            self.fail(f"{value!r}: {asked}; is its unit right?", param, ctx)
        return number

    def _bare(self, text: str) -> str:
        """Return what is left when signs that change nothing are taken off."""
        return text


class Usd(Number):
    """An amount of US dollars: ``20000``, ``20k``, ``$20,000``, ``20,000 USD``."""

    def __init__(
        self, name: str, units: dict[str, float] | None = None, *, per: tuple[str, ...] = ()
    ) -> None:
        super().__init__(name, units, least=1e-9, most=float(LARGEST_BILL_USD))
        self._per = per
        """Ways to write the time that the parameter's own name states."""

    def _bare(self, text: str) -> str:
        for suffix in self._per:
            text = text.removesuffix(suffix).strip()
        return _DOLLARS.sub("", text)


USD = Usd("dollar amount", UNITS_USD)
USD_A_MONTH = Usd("dollar amount", UNITS_USD, per=("/month", "/mo", "a month", "per month"))
USD_AN_HOUR = Usd("price", per=("/hour", "/hr", "/h", "an hour", "per hour"))
TOKENS = Number("token count", UNITS_COUNT, least=1, most=1e18)
THROUGHPUT = Number("throughput", UNITS_THROUGHPUT)
RATE = Number("rate", UNITS_PER_S, least=1e-9, most=1e9)


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
        return key, USD_AN_HOUR.convert(usd, param, ctx)


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

    def __init__(self, *, above_zero: bool = False, below_one: bool = False) -> None:
        self._above_zero, self._below_one = above_zero, below_one

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
        if self._below_one and share == 1:
            self.fail(f"{value!r} must be below 1 (100%)", param, ctx)
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
        if _DECIMAL_COMMA.search(str(value)):
            self.fail(f"{value!r}: write in=0.10, not in=0,10", param, ctx)
        parts = [part.strip().partition("=")[::2] for part in str(value).split(",")]
        cells = {name.strip(): _DOLLARS.sub("", usd.strip().lower()) for name, usd in parts}
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
