"""Time of a verification from the time of a decode step at the same batch and context."""

from __future__ import annotations

from collections.abc import Sequence

from capplan.estimate.verification import (
    MeasuredVerification,
    VerificationSetting,
    verification_from_decode,
)
from capplan.units import MS_PER_S
from capplan.validation.rows import PublishedRows, VerifyRow
from capplan.validation.scoring import Scored

_NO_CONTEXT = 0.0


def predict(rows: PublishedRows) -> Sequence[Scored]:
    """Leave each setting out, with every row that repeats it, and predict it from the rest."""
    pairs = [(row, own) for row in rows.verify_cost if (own := _measured(row)) is not None]
    scored = []
    for row, own in pairs:
        rest = [one for _, one in pairs if not _is_repeat(one.setting, own.setting)]
        found = verification_from_decode(rest, own.setting)
        if found is None:
            continue
        low, high = found.interval_90()
        scored.append(
            Scored(
                source=row.source_key,
                measured=own.verify_s,
                predicted=found.mid,
                low=low,
                high=high,
                is_speedup=False,
                label=_label(own.setting),
            )
        )
    return scored


def _is_repeat(one: VerificationSetting, other: VerificationSetting) -> bool:
    """Say whether two rows time the same pass, as two drafts for one target do."""
    return _identity(one) == _identity(other)


def _identity(setting: VerificationSetting) -> tuple[object, ...]:
    return (
        *(setting.llm, setting.gpu, setting.num_gpus, setting.batch),
        *(setting.context_tokens, setting.tokens_per_sequence),
    )


def _measured(row: VerifyRow) -> MeasuredVerification | None:
    verify_ms, decode_ms = row.verify_ms, row.decode_ms
    if verify_ms is None and row.ratio is not None and decode_ms is not None:
        verify_ms = row.ratio * decode_ms
    if not verify_ms or not decode_ms or not row.batch or not row.tokens_per_seq:
        return None
    if verify_ms < 0 or decode_ms < 0 or row.tokens_per_seq <= 1:
        return None
    setting = VerificationSetting(
        llm=row.model,
        gpu=row.gpu,
        num_gpus=row.n_gpu,
        batch=row.batch,
        context_tokens=row.context if row.context is not None else _NO_CONTEXT,
        tokens_per_sequence=row.tokens_per_seq,
        decode_s=decode_ms / MS_PER_S,
    )
    return MeasuredVerification(setting, verify_ms / MS_PER_S)


def _label(setting: VerificationSetting) -> str:
    group = setting.gpu if setting.num_gpus is None else f"{setting.num_gpus:g} x {setting.gpu}"
    return (
        f"{setting.llm} on {group}, B={setting.batch:g}, {setting.context_tokens:g} tokens of "
        f"context, {setting.tokens_per_sequence:g} a sequence"
    )
