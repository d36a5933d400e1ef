"""Figures of anything in a server's JSON: read as what they are, or left out; never a crash."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given, settings, strategies as st

from capplan.errors import MetricsError, ServerError
from capplan.profiles.engine_reading import MOST, read_scrape
from capplan.profiles.metrics_import import window_observations
from profiler.backends.live_answers import choice, ids, log_probs, reported
from profiler.backends.live_lossless import rated
from profiler.backends.live_stream import MOST_TOKENS, Stream, counted

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=10**300, max_value=10**320),
        st.floats(),
        st.text(max_size=10),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "choices",
        "usage",
        "metrics",
        "error",
        "delta",
        "text",
        "finish_reason",
        "content",
        "logprobs",
    ]
)
USED = st.sampled_from(["prompt_tokens", "completion_tokens", "prompt_tokens_details"])
EVENTS = st.dictionaries(KEYS, st.one_of(JSON, st.lists(st.dictionaries(KEYS, JSON), max_size=3)))


@given(st.lists(EVENTS, max_size=3), st.dictionaries(USED, JSON, max_size=3))
@settings(deadline=None, max_examples=20)
def test_a_stream_of_anything_is_taken_or_refused(events: list[Any], usage: Any) -> None:
    stream = Stream("a prompt", 4)
    said = []
    for event in events:
        try:
            stream.take(event, 1.0)
        except ServerError as error:
            said.append(error.message)
    assert all(map(str.isprintable, said))
    stream.usage = {**usage, **(stream.usage if isinstance(stream.usage, dict) else {})}
    for tokens in (stream.prompt_tokens, stream.output_tokens, stream.cached_tokens):
        assert tokens is None or 0 <= tokens <= MOST_TOKENS
    assert stream.finish_reason.isprintable()
    assert stream.contradiction.isprintable()


@given(JSON, JSON)
@settings(deadline=None, max_examples=40)
def test_counts_tokens_and_log_probabilities_of_anything_are_finite(one: Any, other: Any) -> None:
    for document in (one, {"choices": [one]}, {"choices": one}, {"token_logprobs": one}):
        assert isinstance(choice(document), dict)
        assert all(math.isfinite(value) for value in reported(document))
    assert all(math.isfinite(value) for value in reported({"content": [{"logprob": other}]}))
    assert all(0 <= token < 2**31 for token in ids(one))
    found = log_probs({"7": one, "x": other, "8": {"logprob": one}, "\u00b2": {"logprob": 1}})
    assert set(found) <= {8}
    assert counted({"n": one}, "n") is None or one >= 0


LISTED = st.dictionaries(
    st.integers(0, 30), st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20
)


@given(LISTED, st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.0, 50.0]), st.integers(1, 10**6))
@settings(deadline=None, max_examples=40)
def test_log_probabilities_of_anything_are_rated_or_refused(
    listed: dict[int, float], temperature: float, vocab_size: int
) -> None:
    _check(rated(next(iter(listed)), listed, temperature, vocab_size))


@given(
    st.lists(st.floats(-1e6, 0), min_size=1, max_size=20),
    st.sampled_from([0.0, 0.01, 0.3, 1.0, 2.0, 50.0]),
)
@settings(deadline=None, max_examples=40)
def test_so_are_those_that_look_like_some(values: list[float], temperature: float) -> None:
    _check(rated(0, dict(enumerate([*values, -0.1])), temperature, 10**6))


def _check(place: Any) -> None:
    if place is not None:
        figures = (
            place.log_prob,
            place.least,
            place.most,
            place.behind,
            place.raw,
            place.tempered,
        )
        assert all(map(math.isfinite, figures))
        assert place.least <= place.most


NUMBERS = st.one_of(
    st.floats(),
    st.integers(-5, 10**25),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e308", "1e-308", "-0", "007"]),
)
NAMES = (
    *("spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total"),
    *("spec_decode_num_accepted_tokens_total", "generation_tokens_total", "prompt_tokens_total"),
    *("request_success_total", "num_requests_running", "kv_cache_usage_perc"),
    *("time_to_first_token_seconds_sum", "time_to_first_token_seconds_count"),
    *("inter_token_latency_seconds_sum", "inter_token_latency_seconds_count"),
    "spec_decode_num_accepted_tokens_per_pos_total",
)
TEXTS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["", "a", "b\\n"]), NUMBERS), max_size=20
)


@given(TEXTS, TEXTS)
@settings(deadline=None, max_examples=40)
def test_two_scrapes_of_anything_are_a_window_of_finite_figures(before: Any, after: Any) -> None:
    try:
        scrapes = [read_scrape(_exposition(rows)) for rows in (before, after)]
    except MetricsError:
        return
    for scrape in scrapes:
        for engine in scrape.engines:
            assert engine.model.isprintable()
            assert all(0 <= value <= len(NAMES) * MOST for value in engine.counters.values())
    for seen in window_observations(*scrapes, "x", duration_s=5.0):
        json.loads(seen.model_dump_json(), parse_constant=_refused)


def _refused(constant: str) -> None:
    raise AssertionError(constant)


def _exposition(rows: Any) -> str:
    lines = [
        f'vllm:{name}{{model_name="{model}",position="0"}} {value}' for name, model, value in rows
    ]
    return "\n".join([*lines, ""])
