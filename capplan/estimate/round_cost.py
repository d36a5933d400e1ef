"""What a speculative round costs in decode steps where nothing of it was measured.

    round / decode = 1 + N * draft pass + experts touched more + arithmetic of the extra tokens
                       + exchange of the extra tokens + N * launch of a pass + work of the round

each term in decode steps and each with a factor that other engines and sources lend
(``pooling``). The decode step itself comes from ``decoding``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from capplan.estimate.datasheet_step import beyond_reading
from capplan.estimate.decoding import (
    EXPERT_CORRELATION,
    DecodeSetting,
    decode_work,
    half_precision_flops,
)
from capplan.estimate.moe import params_read
from capplan.estimate.pooling import Factor, Group, PooledFit, Work
from capplan.estimate.work import (
    exchange_seconds_per_token,
    flops_per_token,
    link_bytes_per_s,
)
from capplan.schema.llm import LlmSpec

ROUND_FACTORS = (
    Factor("step", 1.0, 0.02),
    Factor("round_ms", 0.6, 0.5),
    Factor("experts", 1.0, 0.4),
    Factor("flops", 1.0, 0.5),
    Factor("exchange", 1.6, 0.3),
    Factor("head", 1.0, 0.25),
    Factor("draft", 1.0, 0.25),
    Factor("pass_ms", 0.25, 0.7),
)
PLANNED_FACTORS = (
    Factor("step", 1.0, 0.02),
    Factor("round_s", 0.95e-3, 0.4),
    Factor("experts", 1.0, 0.4),
    Factor("arithmetic", 1.0, 0.25),
    Factor("exchange", 1.0, 0.5),
    Factor("head", 1.0, 0.25),
    Factor("draft", 1.0, 0.1),
    Factor("draft_pass_s", 0.35e-3, 0.7),
)
"""The same terms where an engine's own constants give the step: efficiencies of reading, of
multiplying and of links are in them already, so that less is left to a factor."""
ROUND_NOISE = 0.06
_SPREADS = (
    (0.0, 0.0),
    (0.25, 0.6),
    (0.2, 0.0),
    (0.3, 0.0),
    (0.0, 0.0),
    (0.2, 0.0),
    (0.1, 0.0),
    (0.3, 1.0),
)
_PLANNED_SPREADS = (
    (0.0, 0.02),
    (0.25, 0.6),
    (0.2, 0.4),
    (0.2, 0.4),
    (0.3, 0.3),
    (0.2, 0.3),
    (0.1, 0.1),
    (1.0, 0.5),
)
"""How much each factor differs, in its logarithm, between engines and between deployments of one.

Deployments differ more, but for the fixed cost of a draft pass: that is the engine's own loop, and
one engine says little of another's. SGLang took 0.25 to 0.35 ms in most deployments, vLLM 0.3 to
1.0 ms.
"""

_MATRIX_EFFICIENCY = 0.4
_BANDWIDTH_EFFICIENCY = 0.85
"""Units that the factors are relative to."""
_OVERLAP = 3.0
"""Reading weights and multiplying overlap. Exponent 1 would add them, which makes a few extra
tokens far too dear at small batches; infinity would hide the smaller one, which makes many extra
tokens free."""
HEAD_BYTES_PER_PARAM = 2.0
_MS = 1e-3

Groups = tuple[tuple[tuple[Group, float], ...], ...]


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
    prefill_s, tokens_per_round
        Prompts of other requests that a token waits for, and what a round yields: what is seen
        of a round is diluted by them (:func:`diluted`).
    """

    target: DecodeSetting
    drafted: float
    verified: float
    head_params: float | None
    draft: DecodeSetting | None
    deployment: str = ""
    prefill_s: float = 0.0
    tokens_per_round: float = 1.0


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
    drafting = s.drafted * _draft_pass_s(s, decode) / step_s
    amounts = (
        1.0,
        _MS / step_s,
        (after.read_s - before.read_s) / step_s,
        (after.extra_s - before.extra_s) / step_s,
        target.batch * (s.verified - 1.0) * _exchange_s(target) / step_s,
        drafting if is_head else 0.0,
        0.0 if is_head else drafting,
        s.drafted * _MS / step_s,
    )
    in_steps = diluted(amounts, step_s, s.prefill_s, s.tokens_per_round)
    return Work(in_steps, round_groups(target.engine, s.deployment))


def round_groups(engine: str, deployment: str) -> Groups:
    """Return the groups that each factor of a round belongs to, with their spread."""
    return _groups(_SPREADS, engine, deployment)


def planned_groups(engine: str, deployment: str) -> Groups:
    """Return the same for :data:`PLANNED_FACTORS`."""
    return _groups(_PLANNED_SPREADS, engine, deployment)


def _groups(spreads: Sequence[tuple[float, float]], engine: str, deployment: str) -> Groups:
    whose: tuple[Group, Group] = (("engine", engine), ("deployment", deployment))
    return tuple(
        tuple((group, sd) for group, sd in zip(whose, pair, strict=True) if sd) for pair in spreads
    )


def diluted(
    amounts: Sequence[float], step_s: float, prefill_s: float, tokens_per_round: float
) -> tuple[float, ...]:
    """Return a round in steps as seen where prompts of other requests share the machine.

    A token without speculation takes a step and ``prefill_s``, one with it a share of a round and
    ``prefill_s``: tokens over speedup is ``(round + tokens * prefill) / (step + prefill)``.

    Parameters
    ----------
    amounts
        Terms of a round in steps, the step itself first.
    prefill_s
        Others' prompts, a token of this request; 0 where nobody shares.
    """
    share = step_s / (step_s + prefill_s)
    step, *rest = amounts
    return (share * step + (1.0 - share) * tokens_per_round, *(share * one for one in rest))


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
    return _Matrices(read_s, float(beyond_reading(read_s, multiply_s, _OVERLAP)))


def _exchange_s(setting: DecodeSetting) -> float:
    """Return the all-reduces of one token at the link's rate."""
    link = link_bytes_per_s(setting.gpu.interconnect_bytes_per_s)
    return float(exchange_seconds_per_token(setting.llm, setting.tensor_parallel, link))


def _draft_pass_s(setting: MachineRound, decode: PooledFit) -> float:
    if setting.draft is not None:
        return decode.predict(decode_work(setting.draft)).value
    target = setting.target
    read = (setting.head_params or 0.0) * HEAD_BYTES_PER_PARAM
    rate = target.tensor_parallel * target.gpu.memory_bytes_per_s * _BANDWIDTH_EFFICIENCY
    return read / rate
