"""How long a page takes: to write one of many options, and for a browser to draw it.

    python benchmarks/report.py [--options 200]

Prints CPU seconds of rendering, the page's size, and, where Chromium is installed, CPU seconds of
the page's thread from opening the file to the last figure, at 1280 px. CPU and the least of
several, so that a busy machine counts little.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from capplan.reporting import render
from capplan.schema.plan import Plan

TESTS = Path(__file__).parents[1] / "tests"
GOAL_S, GOAL_MB = 1.5, 6.0
CURVES = 20
"""Options with a curve; the planner gives five a target and those on the front one."""


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def plan_of(options: int) -> Plan:
    """Return the illustrative plan of the tests with so many options.

    As in the planner's own, the best ones have a curve over the load and the rest none.
    """
    samples = _module(TESTS / "sample_plans.py")
    plan: Plan = samples.make_plan()
    several = [
        option.model_copy(
            update={
                "id": f"{option.id}/{place}",
                "load_curve": option.load_curve if place < CURVES else (),
            }
        )
        for place, option in enumerate(plan.options * (options // len(plan.options) + 1))
    ]
    return plan.model_copy(update={"options": tuple(several[:options])})


def rendering_s(plan: Plan, repeats: int) -> tuple[float, str]:
    """Return the least CPU seconds of a rendering, plotly's import aside, and the page."""
    page = render(plan, "html")
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        page = render(plan, "html")
        spent.append(time.process_time() - began)
    return min(spent), page


def drawing_s(page: str, repeats: int) -> tuple[float, float] | None:
    """Return CPU seconds until the file is loaded and until all is drawn.

    Those of the opening that took least; None where there is no Chromium.
    """
    driver = _module(TESTS / "browser" / "chromium.py")
    if driver.EXECUTABLE is None:
        return None
    browser = driver.Chromium()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            path.write_text(page, encoding="utf-8")
            opened = [_opening_s(browser, path) for _ in range(repeats)]
        return min(opened, key=lambda seconds: seconds[1])
    finally:
        browser.close()


def _opening_s(browser: Any, path: Path) -> tuple[float, float]:
    browser.open(path, count_cpu=True)
    loaded = browser.cpu_s()
    browser.settle()
    return loaded, browser.cpu_s()


def main() -> None:
    """Print the figures beside the goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--options", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    seconds, page = rendering_s(plan_of(asked.options), asked.repeats)
    megabytes = len(page.encode()) / 1e6
    print(f"rendering {asked.options} options: {seconds:.2f} s of CPU (goal {GOAL_S:g} s)")
    print(f"size: {megabytes:.2f} MB (goal {GOAL_MB:g} MB)")
    drawn = drawing_s(page, asked.repeats)
    if drawn is None:
        print("drawing: no Chromium here")
    else:
        print(
            f"Chromium, CPU of the page's thread: {drawn[0]:.2f} s until everything is loaded, "
            f"{drawn[1]:.2f} s until the last figure is drawn (goal {GOAL_S:g} s)"
        )


if __name__ == "__main__":
    main()
