"""Constants of a serving engine: efficiencies, overheads and their measured error."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.quantity import Quantity


class EngineMemory(Value):
    """How the engine allots a GPU, from one version on."""

    since: str = Field(pattern=r"^\d+(\.\d+)*$")
    """First version it holds for."""
    utilisation: float = Field(gt=0, le=1)
    """Default share of the GPU that the engine takes."""
    counts_draft: bool
    """Whether the draft is loaded before the KV pool is sized."""
    counts_cuda_graphs: bool
    """Whether room for CUDA graphs is set aside before the KV pool is sized."""
    activation_bytes_per_logit: float = Field(ge=0)
    """Peak of the trial run's sampler, a sequence and vocabulary entry."""
    sampler_state_bytes_per_logit: float = Field(ge=0)
    """Kept for good by the sampler, a sequence and vocabulary entry."""
    steps_in_flight: int = Field(ge=1)
    """Steps scheduled before the first is settled; windowed layers keep the tokens of all."""
    holds_windows: bool = True
    """Whether windowed layers drop what lies behind their window; else they keep every token."""
    holds_chunks: bool = True
    """The same of layers that attend within chunks (Llama 4)."""
    prints_capacity: bool = True
    """Whether the printed size of the pool is concurrency times longest length; else blocks shared
    out evenly among the groups of layers, whatever each of them takes of a request."""
    caches_prefixes_of_states: bool = True
    """Whether prefixes are cached by default for LLMs with states, which then take two pages."""


class BatchLimits(Value):
    """Default batch limits of the engine on GPUs of one size."""

    from_bytes: float = Field(ge=0)
    """Smallest GPU they hold for."""
    not_named: str = ""
    """Word in a device name that excludes it, compared without case; empty excludes none."""
    max_num_seqs: int = Field(ge=1)
    max_num_batched_tokens: int = Field(ge=1)

    def hold_for(self, memory_bytes: float, device_name: str) -> bool:
        """Whether a GPU has these defaults."""
        if memory_bytes < self.from_bytes:
            return False
        return not self.not_named or self.not_named.lower() not in device_name.lower()


ROUND_TERMS = (
    "step",
    "round_s",
    "experts",
    "arithmetic",
    "exchange",
    "head",
    "draft",
    "draft_pass_s",
)
"""What a speculative round is made of."""


class RoundConstants(Value):
    """Factors of the terms of a round, fitted together, with what they do not tell.

    ``round_s`` and ``draft_pass_s`` are seconds, the rest multiply the data-sheet time of a term.
    docs/method/steptime.md
    """

    values: dict[str, float]
    """By term, every one of :data:`ROUND_TERMS`."""
    log_sd: dict[str, float]
    """Of each logarithm, for a deployment that was never measured."""
    scatter_dense: float = Field(gt=0)
    """Relative scatter of a round about the fit."""
    scatter_moe: float = Field(gt=0)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if set(self.values) != set(ROUND_TERMS) or set(self.log_sd) != set(ROUND_TERMS):
            msg = f"values and log_sd must name {', '.join(ROUND_TERMS)}, each once"
            raise ValueError(msg)
        return self

    def quantity(self, term: str) -> Quantity:
        """Return what a term costs on average, and its 95 % interval."""
        return Quantity.log_normal(self.values[term], self.log_sd[term])

    def measured(self, term: str) -> RoundConstants:
        """Return the constants where this term was measured: its factor is 1 and certain."""
        return self.model_copy(
            update={"values": {**self.values, term: 1.0}, "log_sd": {**self.log_sd, term: 0.0}}
        )


class EngineConstants(Value):
    """What the data-sheet tier needs to know about an engine. Times in seconds."""

    id: str
    version: str
    vendors: tuple[str, ...]
    """GPU vendors that the constants were measured on; others are refused, not guessed."""
    weight_bandwidth_efficiency: float = Field(gt=0, le=1)
    kv_bandwidth_efficiency: float = Field(gt=0, le=1)
    loop_flops_efficiency: float = Field(gt=0, le=1.5)
    """Of decoded tokens and of other requests' prompts inside a serving loop. Effective: a request
    meets somewhat fewer prompts than one of every other request, so it may exceed 1."""
    loop_attention_efficiency: float = Field(gt=0, le=1)
    """Of the prompts' attention, of the bf16 peak, likewise."""
    decoded_token_cost: float = Field(ge=1)
    """Arithmetic of a decoded token in that of a prompt token."""
    exchange_efficiency: float = Field(gt=0, le=1)
    """Of the link between GPUs, one direction, in all-reduces."""
    verify_flops_efficiency: dict[str, float]
    """By GPU architecture; ``default`` for the rest."""
    layer_s: float = Field(ge=0)
    """Launch and synchronisation of one layer."""
    request_s: float = Field(ge=0)
    """Scheduling and sampling of one request in a step."""
    rounds: RoundConstants
    """What a speculative round costs."""
    expert_correlation: Quantity
    """Effective share of extra tokens that route as if independent (1: independent)."""
    first_token_s: float = Field(ge=0)
    """Of a request's time to its first token, whatever its prompt."""
    prompt_flops_efficiency: float = Field(gt=0, le=1)
    prompt_attention_efficiency: float = Field(gt=0, le=1)
    """Of the bf16 peak."""
    prompt_queue_per_request: float = Field(ge=0)
    """Share of a prompt's own time that each other request adds to the wait."""
    prompt_token_s: float = Field(ge=0)
    """A prompt token's work that more GPUs do not shorten."""
    prompt_token_queue_s: float = Field(ge=0)
    """More of it for every other request."""
    memory_versions: tuple[EngineMemory, ...] = Field(min_length=1)
    """Oldest first."""
    activation_bytes_per_hidden: float = Field(ge=0)
    """Kept through the trial run, a batched token and hidden element."""
    activation_bytes_per_width: float = Field(ge=0)
    """Peak of the trial run's layers, a batched token and element of a layer's width."""
    cuda_graph_bytes_per_layer_size: float = Field(ge=0)
    """Of one layer in one captured size."""
    non_torch_bytes_single: float = Field(ge=0)
    """Held outside torch on a GPU that runs alone."""
    non_torch_bytes_per_doubling: float = Field(ge=0)
    """More for every doubling of the tensor-parallel group: communication buffers."""
    driver_reserved_bytes: dict[str, float]
    """What the driver reports and CUDA does not hand out, by a word in the device's name;
    ``default`` for the rest."""
    kv_block_tokens: int = Field(ge=1)
    batch_limits: tuple[BatchLimits, ...] = Field(min_length=1)
    """Largest GPU first; the last holds for any."""
    least_batched_tokens: int = Field(ge=1)
    """Tokens a step that the launch text allows at least."""
    mxfp4_multiples: dict[str, tuple[int, int]]
    """Multiples to which mxfp4 experts are padded, (intermediate, hidden), by GPU architecture;
    ``default`` for the rest."""
    capturable_tokens: int = Field(ge=1)
    """Tokens up to which the launch text has them captured; larger verifications are not planned,
    since beyond the captured sizes a step costs several times more."""
    decode_relative_se: dict[str, float]
    """Error of one decode step by GPU architecture; ``default`` for those without measurements."""
    sources: dict[str, str]
    """Where each constant comes from."""

    def memory_for(self, version: str) -> EngineMemory:
        """Return how the given version allots memory: the last entry that is not newer."""
        asked = version_key(version)
        fitting = [m for m in self.memory_versions if version_key(m.since) <= asked]
        return fitting[-1] if fitting else self.memory_versions[0]

    def limits_for(self, memory_bytes: float, device_name: str = "") -> BatchLimits:
        """Return the default batch limits on a GPU."""
        return next(
            (limits for limits in self.batch_limits if limits.hold_for(memory_bytes, device_name)),
            self.batch_limits[-1],
        )

    def reserved_for(self, device_name: str) -> float:
        """Return bytes that the driver reports of such a device and CUDA does not hand out."""
        name = device_name.lower()
        named = (size for word, size in self.driver_reserved_bytes.items() if word in name)
        return next(named, self.driver_reserved_bytes["default"])

    @property
    def draft_pass_s(self) -> Quantity:
        """Fixed cost of one draft pass beyond its layers and bytes."""
        return self.rounds.quantity("draft_pass_s")

    @property
    def round_s(self) -> Quantity:
        """Fixed cost of one speculative round: rejection sampling, bookkeeping."""
        return self.rounds.quantity("round_s")

    @property
    def memory_utilisation(self) -> float:
        """Default share of the GPU that this version takes."""
        return self.memory_for(self.version).utilisation


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as ``0.33`` or ``0.11.2``, comparable.

    Raises
    ------
    ValueError
        If it does not start with a number.
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    if found is None:
        msg = f"{version!r} is not a version such as '0.33'"
        raise ValueError(msg)
    return tuple(int(part) for part in found[0].split("."))
