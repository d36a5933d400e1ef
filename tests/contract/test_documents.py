"""Documents name only what is there, and every page is listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "models_db/**/*.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
)
_CODE = re.compile(r"```.*?```|`[^`\n]*`|^(?: {4}|\t).*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def links(path: Path) -> list[str]:
    return _LINK.findall(_CODE.sub("", path.read_text(encoding="utf-8")))


def anchors(path: Path) -> set[str]:
    """Return the anchors that a page's headings get on GitHub."""
    headings = re.findall(r"^#+ +(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in links(path):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), f"{link} of {path.name}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link} of {path.name}"


def test_every_page_is_listed() -> None:
    docs = ROOT / "docs"
    listed = {(docs / link).resolve() for link in links(docs / "README.md")}
    for page in docs.rglob("*.md"):
        known = page.resolve() in listed or page.parent.resolve() in listed - {docs}
        assert known or page == docs / "README.md", f"docs/README.md does not list {page.name}"
