"""The pages in a real browser, opened from files, with every host name mapped to nowhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from capplan.reporting import render
from capplan.reporting.html import figure_specs

pytestmark = pytest.mark.browser
KINDS = ["plan", "services", "compare", "profile"]
HOSTILE = (
    "</script><script>document.title='planted'</script><img src=x onerror=alert(1)>"
    "\"'`${1}\u202emoc.live\u2066 {{ 7*7 }} %{x}"
)


@pytest.fixture(scope="session")
def evil(tmp_path_factory: pytest.TempPathFactory, sample_plans: Any) -> Path:
    """A page all of whose names are hostile."""
    names = dict.fromkeys(
        ("target", "draft", "gpu_name", "provider", "instance", "launch", "tier_note"), HOSTILE
    )
    option = sample_plans.make_option(**names, id=HOSTILE, warnings=(HOSTILE,))
    schedule = sample_plans.length_schedule(target=HOSTILE, reason=HOSTILE, notes=(HOSTILE,))
    plan = sample_plans.make_plan(
        options=(option, *sample_plans.other_options()),
        baseline=sample_plans.make_baseline(target=HOSTILE),
        advice=(HOSTILE,),
        schedules=(schedule,),
        profiles=(HOSTILE,),
    )
    path = tmp_path_factory.mktemp("evil") / "evil.html"
    path.write_text(render(plan, "html"), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_opens_without_a_complaint_or_a_request(
    browser: Any, pages: Path, kind: str
) -> None:
    browser.open(pages / f"{kind}.html")
    assert browser.complaints() == []
    assert browser.requests() == []


def test_every_figure_of_a_plan_is_drawn(browser: Any, pages: Path, sample_plans: Any) -> None:
    browser.open(pages / "plan.html")
    drawn = browser.value(
        "[...document.querySelectorAll('[data-figure]')].map("
        "(place) => place.querySelectorAll('.main-svg path, .main-svg text').length)"
    )
    assert len(drawn) == len(figure_specs(sample_plans.make_plan()))
    assert min(drawn) > 10
    assert "planned: 22" in browser.value("document.body.innerHTML")
    hidden = "document.querySelectorAll('button[hidden], [data-what-if][hidden]').length"
    assert browser.value(hidden) == 0


def test_the_policy_stops_what_is_planted_into_the_page(browser: Any, pages: Path) -> None:
    planted = (
        '<img src="https://example.invalid/x.png"><script>document.title = "planted"</script>'
        '<script>fetch("https://example.invalid/")</script></main>'
    )
    path = pages / "planted.html"
    text = (pages / "plan.html").read_text(encoding="utf-8")
    path.write_text(text.replace("</main>", planted, 1), encoding="utf-8")
    browser.open(path)
    assert browser.value("document.title") != "planted"
    assert sum("Content Security Policy" in line for line in browser.complaints()) == 3
    assert browser.requests() == []


def test_hostile_names_run_nowhere_and_turn_nothing_around(browser: Any, evil: Path) -> None:
    browser.open(evil)
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.value("document.title") != "planted"
    assert browser.value("document.querySelectorAll('img').length") == 0
    shown = browser.value("document.body.innerText")
    assert "<img src=x onerror=alert(1)>" in shown
    assert "{{ 7*7 }}" in shown
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f]", shown)
    carried = browser.value("JSON.parse(document.getElementById('plan').textContent)")
    assert carried["options"][0]["target"] == HOSTILE


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_never_scrolls_sideways(browser: Any, pages: Path, kind: str, width: int) -> None:
    browser.open(pages / f"{kind}.html", width=width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    rights = (
        "[...document.querySelectorAll('svg')].filter((e) => !e.closest('.scroll'))"
        ".map((e) => e.getBoundingClientRect().right)"
    )
    assert browser.value(f"Math.max(0, ...{rights})") <= width


def test_page_and_figures_follow_the_dark_scheme(browser: Any, pages: Path) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        browser.open(pages / "plan.html", media={"prefers-color-scheme": scheme})
        seen[scheme] = browser.value(
            "[getComputedStyle(document.body).backgroundColor,"
            "getComputedStyle(document.querySelector('.main-svg .xtick text')).fill]"
        )
    assert seen["light"][0] == "rgb(245, 247, 249)"
    assert seen["dark"][0] == "rgb(16, 21, 27)"
    assert seen["light"][1] != seen["dark"][1]


def test_a_page_prints_its_figures_light(browser: Any, pages: Path) -> None:
    browser.open(pages / "plan.html", media={"prefers-color-scheme": "dark"})
    content = browser.pdf()
    assert content.startswith(b"%PDF-")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 16


def test_without_script_every_number_stands_in_a_table(browser: Any, pages: Path) -> None:
    browser.open(pages / "plan.html", script=False)
    shown = browser.send("DOM.getDocument", depth=-1)["root"]
    text = json.dumps(shown)
    for figure in ("1.43x", "11,651 USD", "Figures and controls need JavaScript"):
        assert figure in text
    page = (pages / "plan.html").read_text(encoding="utf-8")
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for place in re.findall(r'data-figure="[^"]+"', markup):
        after = markup[markup.index(place) :]
        assert "<table" in after[: after.index("</section>")], place
    assert re.search(r"<section[^>]*data-what-if[^>]* hidden>", markup)


def test_the_copy_button_copies_the_launch_text(
    browser: Any, pages: Path, sample_plans: Any
) -> None:
    browser.open(pages / "plan.html")
    # A page of its own may not be given the clipboard: what is selected and copied is looked at.
    browser.value(
        "window.copied = []; document.addEventListener('copy', () => window.copied.push("
        "document.activeElement.value ?? ''), true);"
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: (text) => {"
        "window.copied.push(text); return Promise.resolve(); }}}); 0"
    )
    browser.click("[data-copy='launch-1']")
    launch = sample_plans.make_option().launch
    assert browser.value("window.copied") == [launch]
    button = "document.querySelector(\"[data-copy='launch-1']\").textContent"
    assert browser.value(button) == "Copied"


def test_copying_falls_back_where_the_clipboard_is_refused(
    browser: Any, pages: Path, sample_plans: Any
) -> None:
    browser.open(pages / "plan.html")
    browser.value(
        "window.copied = []; document.addEventListener('copy', () => window.copied.push("
        "document.activeElement.value), true);"
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: () => "
        "Promise.reject(new Error('refused'))}}); 0"
    )
    browser.click("[data-copy='launch-1']")
    assert browser.value("new Promise((d) => setTimeout(() => d(window.copied), 100))") == [
        sample_plans.make_option().launch
    ]


def test_a_page_is_light_enough_to_send(pages: Path) -> None:
    for kind in KINDS:
        assert (pages / f"{kind}.html").stat().st_size <= 6_000_000
