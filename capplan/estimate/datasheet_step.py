"""Time of one forward pass of one LLM on one GPU group, from specifications.

Additive, never a maximum: launch of the layers, weights, KV cache, arithmetic of the extra tokens
and per-request work follow one another closely enough that their sum predicts verification to
1.5 % where the maximum is 11.5 % low (86 rows of MagicDec, arXiv:2408.11049).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.estimate.kvcache import kv_bytes_read
from capplan.estimate.moe import distinct_experts
from capplan.estimate.steptime import VerificationExtra
from capplan.estimate.work import (
    attention_flops_per_prompt_token,
    exchange_seconds_per_token,
    flops_per_token,
    link_bytes_per_s,
)
from capplan.schema.engine import EngineConstants
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec

Floats = NDArray[np.float64]

PLANNED_OVERLAP = 1.5
"""How far reading weights and multiplying overlap in a plan's verification: 1 adds the two, large
values hide the smaller one. Verifications timed by themselves are nearly additive (MagicDec on
H100, SpecDecode-Bench in vLLM), whole runs in SGLang at batch 8 ask for 2 to 3."""


def beyond_reading(read_s: ArrayLike, multiply_s: ArrayLike, overlap: float) -> Floats:
    """Return what multiplying adds to reading: ``(read^p + multiply^p)^(1/p) - read``."""
    read = np.asarray(read_s, dtype=float)
    multiply = np.asarray(multiply_s, dtype=float)
    result: Floats = (read**overlap + multiply**overlap) ** (1.0 / overlap) - read
    return result


def by_arch(values: Mapping[str, float], gpu: GpuSpec) -> float:
    """Return the value of a GPU's architecture, else the default."""
    return values.get(gpu.arch, values["default"])


@dataclass(frozen=True)
class HardwareGroup:
    """GPU groups as columns: every array has the same leading axis (hardware choices).

    Trailing axes of length one let them broadcast against (N, batch).
    """

    memory_bytes_per_s: Floats
    bf16_flops_per_s: Floats
    fp8_flops_per_s: Floats
    verify_efficiency: Floats
    tensor_parallel: Floats
    link_bytes_per_s: Floats
    decode_relative_se: Floats

    @classmethod
    def of(
        cls, choices: list[tuple[GpuSpec, int]], engine: EngineConstants, axes: int = 2
    ) -> HardwareGroup:
        """Build columns from (GPU, tensor-parallel size) choices."""
        shape = (-1, *([1] * axes))

        def column(values: list[float]) -> Floats:
            return np.array(values, dtype=float).reshape(shape)

        return cls(
            memory_bytes_per_s=column([gpu.memory_bytes_per_s for gpu, _ in choices]),
            bf16_flops_per_s=column([gpu.bf16_flops_per_s for gpu, _ in choices]),
            fp8_flops_per_s=column(
                [gpu.fp8_flops_per_s or gpu.bf16_flops_per_s for gpu, _ in choices]
            ),
            verify_efficiency=column(
                [by_arch(engine.verify_flops_efficiency, gpu) for gpu, _ in choices]
            ),
            tensor_parallel=column([tp for _, tp in choices]),
            link_bytes_per_s=column(
                [link_bytes_per_s(gpu.interconnect_bytes_per_s) for gpu, _ in choices]
            ),
            decode_relative_se=column([by_arch(engine.decode_relative_se, g) for g, _ in choices]),
        )


@dataclass(frozen=True)
class DatasheetStep:
    """Tier ``datasheet``: specifications, architecture and engine constants.

    Valid for one LLM that fits the group, bf16 or native fp8 weights, batch 1 to 1,024 and
    context to about 100,000; leave-one-out error 4-8 % (see the engine's ``sources``).
    """

    llm: LlmSpec
    hardware: HardwareGroup
    engine: EngineConstants

    @property
    def relative_se(self) -> Floats:
        """The engine's measured error on this architecture, along the hardware axis."""
        return self.hardware.decode_relative_se

    def _exchange_s(self) -> Floats:
        """Return the all-reduces of one token."""
        hw = self.hardware
        token_s = exchange_seconds_per_token(self.llm, hw.tensor_parallel, hw.link_bytes_per_s)
        return token_s / self.engine.exchange_efficiency

    def _peak(self) -> Floats:
        native_fp8 = self.llm.weight_bytes / self.llm.params_total <= 1.1
        return self.hardware.fp8_flops_per_s if native_fp8 else self.hardware.bf16_flops_per_s

    def _weight_bytes_read(self, pass_tokens: Floats) -> Floats:
        llm = self.llm
        if llm.experts is None or llm.experts_per_token is None:
            # the same however many tokens: left unbroadcast, most of a search's arrays stay small
            return np.asarray(llm.weight_bytes_active, dtype=float)
        k, experts = llm.experts_per_token, llm.experts
        per_expert = (llm.weight_bytes - llm.weight_bytes_active) / (experts - k)
        shared = llm.weight_bytes_active - k * per_expert
        touched = distinct_experts(pass_tokens, experts, k, self.engine.expert_correlation.mid)
        return shared + touched * per_expert

    def seconds(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> Floats:
        """Return the time of one pass; arguments as in :meth:`StepTime.seconds`.

        Notes
        -----
        Terms as in docs/method/steptime.md; MagicDec (arXiv:2408.11049) for byte and FLOP counts.
        """
        return self._decode(batch, context) + self.extra(batch, tokens, context).total

    def _decode(self, batch: ArrayLike, context: ArrayLike) -> Floats:
        hw, engine, llm = self.hardware, self.engine, self.llm
        batch = np.asarray(batch, dtype=float)
        kv = (
            batch
            * kv_bytes_read(llm, context, hw.tensor_parallel)
            / (engine.kv_bandwidth_efficiency * hw.memory_bytes_per_s)
        )
        decoded = engine.decoded_token_cost / engine.loop_flops_efficiency
        token = decoded * self._token_s() + self._exchange_s() + engine.request_s
        total: Floats = llm.layers * engine.layer_s + self._read_s(batch) + kv + batch * token
        return total

    def extra(self, batch: ArrayLike, tokens: ArrayLike, context: ArrayLike) -> VerificationExtra:  # noqa: ARG002 - the context is read once a pass, however many tokens see it
        """Return what verification adds to a decode step; arguments as in :meth:`seconds`."""
        batch = np.asarray(batch, dtype=float)
        tokens = np.asarray(tokens, dtype=float)
        before, after = self._read_s(batch), self._read_s(batch * tokens)
        token_s = self._token_s() / self.hardware.verify_efficiency
        multiply = beyond_reading(after, batch * tokens * token_s, PLANNED_OVERLAP)
        return VerificationExtra(
            experts=after - before,
            arithmetic=multiply - beyond_reading(before, batch * token_s, PLANNED_OVERLAP),
            exchange=batch * (tokens - 1.0) * self._exchange_s(),
        )

    def _token_s(self) -> Floats:
        """Return one token's arithmetic at the peak."""
        result: Floats = flops_per_token(self.llm) / (self.hardware.tensor_parallel * self._peak())
        return result

    def _read_s(self, pass_tokens: Floats) -> Floats:
        rate = self.engine.weight_bandwidth_efficiency * self.hardware.memory_bytes_per_s
        result: Floats = self._weight_bytes_read(pass_tokens) / (
            self.hardware.tensor_parallel * rate
        )
        return result

    def prompt_seconds(self, prompt_tokens: float) -> Floats:
        """Return a prompt's arithmetic at the efficiencies of a prefill."""
        engine = self.engine
        return self._prompt(
            prompt_tokens, engine.prompt_flops_efficiency, engine.prompt_attention_efficiency
        )

    def interference_seconds(self, prompt_tokens: float) -> Floats:
        """Return a prompt's arithmetic and all-reduces as others meet them in a loop."""
        engine = self.engine
        met = self._prompt(
            prompt_tokens, engine.loop_flops_efficiency, engine.loop_attention_efficiency
        )
        result: Floats = met + prompt_tokens * self._exchange_s()
        return result

    def _prompt(self, prompt_tokens: float, matrices: float, attention: float) -> Floats:
        hw, llm = self.hardware, self.llm
        scores = attention_flops_per_prompt_token(llm, prompt_tokens)
        token_s = flops_per_token(llm) / (matrices * self._peak()) + scores / (
            attention * hw.bf16_flops_per_s
        )
        result: Floats = prompt_tokens * token_s / hw.tensor_parallel
        return result
