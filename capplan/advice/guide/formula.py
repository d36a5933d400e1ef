"""The guide's tables and limits held against its own formula, and against the standard one.

The guide computes ``a * N / (1 + N * c)`` and calls ``a`` the acceptance of a token. For such an
``a`` the tokens of a round are ``(1 - a^(N+1)) / (1 - a)`` (Leviathan et al., arXiv:2211.17192,
eq. 1): only then does the bonus token count, and later positions as less likely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from capplan.advice.guide.sheet import (
    Found,
    Sheet,
    inconsistent,
    published,
    reproduced,
)
from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.speculation import guide_speedup
from capplan.schema.audit import Finding

TABLES = {"tasks": "task-", "temperatures": "temperature-"}
_LENGTH = "rule-n-default"
_STANDARD = published("Leviathan et al., arXiv:2211.17192, equation 1", "2022-11")

TokensPerRound = Callable[[float, float], float]


def guide_tokens(rate: float, length: float) -> float:
    """Return the tokens of a round as the guide counts them."""
    return rate * length


def standard_tokens(rate: float, length: float) -> float:
    """Return the tokens of a round where each draft is accepted with one chance."""
    return float(tokens_per_round_iid(rate, length))


@dataclass(frozen=True)
class ImpliedCost:
    """The cost ratio at which a formula turns a row's acceptance into its speedup."""

    row: str
    low: float
    mid: float
    high: float

    @property
    def speedup_claim(self) -> str:
        """Id of the row's speedup."""
        return f"{self.row}-speedup"

    @property
    def name(self) -> str:
        """The row in words: ``maths``, ``temperature 1.3``."""
        return self.row.removeprefix("task-").replace("-", " ")


def implied_cost_ratio(
    rate: float, length: float, speedup: float, tokens: TokensPerRound = guide_tokens
) -> float:
    """Solve ``speedup = tokens / (1 + N * c)`` for the cost ratio ``c``.

    Negative: no draft is cheap enough. By the guide's formula differences between rows do not
    depend on N, since ``c = rate / speedup - 1 / N``.
    """
    return (tokens(rate, length) / speedup - 1) / length


def implied_cost(sheet: Sheet, row: str, tokens: TokensPerRound = guide_tokens) -> ImpliedCost:
    """Return a row's implied cost ratio with the interval that its rounding leaves."""
    rate, speedup, length = sheet[f"{row}-acceptance"], sheet[f"{row}-speedup"], sheet[_LENGTH]
    d_rate = sheet.resolution(f"{row}-acceptance") / 2
    d_speedup = sheet.resolution(f"{row}-speedup") / 2
    return ImpliedCost(
        row,
        implied_cost_ratio(rate - d_rate, length, speedup + d_speedup, tokens),
        implied_cost_ratio(rate, length, speedup, tokens),
        implied_cost_ratio(rate + d_rate, length, speedup - d_speedup, tokens),
    )


def rows_of(sheet: Sheet, prefix: str) -> tuple[str, ...]:
    """Return the rows of a table that have both an acceptance and a speedup."""
    ids = sheet.ids()
    rows = (name.removesuffix("-acceptance") for name in ids if name.endswith("-acceptance"))
    return tuple(r for r in rows if r.startswith(prefix) and f"{r}-speedup" in ids)


def one_cost_ratio(sheet: Sheet) -> Iterator[Found]:
    """Ask whether one draft can give all rows of a table: its cost is the same in each.

    Task and temperature change acceptance, not the time of a draft pass. Rows of one table must
    therefore imply one cost ratio, within rounding.
    """
    for table, prefix in TABLES.items():
        rows = rows_of(sheet, prefix)
        costs = [implied_cost(sheet, row) for row in rows]
        for cost in costs:
            yield cost.speedup_claim, _by_own_formula(sheet, table, cost, costs)
        yield from _by_standard_formula(
            table, [implied_cost(sheet, r, standard_tokens) for r in rows]
        )


def _by_own_formula(
    sheet: Sheet, table: str, cost: ImpliedCost, costs: Sequence[ImpliedCost]
) -> Finding:
    speedup, rate = sheet[cost.speedup_claim], sheet[f"{cost.row}-acceptance"]
    own = (
        f"By its own formula {speedup:g}x at {rate * 100:g} % and N = {sheet[_LENGTH]:g} needs a "
        f"cost ratio of {cost.mid:.2f}"
    )
    if cost.high < 0:
        return inconsistent(f"{own}: no draft costs less than nothing.")
    far = max(costs, key=lambda other: abs(other.mid - cost.mid))
    if far.high >= cost.low and cost.high >= far.low:
        reason = f"{own}, like the other rows of the table of {table}."
        return reproduced(reason, (far.speedup_claim,), speedup)
    at_far = float(guide_speedup(rate, sheet[_LENGTH], far.mid))
    claims = (f"{cost.row}-acceptance", f"{far.row}-acceptance", far.speedup_claim)
    reason = (
        f"{own}, the row {far.name} ({sheet[far.speedup_claim]:g}x) one of {far.mid:.2f}, though "
        f"the draft is the same. At {far.mid:.2f} this row would give {at_far:.2f}x."
    )
    return inconsistent(reason, claims, at_far)


def _by_standard_formula(table: str, costs: Sequence[ImpliedCost]) -> Iterator[Found]:
    low, high = max(cost.low for cost in costs), min(cost.high for cost in costs)
    if not 0 <= low <= high:
        return
    reason = (
        f"By the standard formula all {len(costs)} rows of the table of {table} share one cost "
        f"ratio, {(low + high) / 2:.2f}: what does not fit them is the formula of section 1."
    )
    for cost in costs:
        yield cost.speedup_claim, reproduced(reason, source=_STANDARD)


def off_rule(sheet: Sheet) -> Iterator[Found]:
    """Hold the rule to switch off at high temperature to both formulas and its own table."""
    rows = rows_of(sheet, TABLES["temperatures"])
    coldest, hottest = rows[0], rows[-1]
    rate, length = sheet[f"{hottest}-acceptance"], sheet[_LENGTH]
    loss = sheet[f"{hottest}-speedup"]
    gains = [
        tokens(rate, length) / (1 + length * implied_cost(sheet, coldest, tokens).mid)
        for tokens in (guide_tokens, standard_tokens)
    ]
    if not min(gains) > 1 > loss:
        return
    reason = (
        f"It rests on {loss:g}x at {rate * 100:g} % acceptance. With the draft cost that the row "
        f"for temperature 0 implies ({sheet[f'{coldest}-speedup']:g}x at "
        f"{sheet[f'{coldest}-acceptance'] * 100:g} %) its formula gives {gains[0]:.2f}x there, "
        f"the standard one {gains[1]:.2f}x: a gain."
    )
    claims = (f"{hottest}-speedup", f"{coldest}-speedup")
    for claim in ("rule-temperature-off", "temperature-loss-above"):
        yield claim, inconsistent(reason, claims)


def ceilings(sheet: Sheet) -> Iterator[Found]:
    """Ask what its formula allows within its own rules on size, length and acceptance.

    Decoding one request reads the weights once a token, so a draft of a tenth of the bytes costs
    a tenth of a step or more.
    """
    length, enough = sheet[_LENGTH], sheet["rule-acceptance-healthy"]
    smallest, largest = sheet["rule-size-ratio-low"], sheet["rule-size-ratio-high"]
    most = float(guide_speedup(1.0, length, largest))
    promised = sheet["headline-speedup-low"]
    below = most < promised
    reason = (
        f"For one request a draft of 1/{1 / largest:.0f} of the weights costs about {largest:.2f} "
        f"of a step: at N = {length:g} its formula allows {most:.2f}x with every draft accepted, "
        f"{'below' if below else 'not below'} the {promised:g}x that it promises at least."
    )
    found = inconsistent if below else reproduced
    yield "rule-size-ratio-high", found(reason, ("headline-speedup-low", _LENGTH))
    kept = float(guide_speedup(enough, length, smallest))
    if kept < sheet["summary-easily"]:
        reason = (
            f"Its formula with its three rules, N = {length:g}, {enough * 100:g} % and the "
            f"smallest draft, 1/{1 / smallest:.0f} (cost ratio about {smallest:g}), gives "
            f"{kept:.2f}x, not {sheet['summary-easily']:g}x."
        )
        claims = (_LENGTH, "rule-acceptance-healthy", "rule-size-ratio-low")
        yield "summary-easily", inconsistent(reason, claims, kept)
