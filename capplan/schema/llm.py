"""An LLM's facts: what a plan must know about a checkpoint."""

from __future__ import annotations

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.cache import CacheLayers, state_bytes_per_request
from capplan.schema.pairing import Method
from capplan.schema.provenance import Source


class HeadFacts(Value):
    """What makes a checkpoint a drafting head: it needs a target and its hidden states."""

    method: Method
    target_hidden: int | None = Field(default=None, gt=0)
    """Hidden size of the target it was trained for, as its configuration states it."""
    draft_vocab_size: int | None = Field(default=None, gt=0)
    """Reduced output vocabulary; None: the target's own."""
    target_id: str = ""
    """Target that the checkpoint itself names (speculators format), else empty."""


class LlmSpec(Value):
    """Architecture facts of one checkpoint (a target or a draft)."""

    id: str
    """Hugging Face id, or the path it was read from."""
    family: str
    params_total: float = Field(gt=0)
    """Parameters of the LLM without its MTP layers."""
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
    """Bytes of key-value cache that each further token takes, bf16, before tensor parallelism;
    None if the architecture has no constant per-token figure that we know."""
    kv_heads: int | None = None
    heads: int | None = Field(default=None, gt=0)
    """Query heads: a tensor-parallel size must divide them."""
    cache: tuple[CacheLayers, ...] = ()
    """Layers by how they cache; empty where only ``kv_bytes_per_token`` is known."""
    max_context: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    mtp_layers: int = 0
    mtp_params: float | None = Field(default=None, ge=0)
    """Parameters of the MTP layers, loaded only where they draft; not in ``params_total``."""
    dtype: str
    quantisation: str = ""
    """Scheme of the checkpoint (``fp8``, ``awq 4 bit, groups of 128``); empty if none."""
    tokenizer_family: str = ""
    licence: str = ""
    head: HeadFacts | None = None
    """Set for EAGLE, DFlash, Medusa ... heads, None for LLMs that run alone."""
    source: Source

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to a subset of experts."""
        return self.experts is not None and self.experts_per_token is not None

    @property
    def state_bytes_per_request(self) -> float:
        """Bytes a request takes whatever its length (linear attention); 0 for most."""
        return state_bytes_per_request(self.cache)
