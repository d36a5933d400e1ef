"""What ``capplan watch`` shows: one poll of a live server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from capplan.schema.base import Value

State = Literal["starting", "up", "idle", "restarted", "gone"]
"""``starting``: seen for the first time, so that there is no window yet."""


class Notice(Value):
    """An alarm or a piece of advice."""

    level: Literal["alarm", "advice"]
    check: str
    """Short name in snake_case."""
    text: str
    remedy: str
    source: str
    """Where the rule and its threshold come from."""


class Expected(Value):
    """What a profile or a plan lets expect at the load that is being served."""

    source: str
    baseline_step_s: float = Field(gt=0)
    """A plain decode step at this batch: the time of a token without speculation."""
    speedup: float | None = Field(default=None, gt=0)
    tokens_per_round: float | None = Field(default=None, ge=1)
    round_ratio: float | None = Field(default=None, gt=0)
    """A round over a plain step: below so many tokens a round speculation loses."""


class ServedFigures(Value):
    """One model's figures over the latest window; what the engine does not tell is None."""

    software: str
    model: str
    engines: int = Field(ge=1)
    window_s: float = Field(gt=0)
    output_tokens: float | None = None
    output_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    running: float | None = None
    waiting: float | None = None
    batch: float | None = None
    """Requests in decode at a time, on average over the window, on one engine."""
    kv_usage: float | None = None
    prefix_hit_rate: float | None = None
    earlier_prefix_hit_rate: float | None = None
    preemptions: float | None = None
    num_speculative_tokens: int | None = None
    drafts: float | None = None
    acceptance_rate: float | None = None
    position_rates: tuple[float, ...] = ()
    tokens_per_draft_round: float | None = None
    tokens_per_round: float | None = None
    """Emitted tokens of a round, over all rounds, those without a draft too."""
    earlier_tokens_per_round: float | None = None
    """Median over the windows since this watch began; None while there are too few."""
    draft_share: float | None = None
    """Rounds that had a draft."""
    step_s: float | None = None
    time_per_token_s: float | None = None
    ttft_s: float | None = None
    context_tokens: float | None = None
    """Tokens that a request holds on average, halfway through its output."""
    expected: Expected | None = None
    actual_speedup: float | None = None
    """Expected plain step over the time per token that was seen."""


class WatchPoll(Value):
    """One line of ``capplan watch --json``."""

    schema_version: Literal[1] = 1
    at: str
    """ISO 8601, UTC."""
    url: str
    state: State
    message: str = ""
    figures: tuple[ServedFigures, ...] = ()
    notices: tuple[Notice, ...] = ()
