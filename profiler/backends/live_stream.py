"""What a streamed answer says, chunk by chunk; nothing that it says is taken on trust."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from capplan.errors import ServerError
from profiler.backends.live_quotes import one_line, quoted

MOST_TOKENS = 10**9
"""No request has so many; larger numbers are no counts of tokens."""
_SPARE_TOKENS = 16
"""Engines differ by a few in what they count: stop tokens, a role, a closing tag."""
_TEXT_KEYS = ("content", "reasoning_content", "reasoning", "text")


@dataclass
class Stream:
    """What a stream said so far."""

    prompt: str
    max_tokens: int
    event_s: list[float] = field(default_factory=list)
    """When each chunk with text arrived."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    finish_reason: str = ""
    speculation: Mapping[str, Any] | None = None
    is_whole: bool = False

    def take(self, event: Mapping[str, Any], at_s: float) -> None:
        """Take one chunk.

        Raises
        ------
        ServerError
            If it reports an error, or if there are more chunks than tokens were asked for.
        """
        error = event.get("error")
        if error and isinstance(error, Mapping | str):
            said = error.get("message", error) if isinstance(error, Mapping) else error
            raise ServerError(f"the server reports an error: {quoted(str(said), self.prompt)}")
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping):
                self._take_choice(choice, at_s)
        if isinstance(event.get("usage"), Mapping):
            self.usage = event["usage"]
        metrics = event.get("metrics")
        told = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
        if isinstance(told, Mapping):
            self.speculation = told

    def _take_choice(self, choice: Mapping[str, Any], at_s: float) -> None:
        if _has_text(choice):
            self.event_s.append(at_s)
        if len(self.event_s) > self.max_tokens + _SPARE_TOKENS:
            raise ServerError(
                f"the stream does not end: more chunks than the {self.max_tokens} tokens that "
                "were asked for"
            )
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = one_line(reason)
            self.is_whole = True

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt; None where the server does not say, or no count."""
        return counted(self.usage, "prompt_tokens")

    @property
    def output_tokens(self) -> int | None:
        """Tokens written; None where the server does not say, or what cannot be."""
        tokens = counted(self.usage, "completion_tokens")
        return None if self.contradiction else tokens

    @property
    def cached_tokens(self) -> int | None:
        """Prompt tokens found in the cache."""
        cached = counted(self.usage.get("prompt_tokens_details"), "cached_tokens")
        prompt = self.prompt_tokens
        return None if cached is None or prompt is None or cached > prompt else cached

    @property
    def contradiction(self) -> str:
        """What speaks against the server's count of tokens; empty where nothing does."""
        told = self.usage.get("completion_tokens")
        if told is None:
            return ""
        tokens = counted(self.usage, "completion_tokens")
        if tokens is None:
            return "a number of output tokens that is none"
        if tokens > self.max_tokens + _SPARE_TOKENS:
            return f"{tokens} output tokens where {self.max_tokens} were asked for"
        if tokens + _SPARE_TOKENS < len(self.event_s):
            return f"{tokens} output tokens in {len(self.event_s)} chunks of text"
        return ""


def counted(usage: Any, name: str) -> int | None:
    """Return a count of tokens; None for whatever is none."""
    value = usage.get(name) if isinstance(usage, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MOST_TOKENS else None


def _has_text(choice: Mapping[str, Any]) -> bool:
    if isinstance(choice.get("text"), str) and choice["text"]:
        return True
    delta = choice.get("delta")
    if not isinstance(delta, Mapping):
        return False
    return any(delta.get(key) for key in _TEXT_KEYS) or bool(delta.get("tool_calls"))
