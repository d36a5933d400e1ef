"""Requests to an OpenAI-compatible server: streamed ones that are timed, and plain ones.

Tokens are counted by the server (``usage``), never by chunks: with speculation one chunk holds the
tokens of a whole round. The time between two chunks is therefore a step, not a token.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from capplan.errors import ServerError
from capplan.profiles.server_http import Incoming, ServerAddress, asked_to_wait, exchange
from profiler.backends.live_quotes import quoted_body
from profiler.backends.live_stream import Stream

Endpoint = Literal["chat", "completions"]
PATHS: Mapping[Endpoint, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
}
MAX_STREAM_BYTES = 64 * 2**20
MAX_JSON_BYTES = 64 * 2**20
"""Twenty log-probabilities a token of a long prompt are some MB of JSON."""
_ERROR_BYTES = 4096


@dataclass(frozen=True)
class ServedLlm:
    """What requests are sent to."""

    address: ServerAddress
    name: str
    """The model's name, as the server knows it."""
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 120.0
    """Longest time of one request, from connecting to the last byte."""
    idle_s: float = 60.0
    """Longest silence within an answer that has begun."""


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
    doubt: str = ""
    """What speaks against the server's count of tokens, which is then not taken."""

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
    reading = Stream(ask.prompt, ask.max_tokens)
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
        prompt_tokens=reading.prompt_tokens,
        output_tokens=reading.output_tokens,
        cached_tokens=reading.cached_tokens,
        finish_reason=reading.finish_reason,
        speculation=reading.speculation,
        error=error,
        doubt=reading.contradiction,
    )


def post_json(served: ServedLlm, path: str, body: Mapping[str, Any], *, prompt: str = "") -> Any:
    """Send JSON and return the JSON that comes back.

    Parameters
    ----------
    served, path, body
        What is asked of whom.
    prompt
        Text in the body that no message may repeat.

    Raises
    ------
    ServerError
        If the server refuses, or does not answer with JSON in time.
    """
    with _posted(served, path, body, prompt) as answer:
        content = answer.whole(MAX_JSON_BYTES)
    return _json(served.address, path, content, prompt)


def _read_stream(served: ServedLlm, endpoint: Endpoint, ask: Ask, reading: Stream) -> None:
    path = PATHS[endpoint]
    with _posted(served, path, ask.body(endpoint, served.name), ask.prompt) as answer:
        for line in answer.lines(MAX_STREAM_BYTES):
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                reading.is_whole = True
                return
            event = _json(served.address, path, data, ask.prompt)
            if isinstance(event, Mapping):
                reading.take(event, time.perf_counter())


@contextmanager
def _posted(
    served: ServedLlm, path: str, body: Mapping[str, Any], prompt: str
) -> Iterator[Incoming]:
    """Send one POST and yield the answer only if it is a success."""
    with exchange(
        served.address,
        "POST",
        served.address.prefix + path,
        body=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        api_key=served.api_key,
        deadline_s=time.monotonic() + served.timeout_s,
        idle_s=min(served.idle_s, served.timeout_s),
    ) as answer:
        if answer.status != 200:
            said = quoted_body(answer.beginning(_ERROR_BYTES), prompt)
            raise ServerError(
                f"{served.address}{path} answers {answer.status}{asked_to_wait(answer)}: {said}",
                _remedy(answer.status),
            )
        yield answer


def _remedy(status: int) -> str:
    if status in (401, 403):
        return "Give the key in the environment variable CAPPLAN_API_KEY."
    if 300 <= status < 400:
        return "Requests are sent to the address given and nowhere else; give the final one."
    if status in (429, 503):
        return "The server is overloaded: lower --rate or --concurrency."
    return "Look at the server's log."


def _json(address: ServerAddress, path: str, content: bytes, prompt: str) -> Any:
    try:
        return json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ServerError(
            f"{address}{path} answers with something that is no JSON: "
            f"{quoted_body(content[:_ERROR_BYTES], prompt)}",
            "Give the address of an OpenAI-compatible server.",
        ) from error


def _no_number(_: str) -> None:
    """Stand for NaN and infinities, which JSON does not have and no figure may be."""
