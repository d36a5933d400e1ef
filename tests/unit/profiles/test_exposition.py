"""Metrics texts, line by line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from capplan.errors import MetricsError
from capplan.profiles.exposition import parse_exposition, read_sample

METRICS = Path(__file__).parents[2] / "data" / "metrics"


def value_of(line, name="a"):
    found = {sample.name: sample for sample in parse_exposition(line + "\n").samples}
    return found[name]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1015.0", 1015.0),
        ("5.1902152704e+010", 51_902_152_704.0),
        ("1e-005", 1e-5),
        ("+Inf", math.inf),
        ("-Inf", -math.inf),
        (".5", 0.5),
        ("3", 3.0),
    ],
)
def test_a_number_is_read_however_it_is_written(written, value):
    assert value_of(f"a {written}").value == value


@pytest.mark.parametrize("written", ["1_000", "0x10", "1,000", "ten", "--1", "1e", ""])
def test_what_python_or_people_write_beside_numbers_is_none(written):
    assert read_sample(f"a {written}") is None


def test_nan_is_a_value():
    assert math.isnan(value_of("a NaN").value)


def test_labels_may_hold_slashes_braces_hashes_and_escapes():
    line = r'a{model_name="org/m-7B",x="} # {",y="say \"hi\"\\",z="two\nlines",w="\q"} 1'
    assert dict(value_of(line).labels) == {
        "model_name": "org/m-7B",
        "x": "} # {",
        "y": 'say "hi"\\',
        "z": "two\nlines",
        "w": r"\q",
    }


def test_a_label_may_hold_a_line_separator_of_unicode():
    assert dict(value_of('a{x="one\u2028two\x0bthree"} 1').labels)["x"] == "one\u2028two\x0bthree"


def test_the_order_of_labels_and_a_closing_comma_do_not_matter():
    assert value_of('a{b="1", c="2",} 1').labels == value_of('a{c="2",b="1"} 1').labels


def test_prometheus_3_puts_odd_names_inside_the_braces():
    sample = value_of('{"vllm:odd.name", engine="0"} 4', "vllm:odd.name")
    assert sample.value == 4
    assert sample.labels == (("engine", "0"),)


@pytest.mark.parametrize(
    ("stamp", "seconds"), [("1789846180123", 1_789_846_180.123), ("1789846180.5", 1_789_846_180.5)]
)
def test_timestamps_are_milliseconds_or_seconds_by_their_size(stamp, seconds):
    assert value_of(f"a 1 {stamp}").time_s == pytest.approx(seconds)


def test_of_a_series_with_timestamps_the_newest_counts_and_that_is_no_contradiction():
    seen = parse_exposition("a 7 1789846190.0\na 5 1789846180.0\n")
    assert [sample.value for sample in seen.samples] == [7]
    assert seen.contradictory == 0
    assert not seen.notes


def test_an_exemplar_is_no_part_of_the_value():
    seen = parse_exposition((METRICS / "vllm-openmetrics.txt").read_text())
    values = {sample.name: sample.value for sample in seen.samples if not sample.labels[1:]}
    assert not seen.truncated
    drafts = [s.value for s in seen.samples if s.name == "vllm:spec_decode_num_drafts_total"]
    assert drafts == [1015.0]
    assert 0.0865 not in values.values()
    buckets = [s for s in seen.samples if s.name.endswith("_bucket")]
    assert [(dict(s.labels)["le"], s.value) for s in buckets] == [("0.1", 12), ("+Inf", 18)]


def test_without_its_end_an_openmetrics_text_is_read_and_said_to_be_cut():
    text = (METRICS / "vllm-openmetrics.txt").read_text().replace("# EOF", "").rstrip() + "\n"
    seen = parse_exposition(text)
    assert seen.truncated
    assert any("# EOF" in note for note in seen.notes)
    assert any(s.name == "vllm:spec_decode_num_drafts_total" for s in seen.samples)


def test_the_older_dialect_has_no_end_to_miss():
    assert not parse_exposition((METRICS / "vllm-70b-after.prom").read_text()).truncated


def test_a_number_cut_in_the_middle_is_not_taken_for_a_smaller_one():
    seen = parse_exposition("a 12\nb 5185")
    assert [sample.name for sample in seen.samples] == ["a"]
    assert seen.truncated


def test_windows_line_ends_and_a_byte_order_mark_change_nothing():
    text = (METRICS / "vllm-70b-after.prom").read_text()
    windows = "\ufeff" + text.replace("\n", "\r\n")
    assert parse_exposition(windows).samples == parse_exposition(text).samples


def test_a_series_twice_with_two_values_is_a_contradiction_and_with_one_value_is_not():
    assert parse_exposition("a 1\na 2\n").contradictory == 1
    assert parse_exposition("a 1\na 1\n").contradictory == 0
    assert parse_exposition("a NaN\na NaN\n").contradictory == 0


def test_one_bad_line_costs_one_line_and_is_named():
    seen = parse_exposition('a 1\nb{c="} 2\nd 3\n')
    assert [sample.name for sample in seen.samples] == ["a", "d"]
    assert any("Line 2" in note for note in seen.notes)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "<html><body>502 Bad Gateway</body></html>\n", '{"a": 1}\n', "\x00\x01"]
)
def test_what_is_no_metrics_text_is_refused_with_what_it_is(text):
    with pytest.raises(MetricsError, match="no metrics text") as caught:
        parse_exposition(text)
    assert "/metrics" in caught.value.remedy
