"""Tokenizers of one line: the same trained vocabulary, special tokens that a later one names.

Two checkpoints of unlike generations may have one size and differ in a few ids, which no engine
that compares sizes notices. Only differences that a source shows are listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Line:
    """Two tokenizers that agree on every trained token."""

    older: str
    newer: str
    named: Mapping[int, str]
    """Ids that the newer one gives a text."""
    source: str
    before: Mapping[int, str] = field(default_factory=dict)
    """What the older one has at those ids; empty where they are unused rows."""
    rest_unread: bool = False
    """Whether nobody compared the other tokens."""


# \uff5c and \u2581 are the bars and spaces that DeepSeek writes in its special tokens
_LINES = (
    Line(
        older="qwen2.5",
        newer="qwen3",
        named={
            151_665: "<tool_response>",
            151_666: "</tool_response>",
            151_667: "<think>",
            151_668: "</think>",
        },
        source="meta-pytorch/torchtune models/qwen2_5/_tokenizer.py (ids to 151,664); "
        "Qwen/Qwen3-4B tokenizer_config.json (ids to 151,668)",
    ),
    Line(
        older="gemma3",
        newer="gemma4",
        named={105: "<|turn>", 106: "<turn|>"},
        before={105: "<start_of_turn>", 106: "<end_of_turn>"},
        source="added_tokens of both, as public test fixtures of tokenizer.json copy them",
        rest_unread=True,
    ),
    Line(
        older="llama3",
        newer="r1-distill-llama",
        named={
            128_000: "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
            128_001: "<\uff5cend\u2581of\u2581sentence\uff5c>",
            128_011: "<\uff5cUser\uff5c>",
            128_012: "<\uff5cAssistant\uff5c>",
            128_013: "<think>",
            128_014: "</think>",
            128_015: "<\uff5c\u2581pad\u2581\uff5c>",
        },
        before={
            128_000: "<|begin_of_text|>",
            128_001: "<|end_of_text|>",
            **{128_011 + i: f"<|reserved_special_token_{3 + i}|>" for i in range(5)},
        },
        source="added_tokens_decoder of deepseek-ai/DeepSeek-R1-Distill-Llama-8B, as a training "
        "log prints it",
    ),
)

USED_IDS: Mapping[str, tuple[int, str]] = {
    "qwen2.5": (
        151_665,
        "meta-pytorch/torchtune models/qwen2_5/_tokenizer.py; 151,646 in Qwen2: QwenLM/Qwen3#466",
    ),
    "qwen3": (151_669, "Qwen/Qwen3-4B tokenizer_config.json"),
}
"""First id that stands for nothing, of tokenizers whose embeddings are known to be padded."""


def line_of(one: str, other: str) -> Line | None:
    """Return how two tokenizers by name are related; None if no source relates them."""
    return next((line for line in _LINES if {line.older, line.newer} == {one, other}), None)
