"""InferenceX (InferenceMAX) results: vLLM's client with latencies in seconds, without suffix.

Two layouts: the client's own file with ``_ms`` taken off its names and the values divided by
1,000, and the aggregated row (``hw``, ``tp``, ``conc``, throughput a GPU), one or a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields
from capplan.profiles.importers.reading import Reading, Stated
from capplan.profiles.importers.vllm_bench import latency, reading
from capplan.schema.observation import Flag, Load, Observation
from capplan.schema.pairing import Method

FORMAT = "inferencex"
_ROW = "inferencex-row"
_LATENCIES = ("ttft", "tpot", "e2el", "itl")
_SECONDS = 1.0
_METHODS = {"mtp": Method.MTP, "eagle": Method.EAGLE, "eagle3": Method.EAGLE3}


def detect(document: Document) -> bool:
    """Whether the file is of one of the two layouts."""
    first = _first_row(document)
    return _is_row(first) or _is_result(first)


def read(document: Document) -> Iterator[Reading]:
    """Yield every row or result."""
    rows = [row for value in document.values for row in _rows_of(value)]
    for index, row in enumerate(rows):
        part = f"row {index + 1}" if len(rows) > 1 else ""
        if _is_row(row):
            yield _aggregated(row, document.name, part)
        elif _is_result(row):
            yield _result(row, document.name, part)


def _rows_of(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _first_row(document: Document) -> object:
    rows = _rows_of(document.value)
    return rows[0] if rows else None


def _is_row(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    metrics = value.get("metrics")
    inner = metrics if isinstance(metrics, dict) else value
    return "tput_per_gpu" in inner and any(key in value for key in ("hw", "hardware", "conc"))


def _is_result(value: object) -> bool:
    bare = {f"{statistic}_{name}" for statistic in _STATISTICS for name in _LATENCIES}
    return isinstance(value, dict) and "output_throughput" in value and bool(bare & value.keys())


_STATISTICS = ("mean", "median", "p90", "p99")


def _result(value: object, source: str, part: str) -> Reading:
    fields = Fields(value)
    read_as_vllm = reading(fields, source, part)
    observation = read_as_vllm.observation.model_copy(
        update={
            "format": FORMAT,
            "ttft_s": latency(fields, "ttft", "", _SECONDS),
            "tpot_s": latency(fields, "tpot", "", _SECONDS),
            "e2e_s": latency(fields, "e2el", "", _SECONDS),
        }
    )
    stated = replace(
        read_as_vllm.stated,
        gap_s=latency(fields, "itl", "", _SECONDS),
        latency_unit="s",
        unit_is_named=False,
        prompt_text=read_as_vllm.stated.prompt_text,
        odd=tuple(fields.odd),
    )
    return Reading(observation, stated)


def _aggregated(value: object, source: str, part: str) -> Reading:
    row = Fields(value)
    metrics = row.section("metrics") if "metrics" in row else row
    gpus, decoding = _gpus(row)
    per_gpu = metrics.count("output_tput_per_gpu")
    method, unknown = _drafting(row)
    observation = Observation(
        source=source,
        format=_ROW,
        part=part,
        model=row.text("model", "infmax_model_prefix"),
        method=method,
        engine=row.text("framework"),
        gpu=row.text("hw", "hardware"),
        gpu_count=gpus,
        started_at=row.text("date"),
        load=Load(arrival="closed_loop", max_concurrency=row.whole("conc", "concurrency")),
        output_tokens_per_s=per_gpu * decoding if per_gpu is not None and decoding else None,
        ttft_s=latency(metrics, "ttft", "", _SECONDS),
        tpot_s=latency(metrics, "tpot", "", _SECONDS),
        e2e_s=latency(metrics, "e2el", "", _SECONDS),
    )
    total = metrics.count("tput_per_gpu")
    stated = Stated(
        total_tokens_per_s=total * gpus if total is not None and gpus else None,
        mean_prompt_tokens=row.count("isl"),
        mean_output_tokens=row.count("osl"),
        gap_s=latency(metrics, "itl", "", _SECONDS),
        gap_is="step",
        latency_unit="s",
        unit_is_named=False,
        prompt_text="random tokens",
        flags=(_NO_COUNTS, *unknown),
        odd=tuple(row.odd),
    )
    return Reading(observation, stated)


def _gpus(row: Fields) -> tuple[int | None, int | None]:
    """Return all GPUs, and those that the output throughput was divided by.

    Where prefill and decode have GPUs of their own, output is that of a decode GPU.
    """
    prefill, decode = _pool(row, "prefill"), _pool(row, "decode")
    if row.raw("disagg") is not True:
        # one pool: it stands under either name, or under both
        found = max((one for one in (prefill, decode) if one), default=None)
        single = _product(row, "tp", "pp", "pcp_size") if found is None else found
        return single, single
    if prefill is None:
        return None, decode
    everything = prefill + (decode or 0)
    return everything, decode or everything


def _pool(row: Fields, name: str) -> int | None:
    """Return the GPUs of one kind of worker: counted, else workers times those of one."""
    counted = row.whole(f"num_{name}_gpu")
    if counted is not None or f"num_{name}_gpu" in row:
        return counted
    workers = row.whole(f"{name}_num_workers")
    one = _product(row, f"{name}_tp", f"{name}_pp", f"{name}_pcp_size")
    if one is None or (workers is None and row.raw("disagg") is True):
        return None
    return one * (workers or 1)


def _product(row: Fields, first: str, *others: str) -> int | None:
    gpus = row.whole(first)
    for name in others:
        gpus = gpus * (row.whole(name) or 1) if gpus is not None else None
    return gpus


def _drafting(row: Fields) -> tuple[Method | None, tuple[Flag, ...]]:
    name = row.text("spec_decoding", "mtp").lower()
    if name in {"", "none", "off", "false"}:
        return None, ()
    if name in _METHODS or row.text("mtp"):
        return _METHODS.get(name, Method.MTP), ()
    text = f"speculation {name!r} is no method that capplan knows"
    return None, (Flag(check="method_unknown", text=text, remedy="State it with --method."),)


_NO_COUNTS = Flag(
    check="no_counts",
    text="an aggregated row: neither requests nor duration are given, so nothing can be checked "
    "by counting",
    remedy="Import the client's own result beside it.",
)
