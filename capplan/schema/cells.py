"""What is measured at one point: passes timed, acceptance traced, rounds run, texts compared.

Raw values only; whatever can be recomputed (means, acceptance, speedup) is not stored.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.verdict import Verdict

Seconds = Annotated[float, Field(ge=0)]


class Role(StrEnum):
    """Which model a timing belongs to."""

    TARGET = "target"
    DRAFT = "draft"


class Phase(StrEnum):
    """What a forward pass did."""

    PREFILL = "prefill"
    DECODE = "decode"
    VERIFY = "verify"
    ROUND = "round"
    """A whole speculative step of an engine: drafting, verifying and the engine's own work."""


class TimingCell(Value):
    """Raw seconds of one forward pass, or one engine step, at one point of the grid."""

    role: Role
    phase: Phase
    batch: int = Field(ge=1)
    tokens_per_sequence: int = Field(ge=1)
    """Tokens scored a sequence: 1 in decode, N+1 in verify and round, a prompt in prefill."""
    context: int = Field(ge=0)
    """Tokens already in each sequence's KV cache."""
    seconds: tuple[Seconds, ...] = Field(min_length=1)
    """One value a repetition: the time of one pass (a block's time over its passes)."""
    passes_per_block: int = Field(default=1, ge=1)
    warmup_seconds: tuple[Seconds, ...] = ()
    cuda_graph: bool = False
    verdict: Verdict


class DraftSampling(StrEnum):
    """How a draft model proposes: its likeliest token, or a sample (vLLM's two modes)."""

    GREEDY = "greedy"
    PROBABILISTIC = "probabilistic"


class AcceptanceCell(Value):
    """The acceptance trace of one task at one temperature; arrays lie in the sidecar.

    ``trace_kind`` says what the arrays are (requests are concatenated, ``offsets`` of length
    requests + 1 delimits them; position 0 of a request is its first generated token, which comes
    from the prefill, so that rounds start at position 1):

    - ``per_token`` (draft models): ``accept_greedy`` and ``accept_probabilistic``, float32 a
      generated token: the probability that the draft's proposal is accepted at this position,
      given that it was reached. Independent between positions, given the text.
      Where it was traced, also ``draft_confidence``: the draft's own probability of its likeliest
      token, without the request's temperature.
    - ``per_start`` (lookup drafts): ``proposed`` and ``accepted``, uint8 a generated token:
      tokens proposed (up to ``max_num_speculative_tokens``) and accepted by a round that starts
      at this position. For a smaller N take the minimum with N.
    - ``per_round`` (what an engine really did with N = ``max_num_speculative_tokens``):
      ``drafted`` and ``accepted``, uint8 a round, 0 drafted where a round had no draft;
      ``offsets`` counts rounds instead of tokens.

    ``prompt_tokens``, int32 a request, stands beside them in profiles that know it.
    The array ``key`` in the sidecar is ``acceptance/<index>/<array>``.
    """

    task: str
    temperature: float = Field(ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)
    thinking: bool | None = None
    trace_kind: Literal["per_token", "per_start", "per_round"]
    draft_sampling: DraftSampling | None = None
    """Of a ``per_round`` trace; None for lookup drafts and for traces that hold both."""
    max_num_speculative_tokens: int = Field(default=16, ge=1)
    prompts_sha256: str
    requests: int = Field(ge=1)
    prompt_tokens: int = Field(ge=1)
    generated_tokens: int = Field(ge=1)
    seed: int


class RoundsCell(Value):
    """Speculation really run by a decoder, beside plain decoding of the same requests."""

    task: str
    temperature: float = Field(ge=0)
    draft_sampling: DraftSampling | None = None
    """None for lookup drafts."""
    num_speculative_tokens: int = Field(ge=1)
    batch: int = Field(ge=1)
    requests: int = Field(ge=1)
    rounds: int = Field(ge=0)
    """Target passes after the prefill, those without a draft included."""
    drafted: int = Field(ge=0)
    accepted: int = Field(ge=0)
    accepted_per_position: tuple[int, ...]
    """How often at least i+1 tokens were accepted; length N."""
    emitted: int = Field(ge=0)
    """Tokens kept after the prefill's own first token."""
    seconds: float = Field(gt=0)
    """Decode phase with speculation."""
    baseline_emitted: int = Field(ge=0)
    baseline_seconds: float = Field(gt=0)
    """Decode phase without, interleaved in the same run."""
    all_rounds: int | None = Field(default=None, ge=0)
    """Rounds over the whole text of every request, those of a batch that ran empty included. None
    where ``rounds`` are all there were."""
    all_accepted: int | None = Field(default=None, ge=0)
    """Drafts accepted in ``all_rounds``."""
    identical_outputs: int | None = None
    """Requests whose text equals plain decoding token by token (temperature 0 only)."""

    @property
    def tokens_per_round(self) -> float | None:
        """Tokens a round over whole texts, bonus token included; None without a round.

        What ``acceptance`` is compared with. ``emitted / rounds`` is that of the rounds timed.
        """
        rounds = self.rounds if self.all_rounds is None else self.all_rounds
        accepted = self.accepted if self.all_accepted is None else self.all_accepted
        return 1.0 + accepted / rounds if rounds else None

    @model_validator(mode="after")
    def _counts_agree(self) -> Self:
        if self.accepted > self.drafted:
            msg = f"accepted={self.accepted} cannot exceed drafted={self.drafted}"
            raise ValueError(msg)
        if len(self.accepted_per_position) != self.num_speculative_tokens:
            msg = (
                f"accepted_per_position has {len(self.accepted_per_position)} values, "
                f"expected num_speculative_tokens={self.num_speculative_tokens}"
            )
            raise ValueError(msg)
        return self


class LosslessnessCell(Value):
    """The same requests written with and without speculation, as the target itself rates them.

    Speculation must not change what the target writes. At temperature 0 the texts are compared
    token by token; above it by the mean log-probability that the target gives to each text.
    """

    temperature: float = Field(ge=0)
    draft_sampling: DraftSampling | None = None
    num_speculative_tokens: int = Field(ge=0)
    """0: plain decoding with another seed, the control of the check itself."""
    tokens: tuple[int, ...]
    """Generated tokens of each request, with speculation."""
    log_prob_nats: tuple[float, ...]
    """Mean log-probability a token, of each request, with speculation."""
    baseline_tokens: tuple[int, ...]
    baseline_log_prob_nats: tuple[float, ...]
    """The same without speculation."""
    identical: int | None = None
    """Requests with the same text, token by token (temperature 0 only)."""
    difference_margins_nats: tuple[float, ...] = ()
    """Of each request that differs at temperature 0: by how much the target prefers the plain
    text's token at the first difference. Near 0 it is a tie that rounding decided."""
