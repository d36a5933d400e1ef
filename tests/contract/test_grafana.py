"""The Grafana dashboard asks for metrics that exist, as differences where they only grow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from capplan.profiles.engine_names import COUNTERS, HISTOGRAMS, VLLM, known_names, plain_name

DASHBOARD = Path(__file__).parents[2] / "examples" / "grafana" / "capplan.json"
METRIC = re.compile(r"vllm:[a-z_]+")


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def expressions(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_is_one_that_the_parser_reads(expressions):
    asked = {plain_name(name) for text in expressions for name in METRIC.findall(text)}
    assert len(asked) > 12
    assert asked <= known_names()


def test_what_only_grows_is_never_shown_as_it_stands(expressions):
    grows = {name for field in COUNTERS for name in VLLM.fields.get(field, ())}
    grows |= {
        f"{name}{end}"
        for field in HISTOGRAMS
        for name in VLLM.fields.get(field, ())
        for end in ("_sum", "_count")
    }
    for text in expressions:
        for found in METRIC.finditer(text):
            if plain_name(found.group()) in grows:
                assert text[: found.start()].endswith("rate("), text


def test_brackets_close_and_panels_do_not_overlap(dashboard, expressions):
    for text in expressions:
        assert all(text.count(a) == text.count(b) for a, b in ("()", "{}", "[]"))
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert all(panel["description"] for panel in dashboard["panels"])
