"""Answers about a plan as rows: one question a table, units in the columns' names."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from capplan.errors import RequestError
from capplan.files.spreadsheets import inert
from capplan.schema.answers import Cell, PlanAnswers, Sensitivity

_QUESTIONS = (
    "ways_out",
    "sensitivity",
    "scenarios",
    "growth",
    "autoscaling",
    "spares",
    "spot",
    "commitment",
    "spot_total",
    "commitment_total",
)
_OF_PARTS = {"spot_total": "spot", "commitment_total": "commitment"}
"""Questions whose rows are those of a fleet's parts."""
_LISTED = {"growth": "months", "autoscaling": "hours", "spares": "rows"}


def render_answers_csv(found: PlanAnswers) -> str:
    """Return the one answer as CSV; an absent figure is an empty cell.

    Raises
    ------
    RequestError
        If several questions were answered: their rows have other columns.
    """
    asked = [name for name in _QUESTIONS if getattr(found, name) is not None]
    if len(asked) != 1:
        raise RequestError(
            f"CSV holds one table, and {len(asked)} questions were asked: {', '.join(asked)}.",
            "Ask one at a time, or use --format json.",
        )
    rows = answer_records(found, asked[0])
    if not rows:
        raise RequestError(
            "Nothing that was tried makes the plan feasible, so there is no row.",
            "The plan says why: capplan report PLAN",
        )
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([inert(name) for name in rows[0]])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue()


def answer_records(found: PlanAnswers, name: str) -> Sequence[Mapping[str, object]]:
    """Return the rows of one answer."""
    answer = getattr(found, name)
    if name == "scenarios":
        rows: Sequence[Mapping[str, object]] = found.scenarios.rows if found.scenarios else ()
        return rows
    if name == "ways_out":
        return [dict(vars(one)) for one in found.ways_out or ()]
    if isinstance(answer, Sensitivity):
        return _ends(answer)
    if name in _OF_PARTS:
        named = ((part.services, getattr(part, _OF_PARTS[name])) for part in found.parts)
        return [{"services": label, **_flat(blend)} for label, blend in named]
    listed = getattr(answer, _LISTED[name]) if name in _LISTED else (answer,)
    return [_flat(one) for one in listed]


def _ends(found: Sensitivity) -> list[dict[str, object]]:
    base = {"factor_name": "as planned", **_flat(found.base)}
    moved = [
        {"factor_name": row.factor_name, **_flat(end)}
        for row in found.rows
        for end in (row.less, row.more)
    ]
    return [base, *moved]


def _flat(value: BaseModel) -> dict[str, object]:
    return {
        name: str(cell) if isinstance(cell, BaseModel) else cell
        for name, cell in ((name, getattr(value, name)) for name in type(value).model_fields)
    }


def _cell(value: object) -> Cell:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int | float) else inert(str(value))
