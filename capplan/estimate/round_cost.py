"""What a speculative round costs in decode steps where nothing of it was measured.

    round / decode = 1 + N * draft pass + experts touched more + arithmetic of the extra tokens
                       + N * launch of a pass + work of the round

each term in decode steps and each with a factor that other engines and sources lend
(``pooling``). The decode step itself comes from ``decoding``.
"""

from __future__ import annotations

from dataclasses import dataclass

from capplan.estimate.decoding import (
    EXPERT_CORRELATION,
    DecodeSetting,
    decode_work,
    half_precision_flops,
)
from capplan.estimate.moe import params_read
from capplan.estimate.pooling import Factor, Group, PooledFit, Work
from capplan.estimate.work import flops_per_token
from capplan.schema.llm import LlmSpec

ROUND_FACTORS = (
    Factor("step", 1.0, 0.02),
    Factor("round_ms", 0.6, 0.5),
    Factor("experts", 1.0, 0.4),
    Factor("flops", 1.0, 0.5),
    Factor("draft", 1.0, 0.25),
    Factor("pass_ms", 0.25, 0.7),
)
ROUND_NOISE = 0.06
_SPREADS = ((0.0, 0.0), (0.25, 0.6), (0.2, 0.0), (0.3, 0.0), (0.2, 0.0), (0.3, 1.0))
"""How much each factor differs, in its logarithm, between engines and between deployments of one.

Deployments differ more: a draft pass took 0.25 to 0.35 ms in one SGLang deployment and 1.9 ms in
another, 0.3 to 2.1 ms in three of vLLM. Without that, one odd report would speak for its engine.
"""

_MATRIX_EFFICIENCY = 0.4
_BANDWIDTH_EFFICIENCY = 0.85
"""Units that the factors are relative to."""
_OVERLAP = 3.0
"""Reading weights and multiplying overlap: time = (read^3 + multiply^3)^(1/3). Exponent 1 would
add them, which makes a few extra tokens far too dear at small batches; infinity would hide the
smaller one, which makes many extra tokens free."""
_HEAD_BYTES_PER_PARAM = 2.0
_MS = 1e-3


@dataclass(frozen=True)
class MachineRound:
    """One way to draft on one machine.

    Attributes
    ----------
    target
        The target's decode step.
    drafted
        N: draft passes of a round.
    verified
        Tokens a sequence that the verification takes, N + 1 for a chain.
    head_params
        Parameters that one pass of a drafting head reads; None where a whole LLM drafts.
    draft
        The draft's own decode step, None for a head.
    deployment
        Who ran it: versions, flags and clients of one engine differ from one to the next.
    """

    target: DecodeSetting
    drafted: float
    verified: float
    head_params: float | None
    draft: DecodeSetting | None
    deployment: str = ""


def round_work(setting: MachineRound, decode: PooledFit) -> Work:
    """Return what a round does in decode steps, in the order of :data:`ROUND_FACTORS`.

    Parameters
    ----------
    decode
        Decode steps fitted to measurements of other sources.
    """
    s, target = setting, setting.target
    step_s = decode.predict(decode_work(target)).value
    before, after = _matrices(target, 1.0), _matrices(target, s.verified)
    is_head = s.draft is None
    amounts = (
        1.0,
        _MS / step_s,
        (after.read_s - before.read_s) / step_s,
        (after.extra_s - before.extra_s) / step_s,
        s.drafted * _draft_pass_s(s, decode) / step_s,
        s.drafted * _MS / step_s if is_head else 0.0,
    )
    engine: Group = ("engine", target.engine)
    deployment: Group = ("deployment", s.deployment)
    groups: tuple[tuple[tuple[Group, float], ...], ...] = tuple(
        tuple((group, sd) for group, sd in ((engine, of_engine), (deployment, of_one)) if sd)
        for of_engine, of_one in _SPREADS
    )
    return Work(amounts, groups)


def typical_head_params(target: LlmSpec, draft_vocab: int = 32_000) -> float:
    """Return the parameters an EAGLE-3 head reads where its size is not published.

    One decoder layer and the projection of three hidden states are about 17 hidden^2 (published
    heads of Llama-3.1-8B, 0.42e9, and Llama-3.3-70B, 1.4e9, are 17 hidden^2 and their reduced
    vocabulary of 32,000).
    """
    return 17.0 * target.hidden**2 + draft_vocab * target.hidden


@dataclass(frozen=True)
class _Matrices:
    read_s: float
    extra_s: float
    """Beyond reading: what multiplying adds where the two overlap."""


def _matrices(setting: DecodeSetting, tokens: float) -> _Matrices:
    tp, llm, gpu = setting.tensor_parallel, setting.llm, setting.gpu
    rows = setting.batch * tokens
    read_bytes = float(params_read(llm, rows, EXPERT_CORRELATION)) * setting.bytes_per_param
    read_s = read_bytes / (tp * gpu.memory_bytes_per_s * _BANDWIDTH_EFFICIENCY)
    rate = tp * half_precision_flops(gpu) * _MATRIX_EFFICIENCY
    multiply_s = rows * flops_per_token(llm) / rate
    together = (read_s**_OVERLAP + multiply_s**_OVERLAP) ** (1.0 / _OVERLAP)
    return _Matrices(read_s, together - read_s)


def _draft_pass_s(setting: MachineRound, decode: PooledFit) -> float:
    if setting.draft is not None:
        return decode.predict(decode_work(setting.draft)).value
    target = setting.target
    read = (setting.head_params or 0.0) * _HEAD_BYTES_PER_PARAM
    rate = target.tensor_parallel * target.gpu.memory_bytes_per_s * _BANDWIDTH_EFFICIENCY
    return read / rate
