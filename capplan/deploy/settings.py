"""What is to be run, as one value: everything that decides what a replica does and how fast.

Whatever a version of the engine has a default for, and the plan rests on, stands here: defaults
change from version to version and with the GPU.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from capplan.deploy.lengths import Lengths, check_lengths, longest
from capplan.deploy.versions import METHODS, RUNS_ON_V1
from capplan.schema.base import Value
from capplan.schema.pairing import DraftSampleMethod, Method

RejectionMethod = Literal["standard", "block"]
"""Only the lossless ones: what else the engine offers changes the text, or fakes acceptance."""
Dtype = Literal["auto", "bfloat16", "float16", "float32"]


class Settings(Value):
    """One replica: target, draft, parallelism, limits, memory, sampling."""

    target: str = Field(min_length=1)
    draft: str | None = None
    """Checkpoint of the draft; None for lookups, built-in layers and no speculation."""
    method: Method = Method.NONE
    num_speculative_tokens: int = Field(default=0, ge=0)
    lengths_by_batch: Lengths = ()
    """(first batch, last batch, N); empty for one length at every batch."""
    device: Literal["gpu", "cpu"] = "gpu"
    tensor_parallel: int = Field(default=1, ge=1)
    data_parallel: int = Field(default=1, ge=1)
    replicas: int = Field(default=1, ge=1)
    """Copies of all this; each is a server of its own."""
    dtype: Dtype = "auto"
    """``auto`` is what the checkpoint states."""
    quantisation: str | None = None
    """Scheme to quantise with while loading; None takes the checkpoint as it is."""
    max_model_len: int | None = Field(default=None, ge=1)
    """Longest request in tokens; None for the checkpoint's own limit."""
    max_num_seqs: int = Field(ge=1)
    max_num_batched_tokens: int = Field(ge=1)
    gpu_memory_utilization: float | None = Field(default=None, gt=0, le=1)
    kv_cache_bytes: int | None = Field(default=None, ge=1)
    """Size of the KV pool, stated on CPUs, where a share of all memory would be reserved."""
    kv_cache_dtype: str = "auto"
    graph_sizes: tuple[int, ...] = ()
    """Tokens of a step that are captured as CUDA graphs; empty on CPUs."""
    prefix_caching: bool = True
    seed: int = 0
    draft_sample_method: DraftSampleMethod = "greedy"
    rejection_method: RejectionMethod = "standard"
    prompt_lookup: tuple[int, int] | None = None
    """Shortest and longest n-gram to look up."""
    heterogeneous_vocabulary: bool = False
    """Draft only the tokens that both vocabularies have."""
    host: str = "0.0.0.0"
    port: int = Field(default=8000, ge=1, le=65535)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problem = self._length_problem() or self._device_problem() or self._draft_problem()
        if problem:
            raise ValueError(problem)
        return self

    def _length_problem(self) -> str:
        speculates = self.method is not Method.NONE
        if speculates != (self.num_speculative_tokens > 0):
            return f"method {self.method.value} with {self.num_speculative_tokens} drafted tokens"
        if not self.lengths_by_batch:
            return ""
        if longest(check_lengths(self.lengths_by_batch)) > self.num_speculative_tokens:
            return f"a batch has more than the {self.num_speculative_tokens} tokens of a round"
        if self.data_parallel > 1:
            return "the engine gives lengths by batch up with data parallelism"
        if self.runs_on_v1 and not METHODS[self.method].by_batch_on_v1:
            return (
                f"the engine ignores lengths by batch for {self.method.value} on its older model "
                "runner, which this runs on"
            )
        return ""

    def _device_problem(self) -> str:
        if self.device == "cpu" and (self.graph_sizes or self.gpu_memory_utilization is not None):
            return "a CPU has neither CUDA graphs nor GPU memory"
        if self.device == "gpu" and self.gpu_memory_utilization is None:
            return "the share of the GPU's memory is missing"
        return ""

    def _draft_problem(self) -> str:
        if self.heterogeneous_vocabulary and self.draft_sample_method != "greedy":
            return "mapped vocabularies draft greedily only"
        if (self.prompt_lookup is not None) != (self.method is Method.NGRAM):
            return f"lengths to look up belong to n-gram drafts, not to {self.method.value}"
        if (
            self.prompt_lookup is not None
            and not 1 <= self.prompt_lookup[0] <= self.prompt_lookup[1]
        ):
            return f"n-grams of {self.prompt_lookup[0]} to {self.prompt_lookup[1]} tokens"
        if self.draft is not None and not self._takes_checkpoint:
            return f"method {self.method.value} takes no draft checkpoint"
        return ""

    @property
    def _takes_checkpoint(self) -> bool:
        return self.method is not Method.NONE and METHODS[self.method].needs_checkpoint

    @property
    def runs_on_v1(self) -> bool:
        """Whether the engine falls back to its older model runner."""
        falls_back = self.method in RUNS_ON_V1 or self.heterogeneous_vocabulary
        return self.device == "cpu" or falls_back

    # What the table of fields reads: the settings in the engine's own terms.

    @property
    def engine_method(self) -> str | None:
        """Return the engine's name of the method."""
        return None if self.method is Method.NONE else METHODS[self.method].name

    @property
    def drafted_tokens(self) -> int | None:
        """Return N, None without speculation."""
        return self.num_speculative_tokens or None

    @property
    def lengths(self) -> list[list[int]] | None:
        """Return the lengths by batch as the engine reads them."""
        return [list(row) for row in self.lengths_by_batch] or None

    @property
    def draft_tensor_parallel(self) -> int | None:
        """Return the target's parallelism: any other value is refused or ignored."""
        return self.tensor_parallel if self._takes_checkpoint else None

    @property
    def shortest_lookup(self) -> int | None:
        """Return the shortest n-gram."""
        return self.prompt_lookup[0] if self.prompt_lookup is not None else None

    @property
    def longest_lookup(self) -> int | None:
        """Return the longest n-gram."""
        return self.prompt_lookup[1] if self.prompt_lookup is not None else None

    @property
    def parallel_drafting(self) -> bool | None:
        """Return True where all tokens are drafted in one pass, else None."""
        return True if self.method is Method.PEAGLE else None

    @property
    def maps_vocabulary(self) -> bool | None:
        """Return True where the vocabularies are mapped, else None."""
        return True if self.heterogeneous_vocabulary else None

    @property
    def draft_sampling(self) -> str | None:
        """Return how drafts are drawn, None for methods that know one way only."""
        known = self.method is not Method.NONE and METHODS[self.method].samples_drafts
        return self.draft_sample_method if known else None

    @property
    def rejection(self) -> str | None:
        """Return the rule of acceptance."""
        return None if self.method is Method.NONE else self.rejection_method

    @property
    def sizes(self) -> list[int] | None:
        """Return the sizes to capture."""
        return list(self.graph_sizes) or None

    @property
    def largest_size(self) -> int | None:
        """Return the largest captured size; the engine wants it to match the list."""
        return max(self.graph_sizes, default=None)
