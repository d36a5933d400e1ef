"""One door to every format; each renderer is imported on use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Literal, get_args

from capplan.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from capplan.schema.answers import PlanAnswers
    from capplan.schema.audit import AuditedClaim
    from capplan.schema.plan import Plan

Format = Literal["table", "json", "csv", "html", "focus"]
FORMATS: tuple[Format, ...] = get_args(Format)

_RENDERERS: dict[str, tuple[str, str]] = {
    "table": ("capplan.reporting.text", "render_text"),
    "json": ("capplan.reporting.jsonout", "render_json"),
    "csv": ("capplan.reporting.csvout", "render_csv"),
    "html": ("capplan.reporting.html", "render_html"),
    "focus": ("capplan.reporting.focus_file", "render_focus"),
}


def render(
    plan: Plan,
    fmt: Format | str,
    audit: Sequence[AuditedClaim] = (),
    answers: PlanAnswers | None = None,
) -> str:
    """Return the plan as text in one of ``FORMATS``; every format ends with a newline.

    ``audit``, the guide's audit, and ``answers``, what the bill hangs on, are for the page;
    other formats leave them out.

    Raises
    ------
    RequestError
        For a format that does not exist.
    """
    if fmt not in _RENDERERS:
        raise RequestError(f"Unknown format {fmt!r}.", f"Choose one of: {', '.join(FORMATS)}.")
    module, name = _RENDERERS[fmt]
    renderer: Callable[..., str] = getattr(import_module(module), name)
    return renderer(plan, audit, answers) if fmt == "html" else renderer(plan)
