"""Published measurements and rulings on a guide's claims, for checks. No plan reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from capplan.facts.rows import PROVENANCE, Row, build, read_family, read_rows
from capplan.schema.audit import ControllerReplay, PublishedRun, Ruling
from capplan.schema.provenance import Kind
from capplan.schema.quantity import Quantity

RULING_COLUMNS = ("claims", "verdict", "name", "reason", *PROVENANCE)
_SPEEDUP_COLUMNS = (
    *("id", "target", "draft", "method", "gpu", "n_gpu", "dtype", "temperature", "task"),
    *("batch_size", "context", "N", "verify_tokens", "alpha_def", "alpha", "tau", "c"),
    *("t_ar_ms", "t_sd_ms", "gammaTD_ms", "TV_ms", "paper_pred", "measured_speedup"),
    *("notes", "quality", "source_key", "locator"),
)
_THROUGHPUT_COLUMNS = (
    *("id", "target", "draft", "method", "gpu", "n_gpu", "tp", "engine", "dtype"),
    *("temperature", "task", "isl", "osl", "load_kind", "load", "N", "verify_tokens", "tau"),
    *("baseline", "spec", "unit", "speedup", "notes", "quality", "source_key", "locator"),
)
_VERIFY_COLUMNS = (
    *("id", "model", "gpu", "n_gpu", "tp", "batch", "context", "tokens_per_seq"),
    *("total_tokens", "verify_ms", "decode_ms", "ratio", "notes", "quality"),
    *("source_key", "locator"),
)
_REPLAY_COLUMNS = (
    *("pairing", "setting", "requests", "best_n", "guide_n"),
    *("over_five_low", "over_five", "over_five_high"),
    *("over_best_low", "over_best", "over_best_high", *PROVENANCE),
)
_SOUND = "ok"


def load_rulings(folder: Path) -> tuple[Ruling, ...]:
    """Load what evidence from outside says of a guide's claims."""
    return tuple(_ruling(row) for row in read_family(folder, RULING_COLUMNS))


def load_published_runs(folder: Path) -> tuple[PublishedRun, ...]:
    """Load the sound published speedups; duplicates and confounded rows are left out.

    Raises
    ------
    FactsError
        If a file is missing or a row is wrong; the message names file and line.
    """
    speedups = read_rows(folder / "speedup.csv", _SPEEDUP_COLUMNS)
    throughputs = read_rows(folder / "throughput.csv", _THROUGHPUT_COLUMNS)
    return (
        *(
            _run(row, "batch_size", "measured_speedup")
            for row in _sound(speedups, "measured_speedup")
        ),
        *(_run(row, "load", "speedup") for row in _sound(throughputs, "speedup")),
    )


def load_verification_ratios(folder: Path) -> tuple[float, ...]:
    """Load published times of a verifying pass over those of a plain decode step."""
    rows = read_rows(folder / "verify_cost.csv", _VERIFY_COLUMNS)
    ratios = (row.number("ratio") for row in rows if row.cells["quality"] == _SOUND)
    return tuple(ratio for ratio in ratios if ratio is not None)


def load_controller_replays(folder: Path) -> tuple[ControllerReplay, ...]:
    """Load what the guide's length controller gained where it was replayed."""
    return tuple(
        build(
            ControllerReplay,
            row,
            {
                **{name: row.cells[name] for name in ("pairing", "setting", "requests", "best_n")},
                "guide_n": row.cells["guide_n"],
                "over_five": _gain(row, "over_five"),
                "over_best": _gain(row, "over_best"),
            },
        )
        for row in read_family(folder, _REPLAY_COLUMNS)
    )


def _gain(row: Row, name: str) -> Quantity | None:
    low, mid, high = (row.number(part) for part in (f"{name}_low", name, f"{name}_high"))
    if low is None or mid is None or high is None:
        return None
    return build(Quantity, row, {"low": low, "mid": mid, "high": high})


def _sound(rows: Iterable[Row], speedup: str) -> Iterator[Row]:
    return (row for row in rows if row.cells["quality"] == _SOUND and row.cells[speedup])


def _run(row: Row, load: str, speedup: str) -> PublishedRun:
    length, verified = row.number("N"), row.number("verify_tokens")
    values = {name: row.cells[name] for name in ("source_key", "target", "draft", "method")}
    return build(
        PublishedRun,
        row,
        {
            **values,
            "gpu": row.cells["gpu"],
            "task": row.cells["task"],
            "temperature": row.number("temperature"),
            "load": row.number(load),
            "num_speculative_tokens": length,
            "is_chain": "tree" not in row.cells["method"]
            and (verified is None or length is None or verified == length + 1),
            "tokens_per_round": row.number("tau"),
            "speedup": row.number(speedup),
        },
    )


def _ruling(row: Row) -> Ruling:
    cells = {name: row.cells[name] for name in ("claims", "verdict", "name", "reason")}
    return build(Ruling, row, {**cells, "source": row.source(Kind.CITED)})
