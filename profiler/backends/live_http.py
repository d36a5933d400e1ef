"""Requests to an OpenAI-compatible server: streamed ones that are timed, and plain ones.

Tokens are counted by the server (``usage``), never by chunks: with speculation one chunk holds the
tokens of a whole round. The time between two chunks is therefore a step, not a token.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from capplan.errors import ServerError
from capplan.profiles.server_http import ServerAddress, exchange

Endpoint = Literal["chat", "completions"]
PATHS: Mapping[Endpoint, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
}
MAX_STREAM_BYTES = 64 * 2**20
MAX_LINE_BYTES = 2**20
_MAX_ANSWER_BYTES = 64 * 2**20
"""Twenty log-probabilities a token of a long prompt are some MB of JSON."""
_SHOWN_CHARS = 200
_TEXT_KEYS = ("content", "reasoning_content", "reasoning", "text")


@dataclass(frozen=True)
class ServedLlm:
    """What requests are sent to."""

    address: ServerAddress
    name: str
    """The model's name, as the server knows it."""
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 120.0
    """Longest time of one request, from connecting to the last byte."""


@dataclass(frozen=True)
class Ask:
    """One request for text."""

    prompt: str
    temperature: float
    max_tokens: int
    seed: int
    top_p: float = 1.0
    thinking: bool | None = None
    """None leaves the server's default."""
    task: str = ""

    def body(self, endpoint: Endpoint, model: str) -> dict[str, Any]:
        """Return the request's JSON."""
        body: dict[str, Any] = {
            "model": model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if endpoint == "completions":
            return {**body, "prompt": self.prompt}
        body["messages"] = [{"role": "user", "content": self.prompt}]
        if self.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": self.thinking}
        return body


@dataclass(frozen=True)
class Served:
    """What came of one request; times are seconds of one monotonic clock."""

    sent_s: float
    ended_s: float
    task: str = ""
    event_s: tuple[float, ...] = ()
    """When each chunk with text arrived."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str = ""
    speculation: Mapping[str, Any] | None = None
    """The server's own account of this request, where it gives one."""
    error: str = ""

    @property
    def ttft_s(self) -> float | None:
        """Time to the first text."""
        return self.event_s[0] - self.sent_s if self.event_s else None

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None where the tokens are not known."""
        if not self.event_s or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.event_s[-1] - self.event_s[0]) / (self.output_tokens - 1)

    @property
    def step_gaps_s(self) -> tuple[float, ...]:
        """Time between chunks: between the steps that gave text."""
        pairs = zip(self.event_s, self.event_s[1:], strict=False)
        return tuple(later - earlier for earlier, later in pairs)


def ask_streaming(served: ServedLlm, endpoint: Endpoint, ask: Ask) -> Served:
    """Send one request and time its stream; a failure is a value with its reason."""
    sent_s = time.perf_counter()
    reading = _Stream()
    error = ""
    try:
        _read_stream(served, endpoint, ask, reading)
    except ServerError as failure:
        error = failure.message
    if not error and not reading.is_whole:
        error = "the stream broke off before its end"
    return Served(
        sent_s=sent_s,
        ended_s=time.perf_counter(),
        task=ask.task,
        event_s=tuple(reading.event_s),
        prompt_tokens=_count(reading.usage, "prompt_tokens"),
        output_tokens=_count(reading.usage, "completion_tokens"),
        cached_tokens=_count(reading.usage.get("prompt_tokens_details"), "cached_tokens"),
        finish_reason=reading.finish_reason,
        speculation=reading.speculation,
        error=error,
    )


def post_json(
    served: ServedLlm, path: str, body: Mapping[str, Any], *, timeout_s: float | None = None
) -> Any:
    """Send JSON and return the JSON that comes back.

    Raises
    ------
    ServerError
        If the server refuses, or does not answer with JSON in time.
    """
    deadline_s = time.monotonic() + (timeout_s or served.timeout_s)
    with _posted(served, path, body, deadline_s) as answer:
        content = answer.read(_MAX_ANSWER_BYTES + 1)
        if len(content) > _MAX_ANSWER_BYTES:
            raise ServerError(f"{served.address} answers {path} with too much.", "Ask for less.")
    return _json(served.address, path, content)


@dataclass
class _Stream:
    """What a stream said so far."""

    event_s: list[float] = field(default_factory=list)
    usage: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str = ""
    speculation: Mapping[str, Any] | None = None
    is_whole: bool = False

    def take(self, event: Mapping[str, Any], at_s: float) -> None:
        """Take one chunk."""
        if isinstance(event.get("error"), Mapping | str):
            raise ServerError(f"the server reports an error: {_short(str(event['error']))}")
        for choice in event.get("choices") or ():
            if not isinstance(choice, Mapping):
                continue
            if _has_text(choice):
                self.event_s.append(at_s)
            if choice.get("finish_reason"):
                self.finish_reason = str(choice["finish_reason"])
                self.is_whole = True
        if isinstance(event.get("usage"), Mapping):
            self.usage = event["usage"]
        metrics = event.get("metrics")
        if isinstance(metrics, Mapping) and isinstance(
            metrics.get("speculative_decoding"), Mapping
        ):
            self.speculation = metrics["speculative_decoding"]


def _read_stream(served: ServedLlm, endpoint: Endpoint, ask: Ask, reading: _Stream) -> None:
    body = ask.body(endpoint, served.name)
    deadline_s = time.monotonic() + served.timeout_s
    with _posted(served, PATHS[endpoint], body, deadline_s) as answer:
        for line in _lines(served.address, answer):
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                reading.is_whole = True
                return
            event = _json(served.address, PATHS[endpoint], data)
            if isinstance(event, Mapping):
                reading.take(event, time.perf_counter())


def _posted(served: ServedLlm, path: str, body: Mapping[str, Any], deadline_s: float) -> Any:
    return _Posting(served, path, json.dumps(body).encode(), deadline_s)


class _Posting:
    """One POST as a context manager that yields the answer only if it is a success."""

    def __init__(self, served: ServedLlm, path: str, body: bytes, deadline_s: float) -> None:
        self._served, self._path = served, path
        self._exchange = exchange(
            served.address,
            "POST",
            served.address.prefix + path,
            body=body,
            headers={"Content-Type": "application/json"},
            api_key=served.api_key,
            deadline_s=deadline_s,
        )

    def __enter__(self) -> http.client.HTTPResponse:
        answer = self._exchange.__enter__()
        if answer.status == 200:
            return answer
        shown = _short(answer.read(4096).decode("utf-8", errors="replace"))
        self._exchange.__exit__(None, None, None)
        raise ServerError(
            f"{self._served.address}{self._path} answers {answer.status}: {shown}",
            _remedy(answer.status),
        )

    def __exit__(self, *details: Any) -> bool | None:
        return self._exchange.__exit__(*details)


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "Give the key in the environment variable CAPPLAN_API_KEY."
    if 300 <= status < 400:
        return "Requests are sent to the address given and nowhere else; give the final one."
    if status in (429, 503):
        return "The server is overloaded: lower --rate or --concurrency."
    return "Look at the server's log."


def _lines(address: ServerAddress, answer: http.client.HTTPResponse) -> Iterator[bytes]:
    size = 0
    while line := answer.readline(MAX_LINE_BYTES + 1):
        size += len(line)
        if len(line) > MAX_LINE_BYTES or size > MAX_STREAM_BYTES:
            raise ServerError(f"{address} streams more than a text can be.", "Check the address.")
        yield line.strip()


def _json(address: ServerAddress, path: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        shown = _short(content[:_SHOWN_CHARS].decode("utf-8", errors="replace"))
        raise ServerError(
            f"{address}{path} answers with something that is no JSON: {shown}",
            "Give the address of an OpenAI-compatible server.",
        ) from error


def _has_text(choice: Mapping[str, Any]) -> bool:
    if isinstance(choice.get("text"), str) and choice["text"]:
        return True
    delta = choice.get("delta")
    if not isinstance(delta, Mapping):
        return False
    return any(delta.get(key) for key in _TEXT_KEYS) or bool(delta.get("tool_calls"))


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[:_SHOWN_CHARS]}..."
