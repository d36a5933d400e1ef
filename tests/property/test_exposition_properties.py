"""Metrics texts of any kind: nothing crashes, what is written is what is read."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path

from hypothesis import given, settings, strategies as st

from capplan.errors import CapplanError
from capplan.profiles.exposition import parse_exposition
from capplan.profiles.metrics_import import observe_text, observe_text_parts, observe_window

METRICS = Path(__file__).parents[1] / "data" / "metrics"
TEXTS = [path.read_text() for path in sorted(METRICS.iterdir()) if path.suffix != ".md"]
names = st.from_regex(r"[a-z_:][a-z0-9_:]{0,12}", fullmatch=True)
label_names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
numbers = st.floats(allow_nan=True, allow_infinity=True)


def spelled(value):
    if math.isnan(value):
        return "NaN"
    return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, repr(value))


def escaped(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def written(name, labels, value):
    inner = ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {spelled(value)}"


def same(one, other):
    return one == other or (math.isnan(one) and math.isnan(other))


@given(
    st.lists(
        st.tuples(names, st.dictionaries(label_names, st.text(max_size=12), max_size=3), numbers),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_what_is_written_is_read(rows, end):
    # a carriage return at the end of a label's value is not told from a line end of Windows
    rows = [(n, {k: v.replace("\r", "") for k, v in ls.items()}, x) for n, ls, x in rows]
    unique = {(n, tuple(sorted(ls.items()))): x for n, ls, x in rows}
    text = "".join(written(n, ls, x) + end for n, ls, x in rows)
    read = {(s.name, s.labels): s.value for s in parse_exposition(text).samples}
    assert read.keys() == unique.keys()
    assert all(same(read[key], unique[key]) for key in read)


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused_in_our_own_words(text):
    with suppress(CapplanError):
        parse_exposition(text)
        observe_text(text, "any")


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_damage_to_a_real_text_never_crashes_nor_gives_a_negative_figure(text, data):
    cut = data.draw(st.integers(0, len(text)))
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text(max_size=6)) + text[at : at + cut]
    with suppress(CapplanError):
        for one, other in ((text, damaged), (damaged, text)):
            seen = observe_window(one, other, "damaged", duration_s=10.0)
            check_sound(seen)
        for part in observe_text_parts(damaged, "damaged"):
            check_sound(part)


def check_sound(seen):
    totals = (seen.output_tokens, seen.prompt_tokens, seen.completed, seen.output_tokens_per_s)
    assert all(value is None or value >= 0 for value in totals)
    if seen.speculation is not None:
        assert seen.speculation.acceptance_rate is None or seen.speculation.acceptance_rate <= 1
