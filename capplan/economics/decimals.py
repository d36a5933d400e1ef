"""Money in Decimal: amounts add up to the last digit, whatever the order."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from capplan.errors import RequestError

CENT = Decimal("0.01")
_FINEST = Decimal("0.00000001")
_FINE_BELOW = Decimal(10_000_000)
_TOO_LARGE = Decimal("1e24")
"""Up to here the 28 digits of an amount hold a cent."""
_WITHOUT_CENTS = Decimal("1e15")
MILLION = Decimal(1_000_000)

Number = Decimal | int | float | str
"""What people write down as an amount; a float counts as the decimal number it prints as."""


def exact(value: Number) -> Decimal:
    """Return the decimal number that ``value`` prints as: 0.1 is one tenth.

    Raises
    ------
    RequestError
        If a text is no number.
    """
    if isinstance(value, Decimal):
        return value
    try:
        # repr of a float is the shortest text that reads back as it
        return Decimal(repr(float(value)) if isinstance(value, float) else str(value))
    except InvalidOperation:
        raise RequestError(f"{value!r} is not a number.") from None


def positive(value: Number, what: str) -> Decimal:
    """Return a finite positive amount.

    Raises
    ------
    RequestError
        If it is not; the message names ``what``.
    """
    amount = exact(value)
    if not amount.is_finite() or amount <= 0:
        raise RequestError(f"{what} is {value}, expected a finite number above 0.")
    return amount


def to_cents(usd: Decimal) -> Decimal:
    """Round to the cent, halves up, as invoices do."""
    return usd.quantize(CENT, rounding=ROUND_HALF_UP)


def without_noise(usd: float) -> float:
    """Return an amount reckoned in floats as it is meant: 10709.099999999999 is 10709.1."""
    return float(to_storable(exact(usd)))


def dollars(usd: Number) -> str:
    """Return an amount to the cent, whole ones without: ``664.30``, ``3,000``.

    For what has to be paid: 664 named as the price of 664.30 is a budget that buys nothing.
    """
    amount = exact(usd)
    if abs(amount) >= _WITHOUT_CENTS:
        return f"{amount:.3g}"
    return f"{to_cents(amount):,}".removesuffix(".00")


def to_storable(amount: Decimal) -> Decimal:
    """Round where a JSON number could not hold the amount: far below a cent or a token.

    Ten million dollars with eight decimals have 15 significant digits, the most that any
    reader of JSON keeps.

    Raises
    ------
    RequestError
        If the amount is not finite, or too large to hold a cent.
    """
    if not abs(amount) < _TOO_LARGE:
        raise RequestError(
            f"{amount:.3e} is no amount to reckon with, expected less than {_TOO_LARGE:.0e}.",
            "Look for a wrong unit among the figures.",
        )
    finest = _FINEST if abs(amount) < _FINE_BELOW else CENT
    return amount.quantize(finest, rounding=ROUND_HALF_UP).normalize() + 0
