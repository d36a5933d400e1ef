"""A tokenizer's vocabulary, read from its files: which text every id stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class TokenizerFacts:
    """The vocabulary of one tokenizer.

    Not a pydantic value: a quarter of a million entries need no validation one by one.
    """

    origin: str
    """File it was read from."""
    kind: str
    """``BPE``, ``Unigram``, ``tiktoken``, ``SentencePiece`` ..., as the file states it."""
    tokens: Mapping[int, str]
    """Text by id, added tokens included. Bytes are written as GPT-2's byte-level BPE does."""
    added: frozenset[int] = frozenset()
    """Ids of tokens that were added to the trained vocabulary (special tokens)."""
    added_known: bool = True
    """False for formats that keep added tokens in source code, not in the file."""
    trained_known: bool = True
    """False where only the special tokens are at hand (``tokenizer_config.json`` alone)."""

    @property
    def size(self) -> int:
        """Tokens, added ones included: ``len(tokenizer)``.

        Never the attribute ``vocab_size`` of a Hugging Face tokenizer, which leaves added tokens
        out: 128,000 of Llama 3's 128,256.
        """
        return len(self.tokens)

    @cached_property
    def top_id(self) -> int:
        """The largest id in use; an output layer needs at least one row more."""
        return max(self.tokens, default=-1)
