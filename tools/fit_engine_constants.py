"""Reproduce the fitted step constants of models_db/engines/vllm.yaml from published rows.

Run from the repository: python tools/fit_engine_constants.py
"""

from __future__ import annotations

import csv
from itertools import groupby

import numpy as np

from capplan.estimate.calibration import nonnegative_least_squares
from capplan.facts.catalog import load_catalog
from capplan.resources import models_db_dir

GPU_IDS = {"h100_sxm": "h100-sxm-80gb", "h200_sxm": "h200-sxm-141gb", "b200_sxm": "b200-sxm-180gb"}
BYTES_PER_PARAM = {"": 2.0, "fp8": 1.0, "nvfp4": 0.5625}
"""4.5 bits for nvfp4: 4-bit values and one 8-bit scale for 16 of them."""
LLM_IDS = {"meta-llama/Llama-3.1-70B": "meta-llama/Llama-3.1-70B-Instruct"}
TERMS = ("fixed", "layer", "communication", "weights", "kv", "prefill", "request")


def _features(row: dict[str, str]) -> list[float]:
    catalog = load_catalog()
    llm = catalog.llm(LLM_IDS.get(row["model"], row["model"]))
    gpu = catalog.gpu(GPU_IDS[row["gpu"]])
    tp, load = int(row["tp"]), float(row["concurrency"])
    isl, osl, quant = float(row["isl"]), float(row["osl"]), row["weight_quant"]
    peak = {
        "": gpu.bf16_flops_per_s,
        "fp8": gpu.fp8_flops_per_s,
        "nvfp4": gpu.fp4_flops_per_s,
    }[quant]
    assert peak is not None
    assert llm.kv_bytes_per_token is not None
    kv = llm.kv_bytes_per_token * (0.5 if quant else 1.0)  # quantised rows serve an fp8 KV cache
    return [
        1.0,
        llm.layers,
        llm.layers * float(np.log2(tp)),
        llm.params_total * BYTES_PER_PARAM[quant] / (tp * gpu.memory_bytes_per_s),
        load * (isl + osl / 2) * kv / (tp * gpu.memory_bytes_per_s),
        load * isl / osl * 2 * llm.params_active / (tp * peak),
        load,
    ]


def _group(row: dict[str, str]) -> tuple[str, str]:
    return row["model"], row["gpu"]


def main() -> None:
    """Fit, then leave one LLM x GPU out at a time."""
    path = models_db_dir() / "published" / "serving_baseline.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            # two rows say fp8 and time like bf16: the label, not the time, is taken to be wrong
            if row["engine"] == "vllm"
            and not (row["model"].startswith("Qwen") and row["weight_quant"])
        ]
    rows.sort(key=_group)
    seconds = np.array([float(row["tpot_ms"]) / 1e3 for row in rows])
    features = np.array([_features(row) for row in rows])
    scaled = features / seconds[:, None]
    ones = np.ones(len(rows))
    fitted = nonnegative_least_squares(scaled, ones)
    error = np.abs(scaled @ fitted - 1)
    print(
        f"{len(rows)} rows, in-sample mean error {error.mean():.3f}, median {np.median(error):.3f}"
    )
    for name, value in zip(TERMS, fitted, strict=True):
        shown = (
            f"efficiency {1 / value:.3f}"
            if name in {"weights", "kv", "prefill"}
            else f"{value:.3e} s"
        )
        print(f"  {name:14s} {shown}")
    groups = np.array(["|".join(_group(row)) for row in rows])
    for key, _ in groupby(groups):
        out = groups == key
        coefficients = nonnegative_least_squares(scaled[~out], ones[~out])
        left_out = np.abs(scaled[out] @ coefficients - 1)
        print(f"  left out {key}: {left_out.mean():.3f} ({out.sum()} rows)")


if __name__ == "__main__":
    main()
