"""What a verdict on a pair is made from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from capplan.schema.llm import LlmSpec
from capplan.schema.pair import CostRatio, VocabularyFacts
from capplan.schema.pairing import AcceptanceFact, Method, Pairing
from capplan.schema.tokenizer import TokenizerFacts

BUILT_IN = "(built-in)"
"""Draft id of MTP layers that are part of the target."""

LOOKUPS = frozenset({Method.NGRAM, Method.SUFFIX})
HEADS = frozenset(
    {
        Method.EAGLE,
        Method.EAGLE3,
        Method.PEAGLE,
        Method.MTP,
        Method.MEDUSA,
        Method.DFLASH,
        Method.DSPARK,
    }
)

_QUANTISED_NAME = re.compile(
    r"[-_.](fp8|nvfp4|mxfp4|awq|gptq|int4|int8|w4a16|w8a8|w8a16|bnb|4bit|8bit|quantized)\b.*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Side:
    """A target or a draft as far as it is known."""

    id: str
    spec: LlmSpec | None = None
    """None for heads of which models_db knows only that they exist."""
    tokenizer: TokenizerFacts | None = None
    local: bool = False
    """Read from files: its id is a path and says nothing of what it was trained for."""


@dataclass(frozen=True)
class PairQuestion:
    """How the pair would be run."""

    method: Method | None = None
    engine: str = "vllm==0.33"
    tensor_parallel: int = 1
    draft_tensor_parallel: int | None = None
    context: int | None = None
    num_speculative_tokens: int | None = None
    heterogeneous_vocabulary: bool = False

    def with_method(self, method: Method) -> PairQuestion:
        """Return the same question about one method."""
        return replace(self, method=method)


@dataclass(frozen=True)
class Known:
    """What models_db knows of the draft."""

    pairing: Pairing | None = None
    """The row of exactly this pair, if there is one."""
    elsewhere: tuple[Pairing, ...] = ()
    """Rows of the same draft with other targets: what a head was trained for."""
    acceptance: tuple[AcceptanceFact, ...] = ()
    head: LlmSpec | None = None
    """What a head without a configuration takes, from the parameters that models_db lists."""
    cost_ratio: CostRatio | None = None
    trained_on: tuple[LlmSpec, ...] = ()
    """What a head was trained for, where its shape is the target's: it starts, at a loss."""


def same_weights(one: str, other: str) -> bool:
    """Whether two ids name one LLM, but for the organisation and a quantised copy."""

    def base(name: str) -> str:
        return _QUANTISED_NAME.sub("", name.rstrip("/").rpartition("/")[2].lower())

    return base(one) == base(other)


@dataclass(frozen=True)
class PairFacts:
    """All that a rule may look at."""

    target: LlmSpec
    draft: LlmSpec | None
    """None for lookups, built-in layers, and heads of which no configuration is at hand."""
    method: Method
    draft_id: str
    pairing: Pairing | None
    vocabulary: VocabularyFacts
    engine: str
    """Name without version."""
    tensor_parallel: int = 1
    draft_tensor_parallel: int | None = None
    context: int | None = None
    num_speculative_tokens: int | None = None
    heterogeneous_vocabulary: bool = False
    cost_ratio: CostRatio | None = None

    @property
    def draft_params(self) -> float | None:
        """Parameters of the draft or head, from its configuration, else from models_db."""
        if self.draft is not None:
            return self.draft.params_total
        return self.pairing.draft_params if self.pairing is not None else None
