"""What a configuration says of a network: its parts, counted, with the sums written out."""

from __future__ import annotations

from dataclasses import dataclass, field

from capplan.schema.cache import CacheLayers
from capplan.schema.llm import HeadFacts


@dataclass(frozen=True)
class Part:
    """Parameters of one kind: all attention matrices, all routed experts, the embedding ..."""

    name: str
    """``token embedding``, ``attention``, ``MLP``, ``routed experts``, ``shared experts``,
    ``router``, ``norms``, ``output layer``, ``linear attention`` ..."""
    params: int
    active: int
    """Of them, those read for one token: k of E for routed experts, all elsewhere. An embedding
    of which one row is read counts whole: it is what the published active counts do."""
    how: str
    """The sum in numbers: ``32 x (4096 x 4096 x 2 + 4096 x 1024 x 2)``."""
    modules: tuple[str, ...] = ()
    """Module names as quantisation settings match them: ``self_attn``, ``mlp.experts``,
    ``mlp.gate``, ``embed_tokens``, ``lm_head``."""
    quantisable: bool = False
    """Whether the part is made of linear-layer matrices that a scheme may quantise."""


@dataclass(frozen=True)
class Architecture:
    """One network as its configuration describes it, before bytes are considered."""

    model_type: str
    class_name: str
    """First of ``architectures``, as the configuration has it."""
    family: str
    layers: int
    hidden: int
    heads: int | None
    vocab_size: int
    tied_embeddings: bool
    dtype: str
    """Of elements that no scheme quantises; bfloat16 where nothing states it."""
    cache: tuple[CacheLayers, ...]
    max_context: int | None
    parts: tuple[Part, ...]
    """All but the MTP layers; their ``params`` add up to the checkpoint's total."""
    mtp_layers: int = 0
    mtp_parts: tuple[Part, ...] = ()
    """The MTP layers' own parameters, without what they share with the LLM."""
    experts: int | None = None
    experts_per_token: int | None = None
    head: HeadFacts | None = None
    dtype_stated: bool = True
    has_tower: bool = False
    """Whether the configuration has a vision tower or the like beside the LLM."""
    notes: tuple[str, ...] = field(default=())
    """Choices that the reader must see: which field gave the context, what was not counted."""

    @property
    def params_total(self) -> int:
        """Parameters of the LLM without its MTP layers."""
        return sum(part.params for part in self.parts)

    @property
    def params_active(self) -> int:
        """Parameters read for one token."""
        return sum(part.active for part in self.parts)
