"""The torch backend: transformers models in this process, on a CPU or one CUDA device."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from capplan.errors import CheckpointError, MissingPackageError, RequestError
from capplan.schema.cells import DraftSampling, Role
from capplan.schema.measured_setup import (
    Backend as BackendRecord,
    Draft,
    ModelDraft,
    NgramDraft,
    ProfiledLlm,
)
from capplan.schema.profile import MemoryRecord

try:
    import safetensors  # noqa: F401 - transformers needs it to read any checkpoint we accept
    import torch
    import transformers
except ImportError as error:
    raise MissingPackageError(
        "Profiling with the torch backend", error.name or "torch", "profile"
    ) from error

from profiler.backends import torch_generate, torch_rounds, torch_trace
from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.speculative import Drafter, LookupDrafter, ModelDrafter
from profiler.backends.torch_facts import (
    kv_bytes_per_token,
    max_context,
    profiled_llm,
    weight_bytes,
)
from profiler.backends.torch_llm import TorchLlm, memory_errors
from profiler.backends.torch_loading import check_pairing, choose_device, choose_dtype, load_llm
from profiler.backends.torch_threads import settle_threads
from profiler.backends.torch_timing import TorchPoint
from profiler.protocol import (
    Generation,
    LoadRequest,
    RoundsOutcome,
    SamplingPoint,
    TimingPoint,
    Trace,
)

GENERATION_BATCH = {"cpu": 24, "cuda": 64}
"""Requests written side by side: enough to fill a device, few enough for a modest cache."""


class TorchBackend:
    """Implements :class:`profiler.protocol.Backend` with transformers."""

    def __init__(self) -> None:
        self._target: TorchLlm | None = None
        self._draft: TorchLlm | None = None
        self._target_record: ProfiledLlm | None = None
        self._draft_record: Draft | None = None
        self._dummy = False

    def load(self, request: LoadRequest) -> None:
        """Load target and draft. Errors are ``capplan.errors`` with a remedy."""
        if request.draft and request.prompt_lookup:
            raise RequestError(
                "Both a draft model and prompt lookup were asked for.", "Choose one of them."
            )
        self._dummy = request.dummy_weights
        device = choose_device(request.device)
        dtype = choose_dtype(request.dtype, device)
        # Find both before loading either: a typing error should not cost a minute.
        names = [request.target] + ([request.draft] if request.draft else [])
        found = [find_checkpoint(name, self._dummy) for name in names]
        llms = [load_llm(one, device, dtype, self._dummy) for one in found]
        known_as = (request.target_id, request.draft_id)
        llms = [
            replace(llm, name=name) if name else llm
            for llm, name in zip(llms, known_as, strict=False)
        ]
        self._target = llms[0]
        self._target_record = profiled_llm(llms[0], found[0], self._dummy)
        if request.draft:
            check_pairing(llms[0], llms[1], self._dummy)
            self._draft = llms[1]
            self._draft_record = ModelDraft(llm=profiled_llm(llms[1], found[1], self._dummy))
        if device.type == "cpu":
            settle_threads(self.prepare)
        if request.prompt_lookup:
            shortest, longest = request.prompt_lookup
            self._draft_record = NgramDraft(prompt_lookup_min=shortest, prompt_lookup_max=longest)

    def record(self) -> BackendRecord:
        """Return name, version and exact arguments."""
        target = self._loaded()
        return BackendRecord(
            name="torch",
            version=torch.__version__,
            arguments={
                "device": str(target.device),
                "dtype": str(target.dtype).removeprefix("torch."),
                "attention": str(target.model.config._attn_implementation),
                "threads": str(torch.get_num_threads()),
                "transformers": transformers.__version__,
                "weights": "dummy" if self._dummy else "real",
            },
            cuda_graphs=target.device.type == "cuda",
        )

    def target(self) -> ProfiledLlm:
        """Return the loaded target."""
        self._loaded()
        assert self._target_record is not None  # set together with the LLM
        return self._target_record

    def draft(self) -> Draft | None:
        """Return the loaded draft."""
        return self._draft_record

    def max_context(self) -> int:
        """Return the longest sequence both models can hold."""
        return min(max_context(llm) for llm in (self._loaded(), self._draft) if llm)

    def encode(self, prompt: str) -> tuple[int, ...]:
        """Tokenise one user prompt through the chat template, if there is one."""
        tokenizer = self._tokenizer()
        if tokenizer.chat_template is None:
            return tuple(tokenizer(prompt).input_ids)
        chat = [{"role": "user", "content": prompt}]
        return tuple(
            tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        )

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of token ids."""
        return str(self._tokenizer().decode(list(token_ids), skip_special_tokens=True))

    def prepare(self, point: TimingPoint) -> TorchPoint:
        """Fill the caches for one timing point."""
        llm = self._loaded() if point.role is Role.TARGET else self._draft
        if llm is None:
            raise RequestError("There is no draft model to time.", "Load one with --draft.")
        return TorchPoint(llm, point)

    def generate(
        self, prompts: Sequence[tuple[int, ...]], sampling: SamplingPoint
    ) -> list[Generation]:
        """Let the target write, batched. Same seed, same text."""
        target = self._loaded()
        max_batch = GENERATION_BATCH[target.device.type]
        with memory_errors(f"generating with {max_batch} requests at a time"):
            return torch_generate.generate(target, prompts, sampling, max_batch)

    def trace(self, generations: Sequence[Generation], sampling: SamplingPoint) -> Trace:
        """Score the text once with target and draft (or replay the lookup)."""
        if isinstance(self._draft_record, NgramDraft):
            return torch_trace.trace_lookup(generations, self._draft_record)
        if self._draft is None:
            raise RequestError("There is no draft to trace.", "Load a draft or prompt lookup.")
        with memory_errors("scoring the generated text"):
            return torch_trace.trace_draft_model(
                self._loaded(), self._draft, generations, sampling
            )

    def run_rounds(
        self,
        prompts: Sequence[tuple[int, ...]],
        sampling: SamplingPoint,
        num_speculative_tokens: int,
        draft_sampling: DraftSampling | None,
    ) -> RoundsOutcome:
        """Speculate for real, interleaved request by request with plain decoding."""

        def new_drafter(of_request: SamplingPoint) -> Drafter:
            if isinstance(self._draft_record, NgramDraft):
                return LookupDrafter(self._draft_record)
            if self._draft is None:
                raise RequestError("There is no draft to run.", "Load a draft or prompt lookup.")
            mode = draft_sampling or DraftSampling.GREEDY
            return ModelDrafter(self._draft, of_request, mode)

        with memory_errors("speculative decoding"):
            return torch_rounds.run_rounds(
                self._loaded(), new_drafter, prompts, sampling, num_speculative_tokens
            )

    def memory(self) -> list[MemoryRecord]:
        """Return weights, KV bytes a token and the peak so far (of the whole process)."""
        roles = [(Role.TARGET, self._loaded()), (Role.DRAFT, self._draft)]
        return [
            MemoryRecord(
                role=role,
                weight_bytes=weight_bytes(llm),
                kv_bytes_per_token=kv_bytes_per_token(llm),
                peak_bytes=_peak_bytes(llm.device) if role is Role.TARGET else None,
            )
            for role, llm in roles
            if llm
        ]

    def close(self) -> None:
        """Free the models."""
        on_cuda = self._target is not None and self._target.device.type == "cuda"
        self._target = self._draft = None
        if on_cuda:
            torch.cuda.empty_cache()

    def _loaded(self) -> TorchLlm:
        if self._target is None:
            raise RequestError("No target is loaded.", "Call load() first.")
        return self._target

    def _tokenizer(self) -> Any:
        tokenizer = self._loaded().tokenizer
        if tokenizer is None:
            raise CheckpointError(
                f"{self._loaded().name} comes without a tokenizer.",
                "Put tokenizer.json beside its weights.",
            )
        return tokenizer


def _peak_bytes(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.max_memory_allocated(device))
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024  # getrusage: bytes there, KiB on Linux
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
