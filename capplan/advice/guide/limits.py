"""The guide's limits held to its own tables."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.advice.guide.arithmetic import RATIOS
from capplan.advice.guide.sheet import (
    Found,
    Sheet,
    inconsistent,
    reproduced,
)
from capplan.schema.audit import ClaimVerdict, Finding


def own_thresholds(sheet: Sheet) -> Iterator[Found]:
    """Check statements of the guide about its own tables that are limits, not figures."""
    yield _tasks_above(sheet)
    yield _loss_above(sheet)
    yield _gain_up_to(sheet)


def _tasks_above(sheet: Sheet) -> Found:
    claim, named = "tasks-best", ("task-translation-speedup", "task-code-speedup")
    least = min(sheet[name] for name in named)
    others = ("task-qa-speedup", "task-summary-speedup", "task-creative-speedup")
    best_other = max(sheet[name] for name in others)
    holds = least > max(sheet[claim], best_other)
    reason = (
        f"Translation {sheet[named[0]]:g}x and code {sheet[named[1]]:g}x lie above "
        f"{sheet[claim]:g}x and above every other task; the best of those has {best_other:g}x."
    )
    verdict = ClaimVerdict.REPRODUCED if holds else ClaimVerdict.INCONSISTENT
    return claim, Finding(verdict=verdict, reason=reason, recomputed=least, claims=named + others)


def _rows(sheet: Sheet) -> list[tuple[float, str]]:
    prefix, suffix = "temperature-", "-speedup"
    found = [name for name in sheet.ids() if name.startswith(prefix) and name.endswith(suffix)]
    return [(float(name.removeprefix(prefix).removesuffix(suffix)), name) for name in found]


def _loss_above(sheet: Sheet) -> Found:
    claim = "temperature-loss-above"
    limit = sheet[claim]
    above = tuple(name for temperature, name in _rows(sheet) if temperature > limit)
    below = tuple(name for temperature, name in _rows(sheet) if temperature <= limit)
    holds = all(sheet[name] < 1 for name in above) and all(sheet[name] >= 1 for name in below)
    reason = (
        f"In its table the rows up to {limit:g} gain (least {min(sheet[n] for n in below):g}x) "
        f"and those above lose ({max(sheet[n] for n in above):g}x)."
    )
    verdict = ClaimVerdict.REPRODUCED if holds else ClaimVerdict.INCONSISTENT
    return claim, Finding(verdict=verdict, reason=reason, claims=below + above)


def _gain_up_to(sheet: Sheet) -> Found:
    claim = "temperature-best-to"
    limit = sheet[claim]
    inside = tuple(name for temperature, name in _rows(sheet) if temperature <= limit)
    least = min(sheet[name] for name in inside)
    best_outside = max(sheet[name] for temperature, name in _rows(sheet) if temperature > limit)
    verdict = ClaimVerdict.REPRODUCED if least > best_outside else ClaimVerdict.INCONSISTENT
    reason = (
        f"In its table every row up to {limit:g} has {least:g}x or more, every row above at "
        f"most {best_outside:g}x."
    )
    return claim, Finding(verdict=verdict, reason=reason, claims=inside)


def size_rule(sheet: Sheet) -> Iterator[Found]:
    """Hold the pairings that the guide recommends to its own rule of size."""
    smallest, largest = sheet["rule-size-ratio-low"], sheet["rule-size-ratio-high"]
    rule = ("rule-size-ratio-low", "rule-size-ratio-high")
    broken = []
    for derivation in RATIOS:
        share = 1 / sheet[derivation.claim]
        if smallest - 5e-4 <= share <= largest + 5e-4:
            continue
        broken.append(derivation.claim)
        reason = (
            f"The guide asks for a draft of 1/{1 / smallest:.0f} to 1/{1 / largest:.0f} of the "
            f"target and recommends 1/{sheet[derivation.claim]:g}."
        )
        yield derivation.claim, inconsistent(reason, rule)
    if broken:
        shares = " and ".join(f"1/{sheet[claim]:g}" for claim in broken)
        reason = f"{len(broken)} of its {len(RATIOS)} sized pairings break it: {shares}."
        yield "rule-size-ratio-low", inconsistent(reason, tuple(broken))
    else:
        yield "rule-size-ratio-low", reproduced("All its sized pairings keep the rule.")
