"""What a GPU costs an hour, where, since when; and what a month of it comes to."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, PlainSerializer, model_validator

from capplan.schema.base import Value
from capplan.schema.provenance import Source
from capplan.units import HOURS_PER_MONTH


def _as_float(amount: Decimal) -> float:
    # pydantic reads the signature, and that of a builtin is a text that it parses every time
    return float(amount)


Exact = Annotated[Decimal, PlainSerializer(_as_float, return_type=float, when_used="json")]
"""An amount that adds up to the last digit: parsed from its text, a plain number in JSON.

Up to 15 significant digits survive the way through JSON unchanged.
"""


STALE_AFTER_DAYS = 60
"""Age from which a price is warned about: GPU prices move by tens of per cent a year."""


def age_days(source: Source, today: date) -> int | None:
    """Return how long ago a price was read; None where its source has no day."""
    try:
        return (today - date.fromisoformat(source.date or "")).days
    except ValueError:
        return None


def spread_over_term(
    usd_per_hour: Decimal, upfront_usd: Decimal, term_months: int
) -> tuple[Decimal, Decimal]:
    """Return a reservation's whole cost an hour of its term, and the share due on the first day.

    Not all of the amounts may be zero; a month has 730 hours.
    """
    hours = term_months * Decimal(HOURS_PER_MONTH)
    whole = usd_per_hour * hours + upfront_usd
    return whole / hours, upfront_usd / whole


class Purchase(StrEnum):
    """How capacity is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"


class PriceRow(Value):
    """One offer: a node with ``gpu_count`` GPUs at a price an hour."""

    provider: str
    instance: str
    gpu: str
    """Id of the GPU in the catalogue."""
    gpu_count: int = Field(ge=1)
    region: str
    purchase: Purchase
    tier: str
    """``list``, ``secure``, ``community``, ``marketplace`` ...: offers of unlike standing are
    never mixed in silence."""
    usd_per_hour: Exact = Field(gt=0)
    """Price of the whole node; of a reservation, its whole cost over the hours of its term."""
    term_months: int | None = Field(default=None, ge=1)
    """Commitment in months; only a reservation has one."""
    upfront_share: Exact = Field(default=Decimal(0), ge=0, le=1)
    """Share of a reservation's whole cost that is paid on the first day."""
    any_count: bool = False
    """Sold by the GPU: any number at this price a GPU, not nodes of ``gpu_count``."""
    source: Source
    note: str = ""

    @model_validator(mode="after")
    def _term_of_a_reservation(self) -> Self:
        reserved = self.purchase is Purchase.RESERVED
        if reserved and self.term_months is None:
            msg = "a reserved price needs its term in months (term_months)"
            raise ValueError(msg)
        if not reserved and (self.term_months is not None or self.upfront_share):
            msg = f"a commitment belongs to a reserved price, this one is {self.purchase.value}"
            raise ValueError(msg)
        return self

    @property
    def usd_per_gpu_hour(self) -> Decimal:
        """Price of the node divided by its GPUs."""
        return self.usd_per_hour / self.gpu_count


class BillItem(StrEnum):
    """What a line of the bill pays for."""

    GPUS_IN_USE = "gpus_in_use"
    IDLE_GPUS = "idle_gpus"
    ELECTRICITY = "electricity"


class BillLine(Value):
    """One line of a month's bill."""

    item: BillItem
    usd: Exact


class MonthlyBill(Value):
    """A month of one option, to the cent: the lines add up to the total exactly."""

    nodes: int | None = Field(default=None, ge=1)
    """Whole nodes paid for; None where only the GPUs in use are paid for."""
    gpus_paid: int = Field(ge=1)
    gpus_in_use: int = Field(ge=1)
    gpus_per_node: int = Field(ge=1)
    usd_per_node_hour: Exact
    paid_hours: Exact
    """Hours of the month on the bill: all of them for a reservation."""
    serving_hours: Exact
    """Hours of the month in which the planned load arrives."""
    lines: tuple[BillLine, ...]
    total_usd: Exact
    upfront_usd: Exact = Decimal(0)
    """Due on the first day; ``total_usd`` holds it spread over the term."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        added = sum((line.usd for line in self.lines), Decimal(0))
        if added != self.total_usd:
            msg = f"the lines add up to {added} USD, the total says {self.total_usd} USD"
            raise ValueError(msg)
        return self

    def usd(self, item: BillItem) -> Decimal:
        """Return one line of the bill; zero where there is none."""
        return sum((line.usd for line in self.lines if line.item is item), Decimal(0))


class Electricity(Value):
    """Energy of hardware that is owned; a rented GPU has it in its price."""

    usd_per_kwh: Exact = Field(gt=0)
    pue: Exact = Field(default=Decimal(1), ge=1)
    """Energy of the whole site over that of its computers; 1 counts no cooling."""
    watts_per_gpu: Exact | None = Field(default=None, gt=0)
    """Mean power of a GPU in service; its rated power where not given."""


class ApiPrice(Value):
    """Price of one hosted LLM at one provider."""

    model: str
    """Name at the provider; not always a Hugging Face id."""
    family: str
    provider: str
    input_usd_per_million_tokens: Exact = Field(ge=0)
    output_usd_per_million_tokens: Exact = Field(ge=0)
    cached_input_usd_per_million_tokens: Exact | None = Field(default=None, ge=0)
    """Price of prompt tokens found in the provider's cache; None: none is listed."""
    context_window: int | None = None
    tiered: bool
    """Whether the price rises with the prompt's length; the lowest step is given."""
    source: Source


class ApiComparison(Value):
    """The month's GPU bill beside what an API would charge for the same tokens.

    The GPU side is the whole bill, idle hours included, and does not move with the tokens
    served; the API side does. Nothing is said of the quality of the two LLMs.
    """

    price: ApiPrice
    cached_input_share: Exact
    """Share of the prompt tokens that the API charges at its cached price."""
    output_tokens_per_month: Exact
    prompt_tokens_per_month: Exact
    gpu_usd_per_month: Exact
    api_usd_per_month: Exact
    api_usd_per_million_output_tokens: Exact
    """With the prompts that come with a million output tokens."""
    gpu_usd_per_million_output_tokens: Exact
    break_even_output_tokens_per_month: Exact | None
    """Where both bills are equal; None for a free API: it is never dearer."""
    capacity_output_tokens_per_month: Exact | None
    """What these GPUs make at most in the hours in which they serve; None: not known."""

    @property
    def api_is_dearer(self) -> bool:
        """Whether the API costs more than the GPUs at the planned load."""
        return self.api_usd_per_month > self.gpu_usd_per_month

    @property
    def reachable(self) -> bool | None:
        """Whether these GPUs can serve the volume at which both cost the same; None: unknown."""
        crossing = self.break_even_output_tokens_per_month
        capacity = self.capacity_output_tokens_per_month
        if crossing is None:
            return False
        return None if capacity is None else crossing <= capacity
