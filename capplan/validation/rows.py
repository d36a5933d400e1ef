"""Rows of a folder of published measurements, as typed values. Anything may be missing."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

OK = "ok"
"""The grade of a sound row; rows of files without a column for it are taken as sound."""


@dataclass(frozen=True)
class SpeedupRow:
    """One speculative run of ``speedup.csv``; times in milliseconds a step of the whole batch."""

    id: str = ""
    target: str = ""
    draft: str = ""
    method: str = ""
    gpu: str = ""
    n_gpu: float | None = None
    dtype: str = ""
    temperature: float | None = None
    task: str = ""
    batch_size: float | None = None
    context: float | None = None
    N: float | None = None
    verify_tokens: float | None = None
    alpha: float | None = None
    tau: float | None = None
    c: float | None = None
    t_ar_ms: float | None = None
    t_sd_ms: float | None = None
    gammaTD_ms: float | None = None  # noqa: N815 - the file's own column
    TV_ms: float | None = None
    measured_speedup: float | None = None
    notes: str = ""
    quality: str = OK
    source_key: str = ""


@dataclass(frozen=True)
class ThroughputRow:
    """Throughput or time a token at one load, with and without speculation."""

    id: str = ""
    target: str = ""
    draft: str = ""
    method: str = ""
    gpu: str = ""
    n_gpu: float | None = None
    tp: float | None = None
    engine: str = ""
    dtype: str = ""
    temperature: float | None = None
    task: str = ""
    isl: float | None = None
    osl: float | None = None
    load_kind: str = ""
    load: float | None = None
    N: float | None = None
    verify_tokens: float | None = None
    tau: float | None = None
    baseline: float | None = None
    spec: float | None = None
    unit: str = ""
    speedup: float | None = None
    notes: str = ""
    quality: str = OK
    source_key: str = ""


@dataclass(frozen=True)
class AcceptanceRow:
    """Acceptance alone: tokens a round, or rates by position."""

    id: str = ""
    target: str = ""
    draft: str = ""
    method: str = ""
    task: str = ""
    temperature: float | None = None
    N: float | None = None
    verify_tokens: float | None = None
    alpha: float | None = None
    alpha_pos: str = ""
    accept_rate: float | None = None
    tau: float | None = None
    notes: str = ""
    quality: str = OK
    source_key: str = ""


@dataclass(frozen=True)
class GoldenRow:
    """Tokens a round by length, from ``golden_acceptance_length.csv``."""

    target: str = ""
    method: str = ""
    gpu: str = ""
    engine: str = ""
    task: str = ""
    thinking: str = ""
    temperature: float | None = None
    draft_sample_method: str = ""
    N: float | None = None
    tau: float | None = None
    quality: str = OK
    source: str = ""


@dataclass(frozen=True)
class DecodeRow:
    """Decoding without speculation, from ``baseline_decode.csv``."""

    id: str = ""
    model: str = ""
    gpu: str = ""
    n_gpu: float | None = None
    tp: float | None = None
    engine: str = ""
    dtype: str = ""
    task: str = ""
    isl: float | None = None
    osl: float | None = None
    load_kind: str = ""
    load: float | None = None
    tpot_ms: float | None = None
    tok_s_total: float | None = None
    tok_s_user: float | None = None
    notes: str = ""
    quality: str = OK
    source_key: str = ""


@dataclass(frozen=True)
class ServingRow:
    """Serving latencies without speculation in a closed loop, from ``serving_baseline.csv``."""

    id: str = ""
    model: str = ""
    gpu: str = ""
    n_gpu: float | None = None
    tp: float | None = None
    engine: str = ""
    engine_version: str = ""
    weight_quant: str = ""
    isl: float | None = None
    osl: float | None = None
    concurrency: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    aiconfigurator_0_12_ttft_ms: float | None = None
    aiconfigurator_0_12_tpot_ms: float | None = None
    quality: str = OK
    source: str = ""


@dataclass(frozen=True)
class VerifyRow:
    """Time of a step that verifies several tokens a sequence, from ``verify_cost.csv``."""

    id: str = ""
    model: str = ""
    gpu: str = ""
    n_gpu: float | None = None
    tp: float | None = None
    batch: float | None = None
    context: float | None = None
    tokens_per_seq: float | None = None
    total_tokens: float | None = None
    verify_ms: float | None = None
    decode_ms: float | None = None
    ratio: float | None = None
    notes: str = ""
    quality: str = OK
    source_key: str = ""


@dataclass(frozen=True)
class RoundRow:
    """Time of a speculative round and of the plain step beside it, from ``rounds.csv``."""

    id: str = ""
    target: str = ""
    draft: str = ""
    method: str = ""
    gpu: str = ""
    n_gpu: float | None = None
    dtype: str = ""
    batch: float | None = None
    context: float | None = None
    N: float | None = None
    decode_ms: float | None = None
    round_ms: float | None = None
    notes: str = ""
    quality: str = OK
    source_key: str = ""


AnyRow = (
    SpeedupRow
    | ThroughputRow
    | AcceptanceRow
    | GoldenRow
    | DecodeRow
    | ServingRow
    | VerifyRow
    | RoundRow
)


@dataclass(frozen=True)
class PublishedRows:
    """All rows of a folder, a family a file; a family whose file is missing is empty."""

    speedup: tuple[SpeedupRow, ...] = ()
    throughput: tuple[ThroughputRow, ...] = ()
    acceptance: tuple[AcceptanceRow, ...] = ()
    golden_acceptance_length: tuple[GoldenRow, ...] = ()
    baseline_decode: tuple[DecodeRow, ...] = ()
    serving_baseline: tuple[ServingRow, ...] = ()
    verify_cost: tuple[VerifyRow, ...] = ()
    rounds: tuple[RoundRow, ...] = ()
    problems: tuple[str, ...] = field(default=(), compare=False)
    """What could not be read, for people: file, line and cell."""

    def sound(self) -> PublishedRows:
        """Return the rows of quality ``ok`` alone."""
        families = {
            f.name: tuple(row for row in getattr(self, f.name) if row.quality == OK)
            for f in fields(self)
            if f.name != "problems"
        }
        return PublishedRows(**families, problems=self.problems)
