"""What the clients do below HTTP: names, certificates, proxies, and tables that never come."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from capplan.errors import FactsError, ServerError
from capplan.facts import gpuhunt_tables
from capplan.profiles.http_exchange import exchange
from capplan.profiles.server_http import get, get_metrics, parse_address

ROOT = Path(__file__).parents[2]
BOUND_S = 30.0


@contextmanager
def listening(serve: Any) -> Iterator[int]:
    """Serve connections on loopback by a function until the block ends."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.2)
    over = threading.Event()

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            threading.Thread(target=_served, args=(serve, connection), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield server.getsockname()[1]
    over.set()
    thread.join()
    server.close()


def _served(serve: Any, connection: socket.socket) -> None:
    with connection:
        try:
            serve(connection)
        except OSError:
            return  # the client hung up, as it should


def test_a_dripped_handshake_ends_at_the_deadline() -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"\x16\x03\x03\x40\x00")  # a record that never gets whole
        for _ in range(2_000):
            connection.sendall(b"\x02")
            time.sleep(0.05)

    with listening(drip) as port:
        began_s = time.monotonic()
        with pytest.raises(ServerError, match="in time"):
            get(parse_address(f"https://127.0.0.1:{port}"), "/metrics", timeout_s=1.0)
        assert time.monotonic() - began_s < BOUND_S


def test_the_socket_of_a_refused_answer_is_closed_at_once() -> None:
    """Not when the error is forgotten: a load of thousands of requests would run out of files."""
    hung_up = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfar too much")
        with suppress(ConnectionError):  # hung up on with bytes unread
            connection.recv(1)
        hung_up.set()

    with listening(answer) as port:
        address, deadline_s = parse_address(f"http://127.0.0.1:{port}"), time.monotonic() + BOUND_S
        with (
            pytest.raises(ServerError, match="answers with more") as caught,
            exchange(address, "GET", "/metrics", deadline_s=deadline_s) as came,
        ):
            came.whole(4)
        assert hung_up.wait(BOUND_S / 3)
        assert caught.value.remedy


def test_a_server_that_speaks_no_tls_is_explained() -> None:
    with (
        listening(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")) as port,
        pytest.raises(ServerError, match="encrypted connection failed"),
    ):
        get(parse_address(f"https://127.0.0.1:{port}"), "/metrics", timeout_s=20.0)


def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    try:
        subprocess.run(
            [*made, "-keyout", str(key), "-out", str(certificate), "-days", "2"],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs openssl")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    heard: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            heard.append(encrypted.recv(100))

    with (
        listening(answer) as port,
        pytest.raises(ServerError, match="certificate is not trusted"),
    ):
        get(parse_address(f"https://localhost:{port}"), "/v1", api_key="secret", timeout_s=20.0)
    assert not any(heard)


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*_: Any, flags: int = 0, **__: Any) -> Any:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        released.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "too late")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    began_s = time.monotonic()
    with pytest.raises(ServerError, match="in time"):
        get(parse_address("http://engine.example:8000"), "/metrics", timeout_s=0.5)
    assert time.monotonic() - began_s < BOUND_S
    released.set()


def test_a_name_that_nobody_knows_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ServerError, match="Name or service not known"):
        get(parse_address("http://engine.example"), "/metrics")


def test_no_proxy_of_the_environment_is_asked(
    stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    with listening(lambda connection: asked.append(connection.recv(10))) as port:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        with stand_in.StandIn() as server:
            assert get(parse_address(server.url), "/metrics").status == 200
    assert asked == []


def test_the_second_address_of_a_name_is_tried(
    stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_in.StandIn() as server, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens there
        places = [taken.getsockname(), ("127.0.0.1", server.server.server_port)]
        rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
        assert get(parse_address("http://engine.example:8000"), "/metrics").status == 200


def test_a_price_table_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    class Slow:
        def load(self) -> None:
            released.wait(60)

    monkeypatch.setattr(gpuhunt_tables, "LOAD_TIMEOUT_S", 0.3)
    with pytest.raises(FactsError, match="did not come") as caught:
        gpuhunt_tables._load(SimpleNamespace(GPUHuntError=RuntimeError), Slow())
    released.set()
    assert gpuhunt_tables.LOCAL_CATALOGUE in caught.value.remedy


@pytest.mark.parametrize("error", [OSError("no route"), RuntimeError("broken"), ValueError("zip")])
def test_a_price_table_that_is_broken_is_explained(error: Exception) -> None:
    class Broken:
        def load(self) -> None:
            raise error

    with pytest.raises(FactsError, match=str(error)):
        gpuhunt_tables._load(SimpleNamespace(GPUHuntError=RuntimeError), Broken())


def test_no_code_of_a_checkpoint_is_trusted() -> None:
    settings = []
    for folder in ("capplan", "profiler"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            settings += re.findall(r"trust_remote_code[\"']?\s*[=:]\s*(\w+)", text)
            assert "trust-remote-code" not in text.replace("known", "") or "deploy" in path.parts
    assert settings
    assert set(settings) == {"False"}


def test_a_server_that_asks_to_wait_is_quoted_and_not_obeyed(hostile: Any) -> None:
    began_s = time.monotonic()
    with hostile.Hostile(faults={"GET": ("answers_429", 1)}) as server:
        with pytest.raises(ServerError, match="asks to wait 30 s"):
            get_metrics(parse_address(server.url))
        server.faults["GET"] = ("asks_to_wait_for_ever", 1)
        with pytest.raises(ServerError) as caught:
            get_metrics(parse_address(server.url))
    assert caught.value.message == f"{server.url} does not show its metrics (/metrics 503)."
    assert time.monotonic() - began_s < BOUND_S
