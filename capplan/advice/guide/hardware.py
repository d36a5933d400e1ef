"""What the named hardware and the named sizes allow, by bytes and bandwidth."""

from __future__ import annotations

from collections.abc import Iterator

from capplan.advice.guide.sheet import AuditEvidence, Found, Sheet, contradicted, uncheckable
from capplan.schema.audit import ClaimVerdict, Finding
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.provenance import Kind, Source
from capplan.units import BYTES_PER_GB, HOURS_PER_MONTH

_BYTES_PER_PARAM_AWQ = 0.5
"""4 bit, without scales and the parts left in 16 bit: a lower bound."""
_STAND_IN = "Qwen/Qwen2.5-72B-Instruct"
"""The real 72B dense LLM of the family, for shapes that the guide's 72B does not have."""
_MEMORY_SHARE = 0.92
"""Share of each GPU that vLLM 0.33 allots by default, before the first request."""


def bandwidth(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Compare the plain decode speed with what the GPUs' bandwidth allows one stream."""
    gpu = evidence.gpu
    if gpu is None:
        return
    claim, gpus = "a100-none-decode", sheet["a100-gpus"]
    weights = _weight_bytes(sheet)
    most = gpus * gpu.memory_bytes_per_s / weights
    share = sheet[claim] / most
    reason = (
        f"{weights / BYTES_PER_GB:.0f} GB of 4-bit weights read once a token from {gpus:g} x "
        f"{gpu.memory_bytes_per_s / BYTES_PER_GB:,.0f} GB/s allow one stream {most:.0f} tokens/s: "
        f"{sheet[claim]:g} is {share * 100:.0f} % of that bound"
    )
    if share > 1:
        yield claim, contradicted(f"{reason}, more than there is.", _of(gpu), most)
    else:
        reason += ", possible for one request; the guide does not say how many ran."
        yield claim, uncheckable(reason, _of(gpu))


def memory(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Ask what the memory column can mean: for one GPU, for all, and for two more tokens."""
    gpu, llm = evidence.gpu, evidence.llms.get(_STAND_IN)
    if gpu is not None:
        gpus = sheet["a100-gpus"]
        weights_gb = _weight_bytes(sheet) / BYTES_PER_GB
        claim = "a100-none-memory"
        total = sheet[claim]
        each = f"{total * gpus:g} GB on {gpus:g} GPUs"
        allotted = gpu.memory_bytes * _MEMORY_SHARE / BYTES_PER_GB
        reason = (
            f"4-bit weights of 72B alone take {weights_gb:.0f} GB. As a total {total:g} GB leaves "
            f"{total - weights_gb:.0f} GB for the cache of {sheet['a100-concurrency']:g} "
            f"requests; as a share of one GPU it makes {each}; vLLM allots "
            f"{allotted:.0f} GB of an 80 GB GPU at start, whatever N is."
        )
        yield claim, uncheckable(reason, _of(gpu))
    if llm is not None and llm.kv_bytes_per_token is not None:
        yield from _per_length(sheet, llm, llm.kv_bytes_per_token)


def _per_length(sheet: Sheet, llm: LlmSpec, kv_bytes: float) -> Iterator[Found]:
    claim, requests = "a100-n7-memory", sheet["a100-concurrency"]
    extra_tokens = 2
    needed_gb = extra_tokens * requests * kv_bytes / BYTES_PER_GB
    claimed_gb = sheet[claim] - sheet["a100-n5-memory"]
    if claimed_gb <= 2 * needed_gb:
        return
    reason = (
        f"{claimed_gb:g} GB more than at N = 5, where {extra_tokens} more tokens of {requests:g} "
        f"requests take {needed_gb:.2f} GB of cache ({kv_bytes:,.0f} bytes a token, {llm.id})."
    )
    yield claim, contradicted(reason, llm.source)


def gpu_hours(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Turn the monthly bill into a price of a GPU hour and compare it with list prices."""
    prices = evidence.gpu_hour_usd
    if not prices:
        return
    claim = "cost-none-month"
    hourly = sheet[claim] / sheet["cost-gpus"] / HOURS_PER_MONTH
    inside = min(prices) <= hourly <= max(prices)
    reason = (
        f"${sheet[claim]:,g} for {sheet['cost-gpus']:g} GPUs and 730 h is ${hourly:.2f} a GPU "
        f"hour; {len(prices)} on-demand list prices of an A100 run from ${min(prices):.2f} to "
        f"${max(prices):.2f}. Provider and memory size are not stated."
    )
    source = Source(kind=Kind.CITED, reference="models_db/prices, A100, on demand, list")
    finding = uncheckable(reason, source) if inside else contradicted(reason, source)
    yield claim, finding


def sizes(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Compare the sizes of checkpoints that exist with their own parameter counts."""
    maverick = evidence.llms.get("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    claim = "pair-llama-4-maverick-target-size"
    if maverick is not None:
        billions = maverick.params_total / 1e9
        agrees = abs(billions - sheet[claim]) < 0.01 * sheet[claim]
        reason = f"The checkpoint has {billions:.1f} billion parameters ({maverick.id})."
        verdict = ClaimVerdict.REPRODUCED if agrees else ClaimVerdict.CONTRADICTED
        yield (
            claim,
            Finding(verdict=verdict, reason=reason, recomputed=billions, source=maverick.source),
        )


def _weight_bytes(sheet: Sheet) -> float:
    return sheet["pair-qwen3.5-72b-target-size"] * 1e9 * _BYTES_PER_PARAM_AWQ


def _of(gpu: GpuSpec) -> Source:
    return gpu.source
