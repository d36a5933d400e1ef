"""The guide's tables held against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from capplan.advice.guide.formula import TABLES, rows_of
from capplan.advice.guide.sheet import Found, Sheet, inconsistent, reproduced
from capplan.schema.audit import ClaimVerdict, Finding
from capplan.units import SECONDS_PER_MONTH, TOKENS_PER_MILLION

_LENGTH = "rule-n-default"
_PROMISES = (
    "pair-qwen3.5-72b-speedup",
    "summary-pair-speedup-low",
    "summary-pair-speedup-high",
)


def same_acceptance(sheet: Sheet) -> Iterator[Found]:
    """Find equal acceptance with unequal speedup among the tables of its one pairing."""
    rows = (
        "pair-qwen3.5-72b",
        *(row for prefix in TABLES.values() for row in rows_of(sheet, prefix)),
        "method-standard",
    )
    for row in rows:
        rate, speedup = sheet[f"{row}-acceptance"], sheet[f"{row}-speedup"]
        equal = [r for r in rows if r != row and sheet[f"{r}-acceptance"] == rate]
        unlike = [r for r in equal if abs(sheet[f"{r}-speedup"] - speedup) > 0.05]
        if unlike:
            others = " and ".join(
                f"{sheet[f'{r}-speedup']:g}x in section {sheet.section(f'{r}-speedup')}"
                for r in unlike
            )
            reason = f"{rate * 100:g} % acceptance gives {speedup:g}x here and {others}."
            yield f"{row}-speedup", inconsistent(reason, tuple(f"{r}-speedup" for r in unlike))


def promised_and_measured(sheet: Sheet) -> Iterator[Found]:
    """Hold what the guide promises for its pairing to what it says it measured on it."""
    measured = {f"a100-n{n}-decode": n for n in (3, 5, 7)}
    best = max(measured, key=lambda claim: sheet[claim])
    reached = sheet[best] / sheet["a100-none-decode"]
    reason = (
        f"Section 4.1 reports {sheet[best]:g} against {sheet['a100-none-decode']:g} tokens/s for "
        f"this pairing at best (N = {measured[best]}): {reached:.2f}x."
    )
    for claim in _PROMISES:
        promised_more = sheet[claim] > reached + sheet.resolution(claim)
        finding = inconsistent if promised_more else reproduced
        yield claim, finding(reason, (best, "a100-none-decode"), reached)


def lengths(sheet: Sheet) -> Iterator[Found]:
    """Hold the rules on length against each other."""
    least, most = sheet["rule-n-low"], sheet["rule-n-high"]
    low, high = sheet["adaptive-min-n"], sheet["adaptive-max-n"]
    gain = sheet["adaptive-throughput-gain"]
    if gain > 0:
        yield (
            _LENGTH,
            inconsistent(
                f"Section 5.1 says that a fixed N = {sheet[_LENGTH]:g} is not always best, and "
                f"that varying it gains {gain * 100:g} %.",
                ("adaptive-throughput-gain",),
            ),
        )
    for claim, value in (("adaptive-min-n", low), ("adaptive-max-n", high)):
        if not least <= value <= most:
            reason = (
                f"Section 3.2 recommends {least:g} to {most:g}; its scheduler may go to {value:g}."
            )
            yield claim, inconsistent(reason, ("rule-n-low", "rule-n-high"))


@dataclass(frozen=True)
class _CostRow:
    claim: str
    full_load_usd: float
    low: float
    mid: float
    high: float


def cost_table(sheet: Sheet) -> Iterator[Found]:
    """Find the utilisation at which each row's monthly bill gives its price per million.

    ``price = bill / (throughput * seconds in a month * utilisation)``; one deployment has one
    utilisation, and the three rows must share it.
    """
    rows = [_cost_row(sheet, name) for name in ("none", "n5", "eagle")]
    one = max(row.low for row in rows) <= min(row.high for row in rows)
    shares = ", ".join(f"{row.mid * 100:.1f}" for row in rows)
    for row in rows:
        name = row.claim.removesuffix("-million")
        base = (
            f"${sheet[f'{name}-month']:,g} over {sheet[f'{name}-throughput']:,g} tokens/s for "
            f"730 h is ${row.full_load_usd:.2f} at full load: ${sheet[row.claim]:g} implies "
            f"{row.mid * 100:.1f} % utilisation, which it does not state"
        )
        inputs = (f"{name}-month", f"{name}-throughput")
        if one:
            yield (
                row.claim,
                Finding(
                    verdict=ClaimVerdict.REPRODUCED,
                    reason=f"{base}. It is one for all rows ({shares} %).",
                    recomputed=row.full_load_usd,
                    claims=inputs,
                ),
            )
            continue
        others = tuple(other.claim for other in rows if other is not row)
        reason = f"{base}. It is not one: the three rows imply {shares} %, beyond rounding."
        yield row.claim, inconsistent(reason, inputs + others, row.full_load_usd)
    yield from _bills(sheet)


def _cost_row(sheet: Sheet, name: str) -> _CostRow:
    claim = f"cost-{name}-million"
    tokens = sheet[f"cost-{name}-throughput"] * SECONDS_PER_MONTH
    full = sheet[f"cost-{name}-month"] / tokens * TOKENS_PER_MILLION
    printed, half = sheet[claim], sheet.resolution(claim) / 2
    return _CostRow(claim, full, full / (printed + half), full / printed, full / (printed - half))


def _bills(sheet: Sheet) -> Iterator[Found]:
    plain = sheet["cost-none-month"]
    for claim in ("cost-n5-month", "cost-eagle-month"):
        reason = (
            f"The same {sheet['cost-gpus']:g} GPUs cost ${plain:,g} without speculation: "
            "rented GPUs cost the same whatever runs on them."
        )
        finding = reproduced if sheet[claim] == plain else inconsistent
        yield claim, finding(reason, ("cost-none-month",), plain)
