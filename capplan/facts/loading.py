"""CSV files of models_db to values. A bad row is an error with file and line, never skipped."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from capplan.errors import FactsError
from capplan.schema.base import Value
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import AcceptanceFact, Claim, Pairing
from capplan.schema.price import PriceRow, Purchase
from capplan.schema.provenance import Kind, Source
from capplan.units import BYTES_PER_GB, BYTES_PER_MIB

V = TypeVar("V", bound=Value)

_TERA = 1e12
_PROVENANCE = ("source", "as_of", "note")

GPU_COLUMNS = (
    *("id", "name", "vendor", "arch", "compute_capability"),
    *("memory_mib_reported", "memory_gb_nominal", "memory_gb_per_s"),
    *("bf16_dense_tflops", "fp8_dense_tflops", "int8_dense_tops", "fp4_dense_tflops"),
    *("interconnect", "interconnect_gb_per_s", "tdp_w", "device_names"),
    *_PROVENANCE,
)
LLM_COLUMNS = (
    *("id", "family", "params_total", "params_active", "weight_bytes", "weight_bytes_active"),
    *("layers", "hidden", "vocab_size", "kv_bytes_per_token", "kv_heads", "max_context"),
    *("experts", "experts_per_token", "mtp_layers", "dtype", "attention", "tokenizer_family"),
    *("licence", *_PROVENANCE),
)
PAIRING_COLUMNS = (
    *("target", "draft", "method", "draft_params", "default_num_speculative_tokens"),
    *("vocab_check", "licence", "exists", *_PROVENANCE),
)
ACCEPTANCE_COLUMNS = (
    *("target", "draft", "method", "task", "temperature", "num_speculative_tokens"),
    *("tokens_per_round", "definition", "setting", *_PROVENANCE),
)
PRICE_COLUMNS = (
    *("provider", "instance", "gpu", "gpu_count", "region"),
    *("on_demand_usd_per_hour", "spot_usd_per_hour", "tier", *_PROVENANCE),
)
CLAIM_COLUMNS = ("id", "topic", "subject", "figure", "value", "unit", *_PROVENANCE)

_LLM_NEEDS = ("params_total", "params_active", "weight_bytes", "layers", "hidden", "vocab_size")


@dataclass(frozen=True)
class IncompleteLlm:
    """An LLM whose figures are not all known; listed, never planned with."""

    id: str
    family: str
    missing: tuple[str, ...]
    source: Source


@dataclass(frozen=True)
class Row:
    """One line of a CSV file, with what an error message needs."""

    path: Path
    line: int
    cells: Mapping[str, str]

    def error(self, column: str, expected: str) -> FactsError:
        """Return the error for a cell that is not what it should be."""
        return FactsError(
            f"{self.path}:{self.line}: column {column} is {self.cells.get(column, '')!r}, "
            f"expected {expected}.",
            "Correct the row; models_db/README.md describes the columns.",
        )

    def required(self, column: str) -> str:
        """Return a cell that must not be empty."""
        if not self.cells[column]:
            raise self.error(column, "some text")
        return self.cells[column]

    def number(self, column: str) -> float | None:
        """Return a finite number, None for an empty cell."""
        text = self.cells[column]
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            raise self.error(column, "a number") from None
        if not math.isfinite(value):
            raise self.error(column, "a finite number")
        return value

    def scaled(self, column: str, factor: float) -> float | None:
        """Return a number in base units, None for an empty cell."""
        value = self.number(column)
        return None if value is None else value * factor

    def source(self, kind: Kind) -> Source:
        """Return where the row comes from."""
        return Source(
            kind=kind,
            reference=self.required("source"),
            date=self.cells["as_of"] or None,
            note=self.cells["note"],
        )


def read_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    """Yield the rows of a CSV file with exactly these columns.

    Raises
    ------
    FactsError
        If the file is missing, its header differs or a row has too many or too few cells.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FactsError(f"{path}: cannot be read: {error}.", "Reinstall capplan.") from error
    reader = csv.reader(io.StringIO(text, newline=""))
    header = tuple(next(reader, ()))
    if header != columns:
        raise FactsError(
            f"{path}:1: the header is {','.join(header)!r}, expected {','.join(columns)!r}.",
            "Columns are fixed; models_db/README.md describes them.",
        )
    for cells in reader:
        if len(cells) != len(columns):
            raise FactsError(
                f"{path}:{reader.line_num}: {len(cells)} cells, expected {len(columns)}.",
                "Quote cells that contain a comma.",
            )
        yield Row(path, reader.line_num, dict(zip(columns, cells, strict=True)))


def build(model: type[V], row: Row, values: Mapping[str, object]) -> V:
    """Validate a value; a violation names file, line, column, the value and what was expected."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"])) or "row"
        raise FactsError(
            f"{row.path}:{row.line}: column {column} is {first['input']!r}: {first['msg']}.",
            "Correct the row; models_db/README.md describes the columns.",
        ) from None


def _filled(row: Row, skip: tuple[str, ...]) -> dict[str, object]:
    return {name: cell for name, cell in row.cells.items() if cell and name not in skip}


def load_gpus(path: Path) -> tuple[GpuSpec, ...]:
    """Load GPUs; reported memory wins over the nominal gigabytes of the data sheet."""
    return tuple(_gpu(row) for row in read_rows(path, GPU_COLUMNS))


def _gpu(row: Row) -> GpuSpec:
    reported = row.scaled("memory_mib_reported", BYTES_PER_MIB)
    texts = ("id", "name", "vendor", "arch", "compute_capability", "interconnect")
    values = {
        **{name: row.required(name) for name in texts},
        "memory_bytes": reported or row.scaled("memory_gb_nominal", BYTES_PER_GB),
        "memory_is_reported": reported is not None,
        "memory_bytes_per_s": row.scaled("memory_gb_per_s", BYTES_PER_GB),
        "bf16_flops_per_s": row.scaled("bf16_dense_tflops", _TERA),
        "fp8_flops_per_s": row.scaled("fp8_dense_tflops", _TERA),
        "int8_ops_per_s": row.scaled("int8_dense_tops", _TERA),
        "fp4_flops_per_s": row.scaled("fp4_dense_tflops", _TERA),
        "interconnect_bytes_per_s": row.scaled("interconnect_gb_per_s", BYTES_PER_GB),
        "tdp_w": row.number("tdp_w"),
        "source": row.source(Kind.CITED),
    }
    return build(GpuSpec, row, values)


def load_llms(path: Path) -> tuple[tuple[LlmSpec, ...], tuple[IncompleteLlm, ...]]:
    """Load LLMs: those with all figures, and those that are only known to exist."""
    complete: list[LlmSpec] = []
    incomplete: list[IncompleteLlm] = []
    for row in read_rows(path, LLM_COLUMNS):
        missing = tuple(name for name in _LLM_NEEDS if not row.cells[name])
        source = row.source(Kind.CITED)
        if missing:
            incomplete.append(
                IncompleteLlm(row.required("id"), row.required("family"), missing, source)
            )
            continue
        values = {**_filled(row, ("attention", *_PROVENANCE)), "source": source}
        complete.append(build(LlmSpec, row, values))
    return tuple(complete), tuple(incomplete)


def load_pairings(path: Path) -> tuple[Pairing, ...]:
    """Load pairings; ids that nobody published carry ``exists`` false."""
    return tuple(_cited(Pairing, row) for row in read_rows(path, PAIRING_COLUMNS))


def load_acceptance(path: Path) -> tuple[AcceptanceFact, ...]:
    """Load published acceptance figures, in tokens a round with the bonus token."""
    return tuple(_cited(AcceptanceFact, row) for row in read_rows(path, ACCEPTANCE_COLUMNS))


def _cited(model: type[V], row: Row) -> V:
    return build(model, row, {**_filled(row, _PROVENANCE), "source": row.source(Kind.CITED)})


def load_claims(path: Path) -> tuple[Claim, ...]:
    """Load figures that a guide states without a measurement."""
    return tuple(_claim(row) for row in read_rows(path, CLAIM_COLUMNS))


def _claim(row: Row) -> Claim:
    source = Source(
        kind=Kind.CLAIMED, reference=row.required("source"), date=row.cells["as_of"] or None
    )
    return build(Claim, row, {**_filled(row, ("source", "as_of")), "source": source})


def load_prices(path: Path) -> tuple[PriceRow, ...]:
    """Load offers; a row with an on-demand and a spot price becomes two."""
    return tuple(price for row in read_rows(path, PRICE_COLUMNS) for price in _prices(row))


def _prices(row: Row) -> Iterator[PriceRow]:
    shared = {name: row.required(name) for name in ("provider", "instance", "gpu", "gpu_count")}
    shared |= {name: row.required(name) for name in ("region", "tier")}
    offers = {
        Purchase.ON_DEMAND: row.number("on_demand_usd_per_hour"),
        Purchase.SPOT: row.number("spot_usd_per_hour"),
    }
    if not any(price is not None for price in offers.values()):
        raise row.error("on_demand_usd_per_hour", "a price, on demand or spot")
    for purchase, usd_per_hour in offers.items():
        if usd_per_hour is not None:
            source = row.source(Kind.CITED)
            values = {**shared, "purchase": purchase, "usd_per_hour": usd_per_hour}
            values |= {"source": source, "note": row.cells["note"]}
            yield build(PriceRow, row, values)
