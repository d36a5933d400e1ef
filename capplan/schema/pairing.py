"""A target with a way to draft for it, and what is known of its acceptance."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.provenance import Source


class Method(StrEnum):
    """How drafts are made. The names are vLLM's own."""

    NONE = "none"
    DRAFT_MODEL = "draft_model"
    NGRAM = "ngram"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    PEAGLE = "p-eagle"
    MTP = "mtp"
    MEDUSA = "medusa"
    DFLASH = "dflash"
    DSPARK = "dspark"
    SUFFIX = "suffix"


DraftSampleMethod = Literal["greedy", "probabilistic"]
"""How drafts are drawn: the draft's likeliest token, or a sample of its distribution."""


class Pairing(Value):
    """A target and a draft that somebody published for it."""

    target: str
    draft: str
    """Id of the draft or head; ``(built-in)`` for MTP layers of the target itself."""
    method: Method
    draft_params: float | None = None
    """Parameters of a head, without embeddings; None if the source does not say."""
    default_num_speculative_tokens: int | None = Field(default=None, ge=1)
    vocab_check: str = ""
    licence: str = ""
    exists: bool = True
    """False for ids that a guide names and nobody published."""
    source: Source


class AcceptanceFact(Value):
    """One published acceptance figure of a pairing.

    ``tokens_per_round`` counts the bonus token: emitted tokens a target pass.
    """

    target: str
    draft: str
    method: Method
    task: str
    temperature: float | None = None
    num_speculative_tokens: int = Field(ge=1)
    tokens_per_round: float = Field(ge=1)
    definition: str
    """The source's own definition, and how it was brought to tokens per round."""
    setting: str = ""
    """Engine, GPU and batch of the measurement."""
    relative_se: float | None = Field(default=None, ge=0, exclude=True)
    """Relative standard error of a measurement of one's own; published ones give none."""
    draft_sampling: DraftSampleMethod | None = Field(default=None, exclude=True)
    """How a measurement of one's own drew its drafts; published ones do not say."""
    source: Source


class Claim(Value):
    """A figure that a guide states without a measurement anyone can repeat."""

    id: str
    topic: str
    subject: str
    figure: str
    value: float
    unit: str
    note: str = ""
    source: Source

    @property
    def section(self) -> str:
        """The section of the guide that it stands in: ``4.1``, ``introduction``."""
        return self.source.reference.rpartition("section ")[2]
