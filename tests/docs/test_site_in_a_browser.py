"""The site as a reader opens it: from a folder, without a network, with a search that finds."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.browser
_PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = ROOT / "tests" / "browser" / "chromium.py"
    spec = importlib.util.spec_from_file_location("chromium_for_docs", path)
    assert spec is not None
    assert spec.loader is not None
    driver = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = driver
    spec.loader.exec_module(driver)
    if driver.EXECUTABLE is None:
        pytest.skip("needs Chromium: on Debian and Ubuntu, apt install chromium")
    chromium = driver.Chromium()
    try:
        yield chromium
    finally:
        chromium.close()


@pytest.mark.parametrize("name", ["index.html", "tutorial.html", "reference/cli/recommend.html"])
def test_a_page_opens_without_complaint_or_request(browser: Any, site: Path, name: str) -> None:
    browser.open(site / name)
    assert browser.complaints() == []
    assert browser.requests() == []


def test_the_search_finds_a_page_from_a_folder(browser: Any, site: Path) -> None:
    browser.open(site / "index.html")
    browser.value(
        "(() => { const q = document.querySelector('[data-md-component=search-query]');"
        "q.focus(); q.value = 'temperature'; q.dispatchEvent(new Event('keyup')); })()"
    )
    deadline = time.monotonic() + _PATIENCE_S
    found = 0
    while not found and time.monotonic() < deadline:
        time.sleep(0.2)
        found = browser.value("document.querySelectorAll('.md-search-result__item').length")
    assert found, browser.complaints()


def test_a_narrow_page_does_not_scroll_sideways(browser: Any, site: Path) -> None:
    browser.open(site / "beliefs" / "mixtures-of-experts.html", width=390, height=800)
    wide, shown = browser.value("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= shown
