"""Time of a plain decode step of any engine on any GPU, from whatever was measured of relatives.

    step = layers * t_layer + layers * log2(TP) * t_exchange + weights / (TP * bandwidth) * 1/e_w
         + KV / bandwidth * 1/e_kv + batch * FLOPs / (TP * peak) * 1/e_flops + batch * t_request

Every factor is partly the engine's own, partly that of the engine on this GPU (``pooling``).
Efficiency is a property of engine x GPU: llama.cpp reaches 0.75-0.87 of the bandwidth of cards
with GDDR memory and 0.42-0.54 of those with HBM; number formats differ by as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from capplan.errors import RequestError
from capplan.estimate.kvcache import kv_bytes_read
from capplan.estimate.moe import params_read
from capplan.estimate.pooling import Factor, Group, Work
from capplan.estimate.work import flops_per_token
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec

FACTORS = (
    Factor("layer", 4e-5, 1.0),
    Factor("exchange", 5e-6, 1.0),
    Factor("weights", 1 / 0.8, 0.25),
    Factor("kv", 1 / 0.7, 0.3),
    Factor("flops", 1 / 0.4, 0.7),
    Factor("request", 5e-6, 1.5),
)
"""Wide, so that measurements decide: launch costs vary by e either way, efficiencies by a quarter
(docs/method/steptime.md)."""

NOISE = 0.04
EXPERT_CORRELATION = 0.44
"""As in models_db/engines/vllm.yaml."""
_HBM = "HBM"


@dataclass(frozen=True)
class DecodeSetting:
    """One LLM decoding on one GPU group.

    Attributes
    ----------
    engine, machine
        Names that group measurements: whose software, which board.
    bytes_per_param
        Of the weights as served, scales included.
    """

    llm: LlmSpec
    gpu: GpuSpec
    engine: str
    machine: str
    bytes_per_param: float
    tensor_parallel: float
    batch: float
    context: float


def decode_work(setting: DecodeSetting) -> Work:
    """Return what a step of this setting does, and to which groups each factor belongs.

    Raises
    ------
    ValueError
        If the KV bytes of the LLM are unknown.
    """
    s, tp = setting, setting.tensor_parallel
    bandwidth = s.gpu.memory_bytes_per_s
    kv = s.batch * float(kv_bytes_read(s.llm, s.context, tp))
    amounts = (
        float(s.llm.layers),
        s.llm.layers * float(np.log2(tp)),
        float(params_read(s.llm, s.batch, EXPERT_CORRELATION))
        * s.bytes_per_param
        / (tp * bandwidth),
        kv / bandwidth,
        s.batch * flops_per_token(s.llm) / (tp * half_precision_flops(s.gpu)),
        s.batch,
    )
    return Work(amounts, _groups(setting))


def half_precision_flops(gpu: GpuSpec) -> float:
    """Return the dense 16-bit rate: bf16, or fp16 on GPUs before bf16.

    Raises
    ------
    RequestError
        If the data sheet names neither.
    """
    rate = gpu.bf16_flops_per_s or gpu.fp16_flops_per_s
    if not rate:
        raise RequestError(
            f"{gpu.name}: neither a bf16 nor an fp16 rate is known.",
            "Add bf16_dense_tflops or fp16_dense_tflops to its row in models_db/gpus.",
        )
    return rate


def _groups(setting: DecodeSetting) -> tuple[tuple[tuple[Group, float], ...], ...]:
    family, engine = ("family", engine_family(setting.engine)), ("engine", setting.engine)
    board = ("board", setting.engine, setting.machine)
    memory = ("memory", setting.engine, "hbm" if _HBM in setting.gpu.memory_type else "gddr")
    format_ = _format(setting.bytes_per_param)
    weights: tuple[tuple[Group, float], ...] = (
        (family, 0.2),
        (engine, 0.15),
        (memory, 0.3),
        (("arch", setting.engine, setting.gpu.arch), 0.1),
        (board, 0.1),
        (("format", format_), 0.3),
        (("format", setting.engine, format_), 0.2),
    )

    def spread(
        of_family: float, of_engine: float, of_board: float
    ) -> tuple[tuple[Group, float], ...]:
        return ((family, of_family), (engine, of_engine), (board, of_board))

    return (
        spread(0.5, 0.4, 0.4),
        spread(0.5, 0.4, 0.5),
        weights,
        spread(0.2, 0.15, 0.25),
        spread(0.3, 0.3, 0.3),
        spread(0.5, 0.5, 0.5),
    )


def engine_family(engine: str) -> str:
    """Return the engine without version and options: the first word, in small letters."""
    words = engine.lower().split()
    return words[0] if words else ""


def _format(bytes_per_param: float) -> str:
    if bytes_per_param > 1.5:
        return "16 bit"
    return "8 bit" if bytes_per_param > 0.8 else "4 bit"
