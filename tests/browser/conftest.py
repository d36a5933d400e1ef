"""One Chromium for all tests of pages; without it they are skipped, and say so."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _driver() -> Any:
    path = Path(__file__).with_name("chromium.py")
    spec = importlib.util.spec_from_file_location("chromium_driver", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    driver = _driver()
    if driver.EXECUTABLE is None:
        pytest.skip("needs Chromium: on Debian and Ubuntu, apt install chromium")
    chromium = driver.Chromium()
    try:
        yield chromium
    finally:
        chromium.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory, sample_plans: Any, synthetic: Any) -> Path:
    """A folder with a page of every kind: plan, plan of services, plans compared, profile."""
    from capplan.api.comparing import diff_plans
    from capplan.api.guide import audit_guide
    from capplan.api.plans import recommend
    from capplan.reporting import render
    from capplan.reporting.compare_page import render_comparison
    from capplan.reporting.profile_page import render_profile_page

    folder = tmp_path_factory.mktemp("pages")
    plan = sample_plans.make_plan()
    dearer = plan.model_copy(update={"options": plan.options[3:]})
    compared = render_comparison(diff_plans(plan, dearer), (plan, dearer), "0")
    profile, arrays = synthetic.profile()
    for name, text in (
        ("plan", render(plan, "html", audit_guide())),
        ("services", render(recommend(sample_plans.two_services()), "html")),
        ("compare", compared),
        ("profile", render_profile_page(profile, arrays)),
    ):
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder
