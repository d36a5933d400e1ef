"""Dollars a million tokens, never without saying which tokens share the bill."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from capplan.economics.decimals import MILLION, Number, exact, positive
from capplan.errors import RequestError
from capplan.units import SECONDS_PER_HOUR

_SECONDS_PER_HOUR = exact(SECONDS_PER_HOUR)
UTILISATIONS = tuple(Decimal(tenth) / 10 for tenth in range(1, 11))


@dataclass(frozen=True)
class TokenPrices:
    """One bill over the tokens of the same hour, by what it is divided.

    The first three each carry the WHOLE bill; adding any two of them charges it twice. The
    last two share one bill, and ``tokens in * one + tokens out * other`` is that bill.
    """

    usd_per_million_output: Decimal
    """The whole bill over the output tokens: prompts come free."""
    usd_per_million_input: Decimal | None
    """The whole bill over the prompt tokens: answers come free; None without prompts."""
    usd_per_million_total: Decimal
    """The whole bill over prompt and output tokens alike."""
    split_usd_per_million_input: Decimal | None = None
    """The prompt's share of the bill over the prompt tokens."""
    split_usd_per_million_output: Decimal | None = None
    """The rest of the bill over the output tokens."""


def usd_per_million_tokens(
    usd_per_hour: Number, tokens_per_s: Number, utilisation: Number = 1
) -> Decimal:
    """Return dollars a million tokens.

    ``price / (tokens a second * 3600 * utilisation) * 1e6``: an hour is paid for in full and
    used in part.

    Parameters
    ----------
    usd_per_hour
        Price of an hour of all the GPUs.
    tokens_per_s
        What they make when busy. Which tokens are counted is the caller's to say.
    utilisation
        Share of that which is really asked for, above 0 and at most 1.

    Raises
    ------
    RequestError
        If a figure is not positive or the utilisation exceeds 1.
    """
    used = positive(utilisation, "Utilisation")
    if used > 1:
        raise RequestError(f"Utilisation is {utilisation}, expected a share of at most 1.")
    tokens_per_hour = positive(tokens_per_s, "Tokens a second") * _SECONDS_PER_HOUR * used
    return positive(usd_per_hour, "The price of an hour") / tokens_per_hour * MILLION


def token_prices(
    usd_per_hour: Number,
    *,
    output_tokens_per_s: Number,
    input_tokens_per_s: Number = 0,
    utilisation: Number = 1,
    input_share: Number | None = None,
) -> TokenPrices:
    """Return the price of tokens by every denominator, each labelled.

    Parameters
    ----------
    usd_per_hour
        Price of an hour of all the GPUs.
    output_tokens_per_s, input_tokens_per_s
        Of the same run, when busy.
    utilisation
        Share of the run's throughput that is really asked for.
    input_share
        Share of the bill that is put down to the prompts (for example prefill's share of the
        GPU time); None: the bill is not split.

    Raises
    ------
    RequestError
        If a figure is out of its range.
    """
    tokens_in, tokens_out = exact(input_tokens_per_s), exact(output_tokens_per_s)
    if not tokens_in.is_finite() or tokens_in < 0:
        raise RequestError(f"Input tokens a second are {input_tokens_per_s}, expected >= 0.")
    share = None if input_share is None else exact(input_share)
    if share is not None and not (0 <= share <= 1 and (tokens_in or not share)):
        raise RequestError(
            f"The prompts' share of the bill is {input_share}, expected 0 to 1, and 0 if there "
            "are no prompts."
        )

    usd = positive(usd_per_hour, "The price of an hour")

    def price(part: Decimal, tokens: Decimal) -> Decimal | None:
        """Return a share of the bill over some of the tokens; nothing without such tokens."""
        return part * usd_per_million_tokens(usd, tokens, utilisation) if tokens else None

    whole = Decimal(1)
    return TokenPrices(
        usd_per_million_output=usd_per_million_tokens(usd, tokens_out, utilisation),
        usd_per_million_input=price(whole, tokens_in),
        usd_per_million_total=usd_per_million_tokens(usd, tokens_in + tokens_out, utilisation),
        split_usd_per_million_input=None if share is None else price(share, tokens_in),
        split_usd_per_million_output=(None if share is None else price(1 - share, tokens_out)),
    )


def utilisation_curve(
    usd_per_hour: Number, tokens_per_s: Number, utilisations: tuple[Decimal, ...] = UTILISATIONS
) -> tuple[tuple[Decimal, Decimal], ...]:
    """Return (utilisation, dollars a million tokens) with the bill held as it is."""
    return tuple(
        (used, usd_per_million_tokens(usd_per_hour, tokens_per_s, used)) for used in utilisations
    )
