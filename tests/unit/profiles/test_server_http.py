"""Asking a server that may be anything: in time, in bounds, and nowhere else."""

from __future__ import annotations

import socket
import time

import pytest

from capplan.errors import RequestError, ServerError
from capplan.profiles import server_http
from capplan.profiles.server_http import get, get_metrics, parse_address


@pytest.mark.parametrize(
    ("spelled", "address"),
    [
        ("http://localhost:8000", "http://localhost:8000"),
        ("localhost:8000", "http://localhost:8000"),
        ("http://localhost:8000/", "http://localhost:8000"),
        ("http://localhost:8000/metrics", "http://localhost:8000"),
        ("http://localhost:8000/v1/", "http://localhost:8000"),
        ("https://example.org/llm/v1/chat/completions", "https://example.org/llm"),
        ("https://EXAMPLE.org:8443", "https://example.org:8443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_is_read_from_any_of_its_usual_forms(spelled, address):
    assert str(parse_address(spelled)) == address


@pytest.mark.parametrize(
    "spelled",
    [
        "ftp://localhost",
        "file:///etc/passwd",
        "http://",
        "http://host:99999",
        "http://host/?x=1",
        "http://ho st",
        "http://host/\r\nX: 1",
        "",
    ],
)
def test_what_is_no_address_of_a_server_is_refused(spelled):
    with pytest.raises(RequestError):
        parse_address(spelled)


def test_credentials_in_an_address_are_refused_without_repeating_them():
    with pytest.raises(RequestError) as caught:
        parse_address("http://me:hunter2@localhost:8000")
    assert "hunter2" not in str(caught.value)
    assert "CAPPLAN_API_KEY" in caught.value.remedy


def ask(server, timeout_s=2.0):
    return get_metrics(parse_address(server.url), timeout_s=timeout_s)


def test_metrics_come_as_text_and_the_key_is_sent(stand_in):
    with stand_in.StandIn() as server:
        text = get_metrics(parse_address(server.url), api_key="k")
        assert text.startswith("vllm:spec_decode_num_drafts_total")
        assert server.seen == [("GET", "/metrics", "Bearer k")]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("error", "500"),
        ("locked", "401"),
        ("missing", "404"),
        ("no-http", "not HTTP"),
        ("gzip-bomb", "gzip"),
        ("hangs", "in time"),
        ("drips", "in time"),
        ("drips-to-the-close", "in time"),
        ("drips-its-head", "in time"),
        ("cut-short", "before the end"),
    ],
)
def test_a_bad_answer_is_explained_and_never_waited_for(stand_in, mode, said):
    with stand_in.StandIn(mode=mode) as server:
        began_s = time.monotonic()
        with pytest.raises(ServerError, match=said) as caught:
            ask(server, timeout_s=1.0)
        assert time.monotonic() - began_s < 5.0
        assert caught.value.remedy


def test_an_endless_answer_is_cut_at_the_limit(stand_in, monkeypatch):
    monkeypatch.setattr(server_http, "MAX_ANSWER_BYTES", 2**20)
    with stand_in.StandIn(mode="endless") as server, pytest.raises(ServerError, match="1 MiB"):
        ask(server, timeout_s=20)


def test_a_locked_server_is_answered_with_the_name_of_the_variable(stand_in):
    with stand_in.StandIn(mode="locked") as server, pytest.raises(ServerError) as caught:
        ask(server)
    assert "CAPPLAN_API_KEY" in caught.value.remedy


def test_a_redirect_to_another_host_is_not_followed_and_gets_no_key(stand_in):
    with stand_in.StandIn() as other, stand_in.StandIn(mode="redirects") as server:
        server.redirect_to = f"{other.url}/metrics"
        with pytest.raises(ServerError, match="another server"):
            get(parse_address(server.url), "/metrics", api_key="secret")
        assert other.seen == []


def test_a_redirect_within_the_server_is_followed_but_not_for_ever(stand_in):
    with stand_in.StandIn(mode="redirects") as server:
        server.redirect_to = "/there"
        assert "vllm:" in ask(server)
        server.redirect_to = "/metrics"
        with pytest.raises(ServerError, match="circles"):
            ask(server)


def test_nothing_listening_is_said_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with pytest.raises(ServerError, match="nothing listens"):
        get(parse_address(f"http://127.0.0.1:{port}"), "/metrics")
