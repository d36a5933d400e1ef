"""Options as rows for a spreadsheet. The columns are listed by hand: they are a contract."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from decimal import Decimal
from operator import attrgetter

from capplan.files.spreadsheets import inert
from capplan.schema.plan import Plan, PlanOption
from capplan.schema.quantity import Quantity

_BEFORE: tuple[str, ...] = (
    "id",
    "target",
    "draft",
    "method",
    "num_speculative_tokens",
    "gpu",
    "gpu_name",
    "tensor_parallel",
    "replicas",
    "gpus_rented",
    "provider",
    "instance",
    "region",
    "purchase",
    "term_months",
    "price_tier",
    "usd_per_gpu_hour",
    "price_source.kind",
    "price_source.reference",
    "price_source.date",
    "concurrency",
    "max_concurrency",
    "utilisation",
    "bill.total_usd",
    "bill.paid_hours",
    "bill.serving_hours",
    "bill.upfront_usd",
    "usd_per_month_idle",
    "planned_output_tokens_per_s",
    "guide_speedup",
)
_QUANTITIES: tuple[str, ...] = (
    "usd_per_month",
    "usd_per_million_output_tokens",
    "usd_per_million_total_tokens",
    "usd_per_thousand_requests",
    "output_tokens_per_s",
    "output_tokens_per_month",
    "tpot_ms",
    "ttft_ms",
    "speedup",
    "cost_ratio",
    "round_ratio",
    "acceptance.tokens_per_round",
    "acceptance.acceptance_rate",
)
_AFTER: tuple[str, ...] = (
    "acceptance.definition",
    "acceptance.source.kind",
    "acceptance.source.reference",
    "acceptance.source.date",
    "memory.gpu_bytes",
    "memory.usable_bytes",
    "memory.target_weight_bytes",
    "memory.draft_weight_bytes",
    "memory.overhead_bytes",
    "memory.activation_bytes",
    "memory.cuda_graph_bytes",
    "memory.non_torch_bytes",
    "memory.buffer_bytes",
    "memory.kv_pool_bytes",
    "memory.kv_bytes_per_token",
    "memory.kv_tokens",
    "memory.request_tokens",
    "memory.max_concurrency",
    "tier",
    "tier_note",
    "on_pareto_front",
    "warnings",
)
_ENDS = ("low", "mid", "high")

Cell = str | int | float


def option_records(plan: Plan) -> list[dict[str, object]]:
    """Return one record an option, best first: the columns of the CSV, values as they are."""
    names = columns()
    return [
        dict(zip(names, (rank, *_values(option)), strict=True))
        for rank, option in enumerate(plan.options, start=1)
    ]


def columns() -> tuple[str, ...]:
    """Return the header: dots of the plan file become underscores."""
    spread = (f"{name}_{end}" for name in _QUANTITIES for end in _ENDS)
    return tuple(name.replace(".", "_") for name in ("rank", *_BEFORE, *spread, *_AFTER))


def render_csv(plan: Plan) -> str:
    """Return one row an option, best first; an absent figure is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns())
    writer.writerows(map(_cell, record.values()) for record in option_records(plan))
    return out.getvalue()


def _values(option: PlanOption) -> list[object]:
    before = (_value(option, path) for path in _BEFORE)
    spread = (end for path in _QUANTITIES for end in _ends(_value(option, path)))
    after = (_value(option, path) for path in _AFTER)
    return [*before, *spread, *after]


def _value(option: PlanOption, path: str) -> object:
    part = path.partition(".")[0]
    if part in ("acceptance", "bill") and getattr(option, part) is None:
        return None
    value: object = attrgetter(path)(option)
    return value


def _ends(value: object) -> Iterable[object]:
    if isinstance(value, Quantity):
        return (value.low, value.mid, value.high)
    return (None, None, None)


def _cell(value: object) -> Cell:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, tuple):
        return inert("; ".join(str(item) for item in value))
    return inert(str(value))
