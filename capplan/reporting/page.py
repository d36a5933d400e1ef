"""The frame of every HTML page: template, policy, scripts and data in one file, no network.

A page carries everything it shows. Its content security policy allows no connection at all, and
only the scripts whose hashes it names; styles may be inline because plotly sets them while it
draws. Names come from files that others wrote: autoescape keeps them text, ``visible`` takes away
the characters that reorder or hide text, ``script_json`` keeps data inside its element.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from capplan.resources import templates_dir

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
_STYLES = ("report.css", "parts.css")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Controls, marks of direction, and characters of no width: a name may not use them to look like
another name, or to turn the text beside it around."""

_HYPHENATED = re.compile(r"\(?(?<![\w.@#&-])\d[\d.,]*(?:-\d[\d.,]*\d|-\d)+(?![\w-])\)?[;,]?")
"""Intervals and dates."""


def render_page(
    template: str, *, scripts: Sequence[str], data: Mapping[str, str], **values: Any
) -> str:
    """Return one HTML document.

    Parameters
    ----------
    template
        Its name in the folder of templates.
    scripts
        Script texts, in order; none but these may run.
    data
        JSON by the id of the element that holds it.
    values
        What the template shows.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            policy=_policy(scripts),
            style=Markup("".join(source(name) for name in _STYLES)),
            scripts=[Markup(script) for script in scripts],
            data={name: script_json(text) for name, text in data.items()},
            **values,
        )
    )


def script_json(text: str) -> Markup:
    """Return JSON that no HTML parser mistakes for markup inside a script element."""
    for char, escape in _ESCAPES.items():
        text = text.replace(char, escape)
    return Markup(text)


def visible(text: str) -> str:
    """Return text with a visible mark where a character would hide or turn text around."""
    return _HIDDEN.sub(_REPLACEMENT, text)


def source(name: str) -> str:
    """Return a template file as it is."""
    return (templates_dir() / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_dir()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["unbroken"] = _unbroken
    environment.filters["markup"] = Markup  # our own SVG; its texts were escaped as it was made
    return environment


def _shown(value: Any) -> Any:
    """Make names visible as they leave the template; our own markup is left alone."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _unbroken(sentence: str) -> Markup:
    """Keep ``N = 4``, ``50 %``, ``(1.75-4.89)`` and ``2026-05-24`` on one line."""
    joined = re.sub(r"(?<=\bN) = (?=\d)|(?<=\d) (?=%)", _joined, visible(sentence))
    text = str(Markup.escape(joined))
    return Markup(_HYPHENATED.sub(r'<span class="whole">\g<0></span>', text))


def _joined(gap: re.Match[str]) -> str:
    return gap[0].replace(" ", "\N{NO-BREAK SPACE}")
