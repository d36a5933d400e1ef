"""A planted key and planted prompts, searched for in every byte that is written or printed."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capplan.api.llms import load_llm
from capplan.errors import CapplanError, RequestError
from capplan.profiles.server_http import checked_key, get, parse_address
from profiler.backends.live_quotes import LEFT_OUT, quoted, quoted_body, repeats
from profiler.backends.vllm_environment import engine_environment
from profiler.server_session import ServerRequest, run_server_session

KEY = "sk-planted-7f3a9c1e5b2d"
WORDS = "xylophone quagmire zeppelin kumquat juxtaposes wyvern marmalade"
SECRETS = (KEY, *WORDS.split())
ROOT = Path(__file__).parents[2]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    file = tmp_path / "in" / "prompts.jsonl"
    file.parent.mkdir()
    rows = [f'{{"prompt": "Question {n}: {WORDS}?"}}' for n in range(8)]
    file.write_text("\n".join(rows), encoding="utf-8")
    return file


def held(folder: Path) -> str:
    """Return all that files of a folder hold, packed arrays unpacked, as one text."""
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            parts += [path.name, content.decode("latin-1")]
            if path.suffix == ".npz":
                arrays = np.load(io.BytesIO(content), allow_pickle=False)
                parts += [f"{name}{arrays[name].tolist()}" for name in arrays.files]
    return "\n".join(parts)


def leaks(text: str) -> list[str]:
    lowered = text.lower()
    return [secret for secret in SECRETS if secret.lower() in lowered]


@pytest.mark.parametrize(
    "fault",
    [
        "",
        *("echoes_what_was_sent", "echoes_as_success", "speaks_garbage", "answers_500"),
        *("stream_of_errors", "never_answers"),
    ],
)
def test_neither_key_nor_prompt_is_in_any_byte_of_a_profile(
    hostile: Any, tmp_path: Path, prompts: Path, fault: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    faults = {"POST": (fault, 4)} if fault else {}
    with hostile.Hostile(faults=faults) as server:
        request = ServerRequest(
            address=parse_address(server.url),
            output=out / "p.json",
            target=load_llm("Qwen/Qwen3-8B"),
            api_key=KEY,
            prompts=prompts,
            concurrencies=(2,),
            max_requests=8,
            timeout_s=1.5,
            idle_s=1.0,
            interval_s=0.5,
        )
        run_server_session(request, on_progress=lambda _: None)
        assert all(key == f"Bearer {KEY}" for _, _, key in server.seen)
    written = held(out)
    assert "failed_requests" in written or not fault
    assert leaks(written) == []
    assert KEY not in repr(request)


@pytest.mark.parametrize("command", ["profile", "watch"])
def test_neither_is_printed_nor_in_the_list_of_processes(
    hostile: Any, tmp_path: Path, prompts: Path, command: str
) -> None:
    listed: list[str] = []

    def look() -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                listed.append(path.read_bytes().decode("latin-1"))
            except OSError:
                continue

    with hostile.Hostile(faults={"POST": ("echoes_what_was_sent", 1)}) as server:
        server.hooks["GET", 1] = look
        words = {
            "profile": ["profile", "Qwen/Qwen3-8B", "--server", server.url, "--prompts"],
            "watch": ["watch", server.url, "--once", "--json", "--interval", "0.2"],
        }[command]
        if command == "profile":
            words += [str(prompts), "-o", str(tmp_path / "out.json")]
        done = subprocess.run(
            [sys.executable, "-m", "capplan", *words],
            env={**os.environ, "CAPPLAN_API_KEY": KEY, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert server.seen[0][2] == f"Bearer {KEY}"
    assert any("capplan" in one for one in listed)
    assert leaks(done.stdout + done.stderr) == []
    assert leaks("\n".join(listed)) == []
    assert "Traceback" not in done.stderr
    if command == "profile":
        assert (done.returncode, LEFT_OUT in done.stderr) == (1, True)


def test_no_command_takes_a_key_as_an_argument() -> None:
    cli = importlib.import_module("capplan.cli.main").cli
    for name in cli.list_commands(None):
        command = cli.get_command(None, name)
        for one in (command, *getattr(command, "commands", {}).values()):
            flags = [flag for option in one.params for flag in option.opts]
            taken = [f for f in flags if any(w in f for w in ("key", "token-", "password"))]
            assert [f for f in taken if not f.endswith("-env")] == [], name


@pytest.mark.parametrize("key", [f"{KEY}\nX-Evil: 1", f"{KEY} two", f"{KEY}\u20ac", "sk-\x00"])
def test_a_key_that_no_header_carries_is_refused_without_repeating_it(
    hostile: Any, key: str
) -> None:
    with hostile.Hostile() as server:
        with pytest.raises(RequestError) as caught:
            get(parse_address(server.url), "/metrics", api_key=key)
        assert server.seen == []
    chain = [str(e) for e in (caught.value, caught.value.__cause__, caught.value.__context__)]
    assert not any("sk-" in text for text in chain)


def test_the_line_feed_of_a_key_file_is_no_part_of_the_key() -> None:
    assert checked_key(f" {KEY}\n") == KEY
    assert checked_key("") is None


def test_an_engine_of_our_own_is_not_given_the_key_of_a_server() -> None:
    made = engine_environment(
        {"CAPPLAN_API_KEY": KEY, "PATH": "/bin"}, is_cpu=True, kv_cache_gib=1
    )
    assert KEY not in str(made)


class TestQuotes:
    """What of a server's words may be shown."""

    @pytest.mark.parametrize(
        "said",
        [
            WORDS,
            f"cannot read {WORDS[:40]}",
            WORDS.upper(),
            WORDS.replace(" ", "\n- "),
            f'{{"messages": [{{"content": "{WORDS}"}}]}}',
        ],
    )
    def test_a_passage_of_the_prompt_is_left_out_however_it_is_spelled(self, said: str) -> None:
        assert quoted(said, f"Tell me: {WORDS}.") == LEFT_OUT
        assert leaks(quoted_body(said.encode(), WORDS)) == []

    def test_escaped_letters_are_read_before_they_are_compared(self) -> None:
        prompt = "为什么天空是蓝色的而不是绿色的呢请解释一下"
        escaped = prompt.encode("unicode_escape").decode("ascii")
        body = f'{{"error": {{"message": "bad: {escaped}"}}}}'.encode()
        assert quoted_body(body, prompt) == LEFT_OUT

    def test_what_does_not_repeat_it_is_shown(self) -> None:
        body = b'{"error": {"message": "maximum context length is 1024 tokens", "code": 400}}'
        assert quoted_body(body, WORDS) == "maximum context length is 1024 tokens"
        assert not repeats("maximum context length", WORDS)

    def test_a_short_prompt_is_not_found_in_everything(self) -> None:
        assert not repeats("the server is overloaded", "the")
        assert repeats("cannot serve hello wyvern", "hello wyvern")


def test_errors_of_an_address_with_credentials_do_not_repeat_them() -> None:
    with pytest.raises(CapplanError) as caught:
        parse_address(f"http://me:{KEY}@localhost:8000")
    assert KEY not in str(caught.value)


def test_a_redirect_that_holds_the_key_is_told_without_it(hostile: Any) -> None:
    with hostile.Hostile(mode="redirects") as server:
        server.faults["GET"] = ("points_away_with_the_key", 1)
        with pytest.raises(CapplanError, match="another server") as caught:
            get(parse_address(server.url), "/metrics", api_key=KEY)
    assert leaks(str(caught.value)) == []
