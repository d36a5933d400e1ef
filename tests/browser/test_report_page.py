"""The report in a real browser, opened from a file, with every host name mapped to nowhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from capplan.reporting import render
from capplan.reporting.html import figure_specs

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs headless Chromium"),
]
EVIL = "<script>alert(1)</script>"
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--allow-file-access-from-files",
    "--enable-logging=stderr",
    "--virtual-time-budget=8000",
    "--dump-dom",
)
_CONSOLE = re.compile(r"CONSOLE[:(]\S*\s*(.*)")

# Measures the page from outside: the page's own policy lets no foreign script in.
_FRAME = """<!doctype html><style>iframe {{ width: {width}px; height: 900px; border: 0 }}</style>
<iframe id="f" src="page.html"></iframe><pre id="out"></pre><script>
document.getElementById("f").addEventListener("load", function () {{
  var page = this.contentDocument, view = this.contentWindow;
  var text = page.querySelector(".main-svg .xtick text");
  var widest = 0;
  page.querySelectorAll(".main-svg").forEach(function (svg) {{
    widest = Math.max(widest, svg.getBoundingClientRect().right);
  }});
  document.getElementById("out").textContent = [
    "scroll=" + page.documentElement.scrollWidth,
    "figure=" + Math.round(widest),
    "page=" + view.getComputedStyle(page.body).backgroundColor,
    "tick=" + view.getComputedStyle(text).fill
  ].join(" ");
}});
</script>"""


def _open(path: Path, profile: Path, *more: str) -> tuple[str, list[str]]:
    """Return the document after scripts ran, and what the console said."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", *more, path.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return run.stdout, _CONSOLE.findall(run.stderr)


def _measure(folder: Path, width: int, *more: str) -> dict[str, str]:
    frame = folder / "frame.html"
    frame.write_text(_FRAME.format(width=width), encoding="utf-8")
    document, _ = _open(frame, folder / "profile", *more)
    match = re.search(r'<pre id="out">(.*?)</pre>', document)
    assert match is not None
    return dict(re.findall(r"(\w+)=(rgb\([^)]*\)|\S+)", match.group(1)))


@pytest.fixture
def page(tmp_path: Path, sample_plans: Any) -> Path:
    path = tmp_path / "page.html"
    path.write_text(render(sample_plans.make_plan(), "html"), encoding="utf-8")
    return path


def test_the_page_draws_its_figures_without_a_complaint(page: Path, sample_plans: Any) -> None:
    document, console = _open(page, page.parent / "profile")
    assert console == []
    figures = figure_specs(sample_plans.make_plan())
    assert len(re.findall(r'<svg class="main-svg"', document)) >= len(figures)
    assert "planned: 22" in document
    assert len(re.findall(r"<button[^>]*hidden", document)) == 0


def test_the_policy_stops_what_is_planted_into_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    planted = (
        '<img src="https://example.invalid/x.png"><script>document.title = "planted"</script>'
        '<script>fetch("https://example.invalid/")</script></main>'
    )
    page.write_text(text.replace("</main>", planted, 1), encoding="utf-8")
    document, console = _open(page, page.parent / "profile")
    assert "<title>planted</title>" not in document
    assert sum("Content Security Policy" in line for line in console) == 3


def test_a_hostile_name_runs_nowhere(page: Path, sample_plans: Any) -> None:
    option = sample_plans.make_option(target=EVIL, draft=EVIL, gpu_name=EVIL, launch=EVIL)
    plan = sample_plans.make_plan(options=(option, *sample_plans.other_options()))
    page.write_text(render(plan, "html"), encoding="utf-8")
    document, console = _open(page, page.parent / "profile")
    assert console == []
    assert len(re.findall(r"<script\b", document)) == 4
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in document


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(page: Path, width: int) -> None:
    seen = _measure(page.parent, width)
    assert int(seen["scroll"]) <= width
    assert int(seen["figure"]) <= width


def test_page_and_figures_follow_the_dark_scheme(page: Path) -> None:
    light = _measure(page.parent, 800)
    dark = _measure(page.parent, 800, "--blink-settings=preferredColorScheme=0")
    assert light["page"] == "rgb(245, 247, 249)"
    assert dark["page"] == "rgb(16, 21, 27)"
    assert light["tick"] != dark["tick"]


def test_the_page_prints_its_figures(page: Path) -> None:
    pdf = page.with_suffix(".pdf")
    _open(page, page.parent / "profile", f"--print-to-pdf={pdf}")
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 12
