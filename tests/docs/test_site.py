"""The pages as a site: links hold, nothing is fetched, and pages stay short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_MOST_LINES = 150
_SHORT = ("tutorial.md", "how-to/*.md", "beliefs/*.md", "README.md", "reference/README.md")
_FETCHED = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*\bsrc="((?:https?:)?//[^"]+)"'
    r'|<link\b[^>]*\brel="(?:stylesheet|preconnect|icon|preload)"[^>]*\bhref="((?:https?:)?//[^"]+)"'
    r'|<link\b[^>]*\bhref="((?:https?:)?//[^"]+)"[^>]*\brel="(?:stylesheet|preconnect|icon|preload)"'
)


@pytest.mark.parametrize("pattern", _SHORT)
def test_pages_that_are_written_by_hand_stay_short(pattern: str) -> None:
    for path in DOCS.glob(pattern):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= _MOST_LINES, f"{path.name} has {len(lines)} lines"


def test_every_page_is_in_the_site(site: Path) -> None:
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).with_suffix(".html")
        built = site / (name.with_name("index.html") if path.name == "README.md" else name)
        assert built.exists(), built


def test_the_site_fetches_nothing(site: Path) -> None:
    for path in site.rglob("*.html"):
        found = _FETCHED.findall(path.read_text(encoding="utf-8"))
        assert not found, f"{path.name}: {found}"
    for path in site.rglob("*.css"):
        assert "url(http" not in path.read_text(encoding="utf-8"), path.name


def test_every_link_of_the_site_leads_to_a_file(site: Path) -> None:
    for path in site.rglob("*.html"):
        if path.name == "404.html":
            continue
        for link in re.findall(r'href="([^"#?]+)', path.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:|//", link):
                assert (path.parent / link).exists(), f"{link} of {path.relative_to(site)}"
