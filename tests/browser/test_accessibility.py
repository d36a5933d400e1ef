"""Pages for who does not see or point: nothing serious for axe-core, all within the keyboard."""

from __future__ import annotations

import importlib.util
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser
KINDS = ["plan", "services", "compare", "profile"]


@pytest.fixture(scope="session")
def axe() -> str:
    spec = importlib.util.find_spec("axe_core_python")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs axe-core: pip install axe-core-python (in the extra 'test')")
    folder = Path(spec.submodule_search_locations[0])
    return (folder / "axe.min.js").read_text(encoding="utf-8")


def _found(browser: Any, axe: str) -> list[str]:
    """Return what axe calls serious or critical, with the place of each."""
    browser.value(f"{axe}; 0")
    seen = browser.value("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['help']}: {node['html'][:160]}"
        for one in seen["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_axe_finds_nothing_serious(
    browser: Any, pages: Path, axe: str, kind: str, width: int, scheme: str
) -> None:
    browser.open(
        pages / f"{kind}.html",
        width=width,
        media={"prefers-color-scheme": scheme},
        bypass_policy=True,
    )
    browser.value("document.querySelectorAll('details').forEach((e) => (e.open = true)); 0")
    assert _found(browser, axe) == []


def test_axe_sees_what_it_should(browser: Any, pages: Path, axe: str) -> None:
    browser.open(pages / "profile.html", bypass_policy=True)
    browser.value(
        "document.body.insertAdjacentHTML('beforeend', '<main><input><p style=\"color:#ccc;"
        "background:#fff\">pale</p></main>'); 0"
    )
    found = " ".join(_found(browser, axe))
    assert "label" in found
    assert "color-contrast" in found


def test_the_keyboard_reaches_every_control_and_sees_where_it_is(
    browser: Any, pages: Path
) -> None:
    browser.open(pages / "plan.html")
    wanted = browser.value(
        "document.querySelectorAll('main :is(a[href], button, input, summary, [tabindex=\"0\"])')"
        ".length"
    )
    reached, unseen = set(), []
    for step in range(wanted + 20):
        browser.press("Tab")
        here = browser.value(
            "(() => { const e = document.activeElement;"
            "if (!e || e === document.body) return null;"
            "e.dataset.seen ??= String(Math.random());"
            "return [e.dataset.seen, e.outerHTML.slice(0, 90), getComputedStyle(e).outlineStyle,"
            "e.matches('main *')]; })()"
        )
        if here is None:
            break
        if step == 0:
            assert 'class="skip"' in here[1]
        if here[3]:
            reached.add(here[0])
        if here[2] == "none":
            unseen.append(here[1])
    assert unseen == []
    assert len(reached) >= wanted - 8  # closed details hide theirs; figures have none


def test_a_screen_reader_hears_headings_in_order_and_names_of_figures(
    browser: Any, pages: Path
) -> None:
    for kind in KINDS:
        browser.open(pages / f"{kind}.html")
        levels = browser.value(
            "[...document.querySelectorAll('h1, h2, h3')].map((e) => Number(e.tagName[1]))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        steps = [after - before for before, after in pairwise(levels)]
        assert max(steps) <= 1
        named = browser.value(
            "[...document.querySelectorAll('[role=img], [role=region], [role=group]')].every("
            "(e) => (e.getAttribute('aria-label') || '').length > 3)"
        )
        assert named


def test_an_answer_of_the_controls_is_announced(browser: Any, pages: Path) -> None:
    browser.open(pages / "plan.html")
    live = browser.value("document.querySelector('[data-answer]').getAttribute('role')")
    assert live == "status"
    label = browser.value(
        "[...document.querySelectorAll('[data-what-if] input')].every((e) => e.labels.length > 0 "
        "|| e.getAttribute('aria-label'))"
    )
    assert label


def test_every_origin_is_two_clicks_away(browser: Any, pages: Path) -> None:
    browser.open(pages / "plan.html")
    links = browser.value(
        "[...document.querySelectorAll('a.traced')].map((e) => e.getAttribute('href'))"
    )
    assert len(links) > 40
    nowhere = f"{json.dumps(links)}.filter((link) => !document.querySelector(link))"
    assert browser.value(nowhere) == []
    browser.click(".headlines a[href='#origin-1-tpot']")
    assert browser.value("location.hash") == "#origin-1-tpot"
    browser.click("#origin-1-tpot a[href='#origin-1-acceptance']")
    assert browser.value("location.hash") == "#origin-1-acceptance"
    told = browser.value("document.querySelector(':target').innerText")
    assert "profile h100-qwen3, 2026-11-20" in told
