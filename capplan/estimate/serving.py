"""Latencies inside a serving loop: C requests at a time, each followed by the next one.

Each output token also pays for the prompts that the other C - 1 requests bring meanwhile, and a
request whose KV cache finds no room waits for another to end.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.estimate.decoding import EXPERT_CORRELATION
from capplan.estimate.kvcache import kv_bytes_read
from capplan.estimate.moe import params_read
from capplan.estimate.pooling import Factor, Group, Work
from capplan.estimate.work import (
    attention_flops_per_prompt_token,
    exchange_seconds_per_token,
    flops_per_token,
    link_bytes_per_s,
)
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec

TPOT_FACTORS = (
    Factor("layer", 6e-5, 0.3),
    Factor("weights", 1 / 0.9, 0.1),
    Factor("kv", 1 / 0.9, 0.03),
    Factor("request", 4e-5, 0.5),
    Factor("flops", 1 / 0.7, 0.3),
    Factor("attention", 1 / 0.25, 0.5),
    Factor("exchange", 1 / 0.7, 0.3),
)
TPOT_NOISE = 0.075
_ENGINE_SPREAD = 0.1

TTFT_FACTORS = (
    Factor("first", 0.05, 0.5),
    Factor("own", 1.0, 0.5),
    Factor("others", 0.07, 0.7),
    Factor("token", 2e-5, 0.7),
    Factor("tokens_of_others", 1e-6, 1.0),
    Factor("wait", 1.0, 0.05),
)
TTFT_NOISE = 0.1
TTFT_SCATTER = 0.3
"""How far a machine that was never measured is off: client, warm-up and launch options differ."""

DECODED_TOKEN_COST = 1.5
"""FLOPs of a decoded token in those of a prompt token: matrices with few rows run less well."""
_PREFILL_EFFICIENCY, _ATTENTION_EFFICIENCY = 0.6, 0.3
"""Units in which a prompt's own time is counted; the fitted factors are relative to them."""
_UTILISATION, _RESERVED_BYTES = 0.92, 5e9
"""vLLM's default share of a GPU; graphs, activations and buffers of one GPU."""


@dataclass(frozen=True)
class ServingSetting:
    """One LLM served on one GPU group under a closed loop.

    Attributes
    ----------
    engine
        Name that groups measurements.
    bytes_per_param, kv_element_bytes
        Of weights and KV cache as served.
    peak_flops_per_s
        Dense rate of one GPU in the format of the weights.
    concurrency
        Requests at a time.
    prompt_tokens, output_tokens
        Mean lengths.
    """

    llm: LlmSpec
    gpu: GpuSpec
    engine: str
    tensor_parallel: float
    bytes_per_param: float
    kv_element_bytes: float
    peak_flops_per_s: float
    concurrency: float
    prompt_tokens: float
    output_tokens: float

    @property
    def context(self) -> float:
        """Mean length of a request's KV cache."""
        return self.prompt_tokens + self.output_tokens / 2.0

    @property
    def room(self) -> float:
        """Requests of mean length whose KV cache fits at a time; at least one."""
        tp = self.tensor_parallel
        free = self.gpu.memory_bytes * _UTILISATION - _RESERVED_BYTES
        pool = free - self.llm.params_total * self.bytes_per_param / tp
        return max(1.0, pool / self.kv_bytes_per_request)

    @property
    def kv_bytes_per_request(self) -> float:
        """Bytes that a request of mean length keeps on one GPU."""
        read = kv_bytes_read(self.llm, self.context, self.tensor_parallel, self.kv_element_bytes)
        return float(read)

    @property
    def running(self) -> float:
        """Requests that really decode together."""
        return min(self.concurrency, self.room)


def tpot_work(setting: ServingSetting) -> Work:
    """Return what one output token costs, in the order of :data:`TPOT_FACTORS`.

    Raises
    ------
    ValueError
        If the KV bytes of the LLM are unknown.
    """
    s, tp = setting, setting.tensor_parallel
    bandwidth = s.gpu.memory_bytes_per_s
    prompt_tokens_a_step = (s.running - 1.0) * s.prompt_tokens / s.output_tokens
    exchange = exchange_seconds_per_token(
        s.llm, tp, link_bytes_per_s(s.gpu.interconnect_bytes_per_s)
    )
    attention = prompt_tokens_a_step * float(
        attention_flops_per_prompt_token(s.llm, s.prompt_tokens)
    )
    amounts = (
        float(s.llm.layers),
        float(params_read(s.llm, s.running, EXPERT_CORRELATION))
        * s.bytes_per_param
        / (tp * bandwidth),
        s.running * s.kv_bytes_per_request / bandwidth,
        s.running,
        (prompt_tokens_a_step + DECODED_TOKEN_COST * s.running)
        * flops_per_token(s.llm)
        / (tp * s.peak_flops_per_s),
        attention / (tp * s.gpu.bf16_flops_per_s),
        (prompt_tokens_a_step + s.running) * float(exchange),
    )
    engine: Group = ("engine", s.engine)
    return Work(amounts, tuple(((engine, _ENGINE_SPREAD),) for _ in amounts))


def prompt_seconds(setting: ServingSetting) -> float:
    """Return the arithmetic of one prompt at usual efficiencies: weights and attention."""
    s, tp = setting, setting.tensor_parallel
    attention = float(attention_flops_per_prompt_token(s.llm, s.prompt_tokens))
    token_s = flops_per_token(s.llm) / (tp * s.peak_flops_per_s * _PREFILL_EFFICIENCY)
    token_s += attention / (tp * s.gpu.bf16_flops_per_s * _ATTENTION_EFFICIENCY)
    return s.prompt_tokens * token_s


def ttft_work(setting: ServingSetting, tpot_s: float) -> Work:
    """Return what the first token waits for, in the order of :data:`TTFT_FACTORS`.

    Its own prompt, a share of those of the others, work a prompt token that does not shrink with
    the GPU group, and, where the KV cache is full, the end of other requests.

    Parameters
    ----------
    tpot_s
        Time per output token of the loop, predicted or measured.
    """
    s = setting
    own = prompt_seconds(s)
    others = s.running - 1.0
    wait = max(0.0, s.concurrency - s.room) / s.room * s.output_tokens * tpot_s
    amounts = (
        1.0,
        own,
        own * others,
        s.prompt_tokens,
        s.prompt_tokens * others,
        wait,
    )
    return Work(amounts, tuple(() for _ in amounts))
