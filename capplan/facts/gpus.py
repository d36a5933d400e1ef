"""GPUs of models_db."""

from __future__ import annotations

from pathlib import Path

from capplan.facts.rows import PROVENANCE, Row, build, read_family
from capplan.schema.gpu import GpuSpec
from capplan.schema.provenance import Kind
from capplan.units import BYTES_PER_GB, BYTES_PER_MIB

_TERA = 1e12
_ALTERNATIVES = "|"

GPU_COLUMNS = (
    *("id", "name", "vendor", "arch", "compute_capability", "form_factor", "memory_type"),
    *("memory_mib_reported", "memory_gb_nominal", "memory_gb_per_s"),
    *("bf16_dense_tflops", "fp16_dense_tflops", "fp8_dense_tflops"),
    *("int8_dense_tops", "fp4_dense_tflops"),
    *("interconnect", "interconnect_gb_per_s", "tdp_w", "chip_names", "device_names"),
    *PROVENANCE,
)


def load_gpus(folder: Path) -> tuple[GpuSpec, ...]:
    """Load GPUs; reported memory wins over the nominal gigabytes of the data sheet.

    Raises
    ------
    FactsError
        If no file is there or a row is wrong; the message names file and line.
    """
    return tuple(_gpu(row) for row in read_family(folder, GPU_COLUMNS))


def _gpu(row: Row) -> GpuSpec:
    reported = row.scaled("memory_mib_reported", BYTES_PER_MIB)
    texts = ("id", "name", "vendor", "arch", "compute_capability", "form_factor", "interconnect")
    values = {
        **{name: row.required(name) for name in texts},
        "memory_type": row.cells["memory_type"],
        "memory_bytes": reported or row.scaled("memory_gb_nominal", BYTES_PER_GB),
        "memory_is_reported": reported is not None,
        "memory_gb_nominal": row.number("memory_gb_nominal"),
        "memory_bytes_per_s": row.scaled("memory_gb_per_s", BYTES_PER_GB),
        "bf16_flops_per_s": row.scaled("bf16_dense_tflops", _TERA),
        "fp16_flops_per_s": row.scaled("fp16_dense_tflops", _TERA),
        "fp8_flops_per_s": row.scaled("fp8_dense_tflops", _TERA),
        "int8_ops_per_s": row.scaled("int8_dense_tops", _TERA),
        "fp4_flops_per_s": row.scaled("fp4_dense_tflops", _TERA),
        "interconnect_bytes_per_s": row.scaled("interconnect_gb_per_s", BYTES_PER_GB),
        "tdp_w": row.number("tdp_w"),
        "chip_names": tuple(row.required("chip_names").split(_ALTERNATIVES)),
        "device_names": tuple(filter(None, row.cells["device_names"].split(_ALTERNATIVES))),
        "source": row.source(Kind.CITED),
    }
    return build(GpuSpec, row, values)
