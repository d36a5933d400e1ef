"""How old prices are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from capplan.schema.price import STALE_AFTER_DAYS, PriceRow, age_days


@dataclass(frozen=True)
class Ages:
    """Prices by age."""

    total: int
    stale: int
    undated: int
    future: int
    """Dated after the day they are looked at."""
    oldest: str | None
    newest: str | None

    def warnings(self) -> tuple[str, ...]:
        """Return what to mind, empty for fresh and dated prices."""
        found = []
        if self.stale:
            found.append(
                f"{self.stale} of {self.total} prices are older than {STALE_AFTER_DAYS} days "
                f"(the oldest of {self.oldest}): ask again, or run capplan prices refresh."
            )
        if self.undated:
            found.append(f"{self.undated} of {self.total} prices are undated.")
        if self.future:
            found.append(
                f"{self.future} of {self.total} prices bear a day that is still to come (up to "
                f"{self.newest}): correct as_of."
            )
        return tuple(found)


def ages(prices: Iterable[PriceRow], today: date) -> Ages:
    """Count prices by age on a day."""
    rows = tuple(prices)
    days = [age_days(row.source, today) for row in rows]
    dates = sorted(row.source.date for row in rows if row.source.date)
    return Ages(
        total=len(rows),
        stale=sum(age is not None and age > STALE_AFTER_DAYS for age in days),
        undated=sum(age is None for age in days),
        future=sum(age is not None and age < 0 for age in days),
        oldest=dates[0] if dates else None,
        newest=dates[-1] if dates else None,
    )
