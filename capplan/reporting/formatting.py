"""Numbers as people read them; the only place where a figure becomes text.

Every function is pure and returns ASCII digits, so that the terminal and the page agree.
An interval is written ``mid unit (low-high)``; all three carry the decimals that fit ``mid``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal

from capplan.schema.quantity import Quantity
from capplan.units import BYTES_PER_GB, MS_PER_S

_THREE_FIGURES = 3
_CENT = Decimal("0.01")
_MAX_DECIMALS = 8
_SECONDS_FROM_MS = 1000.0
_WITHOUT_CENTS = 1e15
"""From here on a float holds no cents, and a Decimal of usual precision soon none either."""
_SHOWS_AS_WHOLE, _WHOLE = 99.5, 100.0
"""Per cent; from the first on a share without decimals is rounded up to the second."""
_WIDE_RATIO = 10.0
"""From this factor between the ends of an interval on, each end gets its own precision."""


def decimals(value: float, figures: int = _THREE_FIGURES) -> int:
    """Return the decimals that show ``value`` with so many significant figures, at least 0."""
    if value == 0 or not math.isfinite(value):
        return 0
    return min(_MAX_DECIMALS, max(0, figures - 1 - math.floor(math.log10(abs(value)))))


def number(value: float, figures: int = _THREE_FIGURES) -> str:
    """Return a number with separators between thousands: ``11,651``, ``46.2``, ``0.0042``."""
    return f"{value:,.{decimals(value, figures)}f}"


def count(value: int) -> str:
    """Return a count: ``1,024``."""
    return f"{value:,}"


def cents(value: Decimal) -> str:
    """Return an exact amount to the cent, halves up: lines that add up still do so shown."""
    return f"{value.quantize(_CENT, rounding=ROUND_HALF_UP):,}"


def money_decimals(value: float) -> int:
    """Return cents below 1,000 dollars, none above, and more for fractions of a cent."""
    if abs(value) >= 1000:
        return 0
    return max(2, decimals(value, 2)) if value else 2


def usd(value: float | Decimal) -> str:
    """Return dollars without the unit: ``11,651``, ``1.87``, ``0.0042``."""
    places = money_decimals(float(value))
    return f"{_half_up(value, places):,.{places}f}"


def _half_up(value: float | Decimal, places: int) -> float:
    """Round the number as it prints, halves up: 988.785 is 988.79, as on the bill."""
    if abs(float(value)) >= _WITHOUT_CENTS:
        return float(value)
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    return float(exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP))


def usd_unit(value: float | Decimal) -> str:
    """Return dollars with the unit: ``1.87 USD``."""
    return f"{usd(value)} USD"


def percent(fraction: float) -> str:
    """Return a fraction as per cent: ``46 %``, ``0.4 %``; ``99.95 %`` is never ``100 %``."""
    value = fraction * 100
    return f"{_below_whole(value, _percent_decimals(value))} %"


def fine_percent(share: float, figures: int = _THREE_FIGURES) -> str:
    """Return ``4.45 %``, ``60 %``: fine enough that a figure divided by it is the one shown."""
    value = share * 100
    text = _below_whole(value, decimals(value, figures))
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def factor(value: float) -> str:
    """Return a speedup: ``1.43x``."""
    return f"{value:.2f}x"


def milliseconds(value_ms: float) -> str:
    """Return a latency, in seconds from one second on: ``17 ms``, ``6.4 ms``, ``1.3 s``."""
    if value_ms >= _SECONDS_FROM_MS:
        seconds = value_ms / MS_PER_S
        return f"{seconds:,.{decimals(seconds, 2)}f} s"
    return f"{value_ms:.{decimals(value_ms, 2)}f} ms"


def tokens_per_s(value: float) -> str:
    """Return a throughput: ``2,410 tokens/s``."""
    return f"{number(value)} tokens/s"


def gigabytes(value_bytes: float) -> str:
    """Return decimal gigabytes, the unit of data sheets: ``65.5 GB``."""
    return f"{number(value_bytes / BYTES_PER_GB)} GB"


def usd_interval(value: Quantity) -> str:
    """Return ``1.87 USD (1.71-2.06)``."""
    places = money_decimals(value.mid)
    low, mid, high = (_half_up(end, places) for end in (value.low, value.mid, value.high))
    spread = value if _is_wide(value) else Quantity(low=low, mid=mid, high=high)
    return _interval(spread.model_copy(update={"mid": mid}), places, " USD")


def factor_interval(value: Quantity) -> str:
    """Return ``1.43x (1.31-1.56)``."""
    return _interval(value, 2, "x")


def number_interval(value: Quantity, figures: int = _THREE_FIGURES) -> str:
    """Return ``2.75 (2.61-2.89)``; the caller names the unit."""
    return _interval(value, decimals(value.mid, figures), "")


def tokens_per_s_interval(value: Quantity) -> str:
    """Return ``2,410 tokens/s (2,200-2,640)``."""
    return _interval(value, decimals(value.mid), " tokens/s")


def milliseconds_interval(value_ms: Quantity) -> str:
    """Return ``17 ms (14-21)``, in seconds where the middle is one second or more."""
    if value_ms.mid >= _SECONDS_FROM_MS:
        seconds = value_ms.scaled(1 / MS_PER_S)
        return _interval(seconds, decimals(seconds.mid, 2), " s")
    return _interval(value_ms, decimals(value_ms.mid, 2), " ms")


def percent_interval(fraction: Quantity) -> str:
    """Return ``23 % (15-30 %)``."""
    value = fraction.scaled(100.0)
    places = _percent_decimals(value.mid)
    wide = _is_wide(value)
    ends = _joined(value, lambda end: _below_whole(end, decimals(end, 2) if wide else places))
    middle = percent(fraction.mid)
    return f"{middle} ({ends} %)" if ends else middle


def _percent_decimals(value: float) -> int:
    return 1 if 0 < abs(value) < 1 else 0


def _interval(value: Quantity, places: int, unit: str) -> str:
    middle = f"{value.mid:,.{places}f}{unit}"
    ends = _ends(value, places)
    return f"{middle} ({ends})" if ends else middle


def _ends(value: Quantity, places: int) -> str:
    """Return ``low-high``; empty where the spread does not show at this precision."""
    return _joined(value, _own_precision if _is_wide(value) else _same_precision(places))


def _joined(value: Quantity, show: Callable[[float], str]) -> str:
    low, high = show(value.low), show(value.high)
    if low == high:
        return ""
    joint = " to " if value.low < 0 else "-"
    return f"{low}{joint}{high}"


def _is_wide(value: Quantity) -> bool:
    return value.low > 0 and value.high / value.low > _WIDE_RATIO


def _own_precision(value: float) -> str:
    return f"{value:,.{decimals(value, 2)}f}"


def _same_precision(places: int) -> Callable[[float], str]:
    return lambda value: _no_minus_zero(value, places)


def _no_minus_zero(value: float, places: int) -> str:
    text = f"{value:,.{places}f}"
    return text.removeprefix("-") if not text.strip("-0.,") else text


def _below_whole(value: float, places: int) -> str:
    """Return per cent; what is less than the whole gets the decimals that say so.

    What eight decimals do not tell from the whole is the rounding of a sum, and the whole.
    """
    if not _SHOWS_AS_WHOLE <= abs(value) < _WHOLE:
        return _no_minus_zero(value, places)
    shown = (f"{value:.{more}f}" for more in range(places, _MAX_DECIMALS + 1))
    below = (text for text in shown if abs(float(text)) < _WHOLE)
    return next(below, f"{value:.0f}")


def printable(text: str) -> str:
    """Drop control characters: a name from a file must not drive the terminal."""
    return "".join(char for char in text if char == "\n" or char.isprintable())
