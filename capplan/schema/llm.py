"""An LLM's facts: what a plan must know about a checkpoint."""

from __future__ import annotations

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.provenance import Source


class LlmSpec(Value):
    """Architecture facts of one checkpoint (a target or a draft)."""

    id: str
    """Hugging Face id, or the path it was read from."""
    family: str
    params_total: float = Field(gt=0)
    params_active: float = Field(gt=0)
    """Parameters read for one token; equals the total for a dense LLM."""
    weight_bytes: float = Field(gt=0)
    """Bytes of all weights as this checkpoint ships them (bf16, native fp8, mxfp4 ...)."""
    weight_bytes_active: float = Field(gt=0)
    """Bytes of the weights read for one token."""
    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    vocab_size: int = Field(gt=0)
    kv_bytes_per_token: float | None = None
    """Bytes of key-value cache a token, all layers, bf16, before tensor parallelism; None if
    the architecture has no constant per-token figure that we know."""
    kv_heads: int | None = None
    max_context: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    mtp_layers: int = 0
    dtype: str
    tokenizer_family: str = ""
    licence: str = ""
    source: Source

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to a subset of experts."""
        return self.experts is not None and self.experts_per_token is not None
