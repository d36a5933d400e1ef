"""What two profiles or two plans differ in, and whether a plan still stands."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.price import Exact
from capplan.schema.quantity import Quantity


class Interval(Value):
    """A figure that may be negative, with its interval. The unit stands in the field's name."""

    low: float
    mid: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether all of the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0

    def reversed(self) -> Interval:
        """Return the figure with its sign turned."""
        return Interval(low=-self.high, mid=-self.mid, high=-self.low)


class Quality(StrEnum):
    """What a row compares."""

    TOKENS_PER_ROUND = "tokens_per_round"
    """Emitted tokens a target pass, bonus included, over all rounds."""
    STEP_TIME = "step_time"
    """Seconds of a pass or of an engine's step."""
    SPEEDUP = "speedup"
    """Decode phase, against no speculation at the same batch."""


class Change(Value):
    """One figure before and after.

    The interval is simultaneous: the chance that any row of the whole comparison is called
    changed where nothing changed is at most 5 %. ``p_value`` is of this row alone.
    """

    quality: Quality
    label: str
    """Where: task, temperature, draft sampling, N; or role, phase, batch; or a range."""
    num_speculative_tokens: int | None = None
    before: float
    after: float
    difference: Interval | None
    """After less before, in the figure's own unit; None where no interval can be given."""
    relative: Interval | None
    """After over before, less 1."""
    p_value: float | None = None
    paired: bool = False
    """Whether the same requests were compared with themselves."""
    samples: tuple[int, int] = (0, 0)
    """Requests (acceptance), or points of the grid (step times), before and after."""

    @property
    def changed(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        return self.difference is not None and self.difference.excludes_zero


class Setting(Value):
    """Something that was not the same, without being measured: a version, an argument."""

    group: Literal["pairing", "engine", "machine", "request", "limits", "option"]
    name: str
    before: str
    after: str


class Reported(Value):
    """A figure that an engine or a framework reports exactly, such as bytes of memory."""

    name: str
    unit: str
    before: float
    after: float

    @property
    def relative(self) -> float | None:
        """After over before, less 1."""
        return self.after / self.before - 1.0 if self.before else None


class Trend(Value):
    """How tokens a round move with the hours of a served load."""

    label: str
    per_hour: Interval
    """Change of tokens a round an hour."""
    windows: int = Field(ge=2)
    hours: float = Field(gt=0)
    at_same_context: bool
    """Whether the effect of the windows' contexts was taken out."""
    p_value: float

    @property
    def declines(self) -> bool:
        """Whether it certainly falls."""
        return self.per_hour.high < 0


class RangeFigure(Value):
    """Tokens a round within a range of contexts or hours of one profile."""

    label: str
    low: float
    """Tokens of context, or hours since the first window."""
    high: float | None
    """None: open."""
    num_speculative_tokens: int | None
    tokens_per_round: Quantity
    rounds: float
    samples: int
    """Requests or windows."""


class RangeTable(Value):
    """One profile by context or by hour."""

    by: Literal["context", "hour"]
    profile: str
    temperature: float | None = None
    """Of a trace's requests; None for windows of a served load."""
    rows: tuple[RangeFigure, ...]
    trend: Trend | None = None
    notes: tuple[str, ...] = ()


class Standing(StrEnum):
    """Whether a plan still holds."""

    STANDS = "stands"
    NOT_BEST = "no longer best"
    DOES_NOT_PAY = "no longer pays"
    BREAKS_LIMITS = "no longer within its limits"


class PlanCheck(Value):
    """A plan's recommended option under another profile, at the plan's own price and load."""

    standing: Standing
    decided: bool
    """False where the interval of the speedup leaves open whether speculation pays."""
    option: str
    speedup_planned: Quantity
    speedup_now: Quantity | None
    usd_per_month_planned: Exact
    usd_per_month_now: Exact | None
    usd_per_million_planned: float
    usd_per_million_now: float | None
    best_option: str | None
    """Best of a new search with the later profile and today's prices."""
    best_usd_per_month: Exact | None
    best_usd_per_million: float | None
    sentence: str


class Gate(Value):
    """Whether something became worse by more than was allowed."""

    figure: str
    allowed: float = Field(ge=0)
    """As a fraction."""
    worsening: Interval | None
    """As a fraction; None where it cannot be told."""
    failed: bool
    rule: str


class ProfileDifference(Value):
    """What changed between two profiles, the first being the earlier."""

    schema_version: Literal[1] = 1
    kind: Literal["profiles"] = "profiles"
    before: str
    after: str
    settings: tuple[Setting, ...] = ()
    changes: tuple[Change, ...] = ()
    reported: tuple[Reported, ...] = ()
    losslessness: tuple[str, str] = ("", "")
    """Verdict on the text, before and after; empty where it was not checked."""
    ranges: tuple[RangeTable, ...] = ()
    plan: PlanCheck | None = None
    gate: Gate | None = None
    notes: tuple[str, ...] = ()


class CostPart(Value):
    """What one cause adds to the bill."""

    cause: str
    usd: Exact
    before: str
    after: str
    services: str = ""
    """Whose bill it adds to; empty where a plan is of one service."""


class ServicesChange(Value):
    """What some services cost before and after, on whatever replicas."""

    services: str
    before: str
    """On which replicas: ``chat + extract`` share some, ``chat, extract`` do not; empty: not
    there."""
    after: str
    usd_before: Exact
    usd_after: Exact


class PlanDifference(Value):
    """What changed between two plans, by dollars a month."""

    schema_version: Literal[1] = 1
    kind: Literal["plans"] = "plans"
    before: str
    after: str
    option_before: str | None
    option_after: str | None
    usd_before: Exact | None
    usd_after: Exact | None
    usd_per_million_before: float | None = None
    usd_per_million_after: float | None = None
    parts: tuple[CostPart, ...] = ()
    """Add up to ``usd_after - usd_before`` to the cent."""
    services: tuple[ServicesChange, ...] = ()
    """Of plans with several services; they add up to the bills. Empty for plans of one."""
    settings: tuple[Setting, ...] = ()
    gate: Gate | None = None
    notes: tuple[str, ...] = ()


class PromptWorth(Value):
    """A plan's option at the acceptance of one set of prompts."""

    usd_per_month: Quantity
    """The bill: whole nodes."""
    usd_per_month_unrounded: float
    """As if a part of a replica could be rented: what one more or less percent is worth."""
    saved_usd_per_month: Interval
    """Unrounded, against the plan's option at the acceptance of all prompts together."""
    speedup: Quantity
    replicas: int


class PromptFigure(Value):
    """One set of prompts: a file, a category, a task."""

    task: str
    requests: int
    tokens_per_round: Quantity
    acceptance_rate: float
    """Accepted over drafted tokens at N."""
    worth: PromptWorth | None = None
    worth_missing: str = ""
    """Why there is no worth, where a plan was given."""


class PromptComparison(Value):
    """Prompts side by side on one pairing."""

    schema_version: Literal[1] = 1
    profile: str
    target: str
    draft: str
    temperature: float
    draft_sampling: str
    num_speculative_tokens: int
    figures: tuple[PromptFigure, ...]
    """Most tokens a round first."""
    differences: tuple[Change, ...]
    """Every pair: the second less the first of its label."""
    plan_option: str = ""
    verdict: str
    """Whether predictable prompts are cheaper here, in numbers."""
    ranges: tuple[RangeTable, ...] = ()
    notes: tuple[str, ...] = ()
