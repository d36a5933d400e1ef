"""No template shows a value as markup, and no name of a plan becomes an element."""

from __future__ import annotations

import ast
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, nodes

from capplan import reporting
from capplan.reporting import render
from capplan.reporting.page import script_json
from capplan.resources import templates_dir

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}${7*7}</style></title>"
TEMPLATES = sorted(path.name for path in templates_dir().glob("*.j2"))
SCRIPTS = sorted(path.name for path in templates_dir().glob("*.js"))
SOURCES = sorted(Path(reporting.__file__).parent.glob("*.py"))
WRITES_MARKUP = (
    *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("),
    *("setTimeout('", 'setTimeout("', "createContextualFragment", "srcdoc"),
)
TRUSTED = {"policy", "style", "scripts", "data", "script", "text", "figures", "plan_json"}
"""What a template may put into ``style`` and ``script``: shipped texts, and JSON made safe."""


def tree(name: str) -> nodes.Template:
    source = (templates_dir() / name).read_text(encoding="utf-8")
    return Environment(autoescape=True).parse(source)


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_switches_escaping_off(name: str) -> None:
    filters = {found.name for found in tree(name).find_all(nodes.Filter)}
    assert not filters & {"safe", "tojson", "forceescape", "urlize", "xmlattr"}
    calls = {
        found.node.name
        for found in tree(name).find_all(nodes.Call)
        if isinstance(found.node, nodes.Name)
    }
    assert "Markup" not in calls
    assert not list(tree(name).find_all(nodes.ScopedEvalContextModifier))
    assert not list(tree(name).find_all(nodes.EvalContextModifier))


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_value_stands_where_escaping_does_not_help(name: str) -> None:
    """Unquoted attributes, addresses, event handlers and styles are not made safe by escaping."""
    finder = _Places()
    finder.feed(_marked((templates_dir() / name).read_text(encoding="utf-8")))
    assert finder.found == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_of_a_page_writes_markup(name: str) -> None:
    source = (templates_dir() / name).read_text(encoding="utf-8")
    assert [one for one in WRITES_MARKUP if one in source] == []


def test_markup_is_made_of_shipped_texts_and_of_escaped_json_alone() -> None:
    made = {}
    for path in SOURCES:
        calls = [
            ast.unparse(node)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Markup"
        ]
        if calls:
            made[path.name] = calls
    assert set(made) <= {"page.py"}


def test_json_in_a_script_cannot_end_it() -> None:
    text = script_json('{"a": "</script><!--&\u2028"}')
    assert not set("<>&\u2028") & set(text)


@pytest.fixture(scope="module")
def pages(sample_plans: Any) -> tuple[str, str]:
    def made(text: str | None) -> str:
        named = ("id", "target", "draft", "gpu_name", "provider", "region", "instance", "launch")
        changes: dict[str, Any] = {} if text is None else dict.fromkeys(named, text)
        if text is not None:
            changes["warnings"] = (text,)
        option = sample_plans.make_option(**changes)
        plan = sample_plans.make_plan(options=(option,), advice=(text or "advice",))
        if text is not None:
            verdict = plan.verdict.model_copy(update={"sentence": text})
            plan = plan.model_copy(update={"verdict": verdict})
        return render(plan, "html")

    return made(None), made(EVIL)


def test_a_hostile_plan_has_no_element_or_attribute_of_its_own_making(pages: Any) -> None:
    good, evil = (_shape(page) for page in pages)
    tags = {tag for tag, _ in evil}
    assert "img" not in tags
    assert not any(name.startswith("on") for _, names in evil for name in names)
    assert evil["script", ()] == good["script", ()]
    assert {tag for tag, _ in good} >= tags - {"ul", "li"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in pages[1]
    assert "<script>alert" not in pages[1]
    assert "{{7*7}}" in pages[1]  # shown, not computed
    widths = re.findall(r'style="([^"]*)"', _WITHOUT_SCRIPTS.sub("", pages[1]))
    assert all(re.fullmatch(r"width: [\d.]+%", one) for one in widths)


def _shape(page: str) -> Counter[tuple[str, tuple[str, ...]]]:
    finder = _Shape()
    finder.feed(page)
    return finder.seen


class _Shape(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, tuple[str, ...]]] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag, tuple(sorted(name for name, _ in attrs))] += 1


_MARK = "ZQMARK"
_WITHOUT_SCRIPTS = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)


def _marked(source: str) -> str:
    """Return a template with a word for every value and nothing for its statements."""
    environment = Environment(autoescape=True)
    parts: list[str] = []
    inside = False
    for _, kind, text in environment.lex(source):
        if kind == "variable_begin":
            inside = True
            parts.append(_MARK)
        elif kind == "variable_end":
            inside = False
        elif kind == "data" and not inside:
            parts.append(text)
    return "".join(parts)


class _Places(HTMLParser):
    """Finds values in places that escaping does not make safe."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raw = self.get_starttag_text() or ""
        for name, value in attrs:
            if _MARK not in f"{name}{value}".upper():
                continue
            unquoted = f'{name}="' not in raw and f"{name}='" not in raw
            active = name.startswith("on") or name in ("href", "src", "style", "action", "srcdoc")
            within = name == "href" and (value or "").startswith("#")
            bar = name == "style" and value == f"width: {_MARK}%"  # a number: see below
            if unquoted or (active and not within and not bar) or _MARK in name.upper():
                self.found.append(f"<{tag} {name}={value}>")
