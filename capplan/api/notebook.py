"""A plan with what a notebook asks of it: a frame, a figure, a table, cost rows.

The values of ``capplan.schema`` know nothing of pandas, HTML or FOCUS. What ``recommend`` and
``load_plan`` hand out is this class: the same fields, and methods that call the renderers
(``docs/decisions/0005-a-plan-with-methods.md``).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from capplan.reporting import plan_file
from capplan.schema import plan as schema

if TYPE_CHECKING:
    import pandas as pd

    from capplan.economics.focus import FocusRow
    from capplan.reporting.plan_figures import Figure, FigureKind


class Plan(schema.Plan):
    """A ranked answer to one request, ready for a notebook."""

    @classmethod
    def of(cls, plan: schema.Plan) -> Plan:
        """Return the same plan with these methods; nothing is checked or copied twice."""
        if isinstance(plan, cls):
            return plan
        return cls.model_construct(
            _fields_set=set(plan.model_fields_set),
            **{name: getattr(plan, name) for name in schema.Plan.model_fields},
        )

    def to_frame(self, *, exact: bool = False) -> pd.DataFrame:
        """Return one row an option, best first, units in the names; see ``capplan.to_frame``."""
        from capplan.reporting.frame import to_frame

        return to_frame(self, exact=exact)

    def figure(self, kind: FigureKind = "cost", *, rank: int = 1) -> Figure:
        """Return a figure: ``cost`` of all options against latency, or ``load`` of one option.

        Raises
        ------
        RequestError
            If there is no such figure or option, or the option does not speculate.
        """
        from capplan.reporting.plan_figures import plan_figure

        return plan_figure(self, kind, rank=rank)

    def to_focus(self, month: str | None = None, *, rank: int = 1) -> tuple[FocusRow, ...]:
        """Return a month of all that is paid for as FOCUS-shaped rows; nothing is billed.

        A row is a charge; services on replicas of their own have rows each.

        Parameters
        ----------
        month
            ``2027-01``; the month after the plan was made by default.
        rank
            Which option, 1 for the recommended one; of a fleet in parts that of the largest.
            Options are alternatives: the rows of two of them are never to be added up.

        Raises
        ------
        RequestError
            If the month is none, or the plan has no such option or no bill of it.
        """
        from capplan.economics.focus import focus_rows

        return focus_rows(self, month, rank=rank)

    def save(self, path: str | Path) -> Path:
        """Write the plan file that ``load_plan``, ``capplan report`` and ``what-if`` read.

        Raises
        ------
        StorageError
            If it cannot be written; an older file stays as it was.
        """
        from capplan.files import write_atomic
        from capplan.reporting.render import render

        file = Path(path)
        write_atomic(file, render(self, "json"))
        return file

    def __repr__(self) -> str:
        """One line: a plan's fields fill hundreds of kilobytes; ``model_dump`` has them."""
        return f"<Plan of {len(self.options)} options: {self.verdict.sentence}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from capplan.reporting.notebook_html import plan_html

        return plan_html(self)


def load_plan(path: str | Path) -> Plan:
    """Read a plan file.

    Raises
    ------
    PlanFormatError
        If the file is absent, cut off, or no plan.
    PlanVersionError
        If a newer capplan wrote it.
    """
    return Plan.of(plan_file.load_plan(path))
