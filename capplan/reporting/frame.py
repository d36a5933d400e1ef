"""Options as a pandas DataFrame, for notebooks; pandas is imported on use."""

from __future__ import annotations

import math
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING

from capplan.errors import MissingPackageError
from capplan.reporting.csvout import columns, option_records
from capplan.schema.plan import Plan

if TYPE_CHECKING:
    import pandas as pd

_TEXTS = frozenset(
    {
        "id",
        "target",
        "draft",
        "method",
        "gpu",
        "gpu_name",
        "provider",
        "instance",
        "region",
        "purchase",
        "price_tier",
        "price_source_kind",
        "price_source_reference",
        "price_source_date",
        "acceptance_definition",
        "acceptance_source_kind",
        "acceptance_source_reference",
        "acceptance_source_date",
        "tier",
        "tier_note",
        "warnings",
    }
)
"""All other columns are numbers, an absent one NaN, so that they add up whatever is absent."""


def to_frame(plan: Plan, *, exact: bool = False) -> pd.DataFrame:
    """Return one row an option, best first; the columns are those of the CSV.

    Parameters
    ----------
    plan
        A plan; one without options gives a frame with columns and no row.
    exact
        Keep the amounts of the bill as ``decimal.Decimal``, which add up to the last digit, in
        columns of objects. By default they are floating-point numbers like the rest.

    Raises
    ------
    MissingPackageError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingPackageError("A DataFrame", "pandas", "notebook") from error
    rows = [
        {name: _plain(name, value, exact=exact) for name, value in record.items()}
        for record in option_records(plan)
    ]
    return pd.DataFrame(rows, columns=list(columns()))


def _plain(name: str, value: object, *, exact: bool) -> object:
    if isinstance(value, Decimal) and not exact:
        return float(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "; ".join(str(item) for item in value)
    return math.nan if value is None and name not in _TEXTS else value
