"""What can be said of a target and a draft before anything is loaded."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from capplan.schema.base import Value
from capplan.schema.pairing import Method
from capplan.schema.quantity import Quantity


class PairVerdict(StrEnum):
    """How the draft's vocabulary stands to the target's, or that the pair cannot be."""

    IDENTICAL = "identical"
    """The same size and, as far as the evidence goes, the same token at every id."""
    PADDED = "padded"
    """The same tokenizer; one embedding has more unused rows. Engines differ on it."""
    SPECIAL_TOKENS_DIFFER = "special_tokens_differ"
    """Every ordinary token agrees; some added (special) tokens do not."""
    REDUCED_HEAD = "reduced_head_vocabulary"
    """A head that drafts a subset of the target's tokens, by a map of its own."""
    REFUSE = "refuse"
    """Unrelated vocabularies, or a pair that cannot work for another reason."""


class Evidence(StrEnum):
    """What a verdict on vocabularies rests on, strongest first."""

    TOKENS = "tokens"
    """Both tokenizers were read and compared id by id."""
    OWN = "own"
    """The draft is part of the target, or trained for it: one tokenizer serves both."""
    FAMILY = "family"
    """models_db names the tokenizers of both."""
    SIZES = "sizes"
    """Only the sizes in the configurations were compared."""


class Severity(StrEnum):
    """How much a finding matters."""

    MUST = "must"
    """Act on it before the pair is served."""
    KNOW = "know"
    """Worth knowing; the pair works without it."""


class Finding(Value):
    """One thing that was found, and what to do about it."""

    topic: str
    """``vocabulary``, ``engine``, ``size``, ``context``, ``quantisation``, ``tensor_parallel``,
    ``mtp``, ``head``, ``memory``, ``licence``, ``limits``, ``target``, ``acceptance``."""
    severity: Severity
    text: str
    remedy: str = ""
    engine: str = ""
    """Engine that the finding is about; empty if it holds on every engine."""
    source: str = ""


class EngineAnswer(Value):
    """What one engine does with the pair."""

    engine: str
    accepts: bool | None
    """None: nobody checked."""
    text: str
    remedy: str = ""
    source: str = ""


class TokenDifference(Value):
    """One id that stands for different texts."""

    id: int
    target: str | None
    draft: str | None
    """None: this tokenizer has no such id."""


class VocabularyFacts(Value):
    """The comparison in numbers."""

    target_size: int
    """Rows of the target's output layer: ``vocab_size`` of its configuration."""
    draft_size: int
    difference: int
    """Draft less target, without sign."""
    evidence: Evidence
    target_tokens: int | None = None
    """``len(tokenizer)``, where the tokenizer is at hand."""
    draft_tokens: int | None = None
    meaningful_ids: int | None = None
    """Ids from here on stand for nothing; rows above are padding."""
    meaningful_ids_source: str = ""
    ids_that_differ: int | None = None
    """Of the ids that both tokenizers use."""
    share_equal: float | None = Field(default=None, ge=0, le=1)
    """Share of the ids that both use and that mean the same text."""
    only_in_target: int | None = None
    only_in_draft: int | None = None
    last_unequal_id: int | None = None
    """Largest id that both output layers have and that is not the same text to both."""
    examples: tuple[TokenDifference, ...] = ()
    shared_texts: int | None = None
    """Tokens whose text both have, at whatever id: what a mapping could draft."""
    head_vocabulary: int | None = None
    """Tokens that a head can draft."""


class PublishedAcceptance(Value):
    """Published acceptance of the pair at one length: the range over the tasks."""

    num_speculative_tokens: int
    lowest: float
    """Tokens a round, bonus included, of the task with the least."""
    highest: float
    lowest_task: str
    highest_task: str
    tasks: int
    temperatures: tuple[float, ...]
    """Empty if the sources do not say."""
    sources: tuple[str, ...]
    dates: tuple[str, ...]


class CostRatio(Value):
    """One draft pass over one target step, from data sheets."""

    ratio: Quantity
    gpu: str
    tensor_parallel: int
    context: int
    draft_pass_ms: Quantity
    target_step_ms: float


class PairReport(Value):
    """The answer on one target and one draft."""

    schema_version: Literal[1] = 1
    target: str
    draft: str
    method: Method
    verdict: PairVerdict
    usable: bool | None
    """Whether ``engine`` runs the pair with the options given; None: nobody checked."""
    engine: str
    target_vocab_size: int
    """Rows of the target's output layer."""
    draft_vocab_size: int | None
    """Rows of the draft's, or tokens that a head can draft; None: its figures are not known."""
    difference: int | None
    """Between the two output layers, without sign; 0 for heads, which map their tokens."""
    sentence: str
    """The verdict in one sentence."""
    reason: str = ""
    """What the verdict rests on."""
    vocabulary: VocabularyFacts | None
    """The comparison in detail; None where the pair cannot be, whatever the vocabularies."""
    engines: tuple[EngineAnswer, ...] = ()
    findings: tuple[Finding, ...] = ()
    acceptance: tuple[PublishedAcceptance, ...] = ()
    params_ratio: float | None = None
    """Parameters of the target over those of the draft."""
    cost_ratio: CostRatio | None = None
    speculative_config: dict[str, str | int | bool] = Field(default_factory=dict)
    """vLLM's ``--speculative-config``; empty where there is nothing to launch."""
    next_steps: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether the engine is known to run the pair."""
        return self.usable is True


class PairSuggestion(Value):
    """One way to draft for a target."""

    draft: str
    method: Method
    exists: bool
    listed: bool
    """Whether somebody published it for this target; else it only has the same tokenizer."""
    usable: bool | None
    """Whether the engine runs it; None: nobody checked."""
    verdict: PairVerdict
    sentence: str
    draft_params: float | None = None
    params_ratio: float | None = None
    acceptance: tuple[PublishedAcceptance, ...] = ()
    measure: str = ""
    """How to measure acceptance where none is published."""
    licence: str = ""
    source: str = ""

    @property
    def works(self) -> bool:
        """Whether it exists and the engine is known to run it."""
        return self.exists and self.usable is True


class PairSuggestions(Value):
    """What could draft for one target, the most promising first."""

    schema_version: Literal[1] = 1
    target: str
    engine: str
    suggestions: tuple[PairSuggestion, ...]
    notes: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether there is any way to draft on this engine."""
        return any(item.works for item in self.suggestions)
