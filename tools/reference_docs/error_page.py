"""The page of errors and exit codes, from ``capplan.errors``."""

from __future__ import annotations

import inspect

from capplan import errors
from capplan.errors import CapplanError
from reference_docs.markdown import cell

_CODES = """\
| exit code | meaning |
|---|---|
| 0 | an answer |
| 1 | an error, explained with its remedy on standard error |
| 2 | misuse: an option that does not exist, a value that makes no sense |
| 3 | the answer is no: no plan fits, the memory is too small, the pair does not work |
| 130 | Ctrl-C: what was finished is on disk |
"""


def error_page() -> str:
    """Return the page: exit codes, and a row an error class."""
    rows = [
        f"| `{name}` | {_parents(kind)} | {kind.exit_code} | {cell(_first_line(kind))} |"
        for name, kind in _classes()
    ]
    return "\n".join(
        [
            "# Errors and exit codes",
            "",
            "Every error that capplan raises on purpose is a `capplan.CapplanError` with a "
            "`message` (what was wrong, the value got, what was expected) and a `remedy`.",
            "A traceback shown to a user is a defect. The classes stand in `capplan.errors`.",
            "",
            _CODES,
            "| class | is a | exit code | meaning |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def _classes() -> list[tuple[str, type[CapplanError]]]:
    """Return the error classes, as the module has them."""
    found = [
        (name, kind)
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, CapplanError)
    ]
    return [(name, kind) for name, kind in found if kind.__module__ == errors.__name__]


def _parents(kind: type[CapplanError]) -> str:
    bases = [base.__name__ for base in kind.__bases__ if base is not Exception]
    return ", ".join(f"`{base}`" for base in bases) or "`Exception`"


def _first_line(kind: type[CapplanError]) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]
