"""Options as a pandas DataFrame, for notebooks; pandas is imported on use."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from capplan.errors import MissingPackageError
from capplan.reporting.csvout import render_csv
from capplan.schema.plan import Plan

if TYPE_CHECKING:
    import pandas as pd


def to_frame(plan: Plan) -> pd.DataFrame:
    """Return one row an option, best first; the columns are those of the CSV.

    Raises
    ------
    MissingPackageError
        If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingPackageError("A DataFrame", "pandas", "notebook") from error
    return pd.read_csv(io.StringIO(render_csv(plan)))
