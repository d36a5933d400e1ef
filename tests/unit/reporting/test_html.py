from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from capplan.reporting import render
from capplan.reporting.html import figure_specs
from capplan.reporting.page import script_json
from capplan.schema.plan import Plan

EVIL = "<script>alert(1)</script>"
_SCRIPT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)


@pytest.fixture(scope="module")
def page(sample_plans: Any) -> str:
    return render(sample_plans.make_plan(), "html")


@pytest.fixture(scope="module")
def evil_plan(sample_plans: Any) -> Plan:
    option = sample_plans.make_option(
        id=EVIL,
        target=EVIL,
        draft=EVIL,
        gpu_name=EVIL,
        provider=EVIL,
        launch=EVIL,
        warnings=(EVIL,),
    )
    verdict = sample_plans.make_plan().verdict.model_copy(update={"sentence": EVIL})
    schedule = sample_plans.length_schedule(
        target=EVIL, origin=EVIL, reason=EVIL, load=EVIL, notes=(EVIL,)
    )
    return sample_plans.make_plan(
        options=(option,), verdict=verdict, advice=(EVIL,), schedules=(schedule,)
    )


def _policy(page: str) -> str:
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert match is not None
    return match.group(1).replace("&#39;", "'")


def test_the_policy_forbids_every_connection(page: str) -> None:
    policy = _policy(page)
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    script_part = policy.split("script-src")[1].split(";")[0]
    assert "unsafe-inline" not in script_part


def test_the_policy_names_the_hash_of_every_script_and_no_other(page: str) -> None:
    bodies = [body for attributes, body in _SCRIPT.findall(page) if not attributes]
    hashes = {base64.b64encode(hashlib.sha256(b.encode()).digest()).decode() for b in bodies}
    assert len(bodies) == 5
    assert set(re.findall(r"'sha256-([^']+)'", _policy(page))) == hashes


def test_plotly_is_inlined_once_and_nothing_is_fetched(page: str) -> None:
    assert page.count("* plotly.js v") == 1
    assert "<script src" not in page
    assert "<link" not in page
    assert not re.search(r"<(?:img|iframe|object|embed)\b", _SCRIPT.sub("", page))


def test_the_page_carries_the_plan(page: str, sample_plans: Any) -> None:
    bodies = [body for attributes, body in _SCRIPT.findall(page) if 'id="plan"' in attributes]
    assert Plan.model_validate_json(bodies[0]) == sample_plans.make_plan()


def test_sections_come_in_order(page: str) -> None:
    ids = re.findall(r'<h2 id="([^"]+)"', page)
    assert ids == [
        "decision-1",
        "plan-1",
        "what-if-1",
        "checks-1",
        "cost-1",
        "sensitivity",
        "apis",
        "load-1",
        "lengths-1",
        "alternatives",
        "memory-1",
        "rejections",
        "assumptions",
        "origins-1",
        "method",
        "guide-1",
    ]


def test_ids_are_unique(page: str) -> None:
    ids = re.findall(r'\sid="([^"]+)"', _SCRIPT.sub("", page))
    assert len(set(ids)) == len(ids)


def test_every_column_has_a_scoped_header(page: str) -> None:
    markup = _SCRIPT.sub("", page)
    headers = re.findall(r"<th\b([^>]*)>", markup)
    assert headers
    assert all("scope=" in attributes for attributes in headers)


def test_a_hostile_name_is_text_everywhere(evil_plan: Plan) -> None:
    page = render(evil_plan, "html")
    assert EVIL not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert len(_SCRIPT.findall(page)) == 7


def test_a_hostile_name_is_text_in_figures_too(evil_plan: Plan) -> None:
    text = json.dumps(figure_specs(evil_plan))
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    templates = re.findall(r'"hovertemplate": "([^"]*)"', text)
    assert templates
    assert not any("alert" in template for template in templates)


def test_script_json_cannot_leave_its_element() -> None:
    text = script_json(json.dumps({"a": "</script><!--&\u2028"}))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--&\u2028"}


def test_figures_come_in_both_schemes(sample_plans: Any) -> None:
    specs = figure_specs(sample_plans.make_plan())
    assert set(specs) == {"speedup-1", "cost", "utilisation-1"}
    assert all(set(schemes) == {"light", "dark"} for schemes in specs.values())


def test_the_planned_load_is_noted_at_its_exponent(sample_plans: Any) -> None:
    layout = figure_specs(sample_plans.make_plan())["speedup-1"]["light"]["layout"]
    notes = [note for note in layout["annotations"] if note["text"] == "planned: 22"]
    assert notes[0]["x"] == pytest.approx(1.3424, abs=1e-4)


def test_every_figure_has_a_place_and_every_place_a_figure(page: str, sample_plans: Any) -> None:
    places = set(re.findall(r'data-figure="([^"]+)"', page))
    assert places == set(figure_specs(sample_plans.make_plan()))


def test_an_infeasible_plan_has_a_page_without_a_recommendation(sample_plans: Any) -> None:
    page = render(sample_plans.infeasible_plan(), "html")
    assert "What it would take" in page
    assert "Recommended" not in _SCRIPT.sub("", page)


def test_the_page_is_the_same_every_time(sample_plans: Any, page: str) -> None:
    assert render(sample_plans.make_plan(), "html") == page


def test_the_heading_keeps_numbers_with_their_signs(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    verdict = plan.verdict.model_copy(update={"sentence": "Speculate, N = 4: 50 % cheaper."})
    page = render(plan.model_copy(update={"verdict": verdict}), "html")
    assert "N\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}4: 50\N{NO-BREAK SPACE}% cheaper" in page


def test_an_interval_and_a_day_stay_on_one_line_and_a_name_stays_text(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    sentence = "Llama-3.1-8B <b>: 1.43x (1.31-1.56), read 2026-05-24. And more."
    verdict = plan.verdict.model_copy(update={"sentence": sentence})
    page = render(plan.model_copy(update={"verdict": verdict}), "html")
    interval, day = (
        f'<span class="whole">{text}</span>' for text in ("(1.31-1.56),", "2026-05-24")
    )
    assert f"<h1>Llama-3.1-8B &lt;b&gt;: 1.43x {interval} read {day}.</h1>" in page
    assert "<p>And more.</p>" in page


def test_what_is_not_decided_is_said_once(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    verdict = plan.verdict.model_copy(update={"decided": False})
    page = render(plan.model_copy(update={"verdict": verdict}), "html")
    assert page.count('big">Not decided<') == 1


def test_every_number_is_in_a_table_or_list_that_leads_to_its_origin(page: str) -> None:
    markup = _SCRIPT.sub("", page)
    for section in re.findall(r"<section.*?</section>", markup, re.DOTALL):
        if 'id="rejections"' in section or 'id="sensitivity"' in section:
            continue
        if re.search(r'class="(?:num|value)', section):
            assert 'class="traced"' in section, section[:200]
    links = re.findall(r'href="#(origin-[^"]+)"', markup)
    assert set(links) <= set(re.findall(r'id="(origin-[^"]+)"', markup))


def test_both_schemes_draw_the_same_figures(sample_plans: Any) -> None:
    for schemes in figure_specs(sample_plans.make_plan()).values():
        light, dark = (json.dumps(schemes[one]["data"]) for one in ("light", "dark"))
        assert light != dark
        assert len(schemes["light"]["data"]) == len(schemes["dark"]["data"])
        assert "#0b6e5f" not in dark


def test_a_page_of_two_hundred_options_stays_light(sample_plans: Any) -> None:
    plan = sample_plans.make_plan()
    many = tuple(
        # the planner gives five options a target, and those on the front, a curve over the load
        option.model_copy(update={"load_curve": option.load_curve if place < 20 else ()})
        for place, option in enumerate(plan.options * 40)
    )
    page = render(plan.model_copy(update={"options": many}), "html")
    assert len(page.encode()) <= 6_000_000
    assert "190 more options" in page
