"""What transformers takes for fields that a configuration leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import cast

from capplan.inputs.documents import read_json
from capplan.inputs.limits import CONFIG
from capplan.resources import models_db_dir

DEFAULTS_FILE = "architectures/transformers_defaults.json"

SIZES = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    "vocab_size",
)
"""Fields without which a configuration is cut short, unless an outer one holds it: published
multimodal files leave out of ``text_config`` what equals the default of its type."""

_UNTIED = {"tie_word_embeddings": False}
_OWN_CODE: Mapping[str, Mapping[str, object]] = {
    "internlm": {"tie_word_embeddings": False, "bias": True},
    "internlm2": {"tie_word_embeddings": False, "bias": True},
    **dict.fromkeys(
        ("aquila", "baichuan", "deci", "deepseek", "kimi_k2", "mimo", "nemotron-nas"), _UNTIED
    ),
    **dict.fromkeys(("minimax_m1", "minimax_text_01", "orion", "qwen", "xverse", "yi"), _UNTIED),
    **dict.fromkeys(("stablelm_epoch", "qwen2_vl_text", "qwen2_5_vl_text"), _UNTIED),
    **dict.fromkeys(("qwen3_vl_text", "glm4v_text", "minimax_m3", "minimax_m3_vl"), _UNTIED),
    **dict.fromkeys(("mixformer-sequential", "phi-msft", "phi3_v"), _UNTIED),
    **dict.fromkeys(("minicpmo", "minicpmv", "videollama3_qwen2", "llava"), _UNTIED),
    "RefinedWeb": {"max_position_embeddings": 2048},
    "RefinedWebModel": {"max_position_embeddings": 2048},
    **dict.fromkeys(("llava_llama", "llava_mistral", "llava_qwen"), _UNTIED),
}
"""Defaults of types whose configuration class comes with the checkpoint, and of text
configurations that inherit them from the outer one."""


@cache
def _all_defaults() -> Mapping[str, Mapping[str, object]]:
    found = read_json(models_db_dir() / DEFAULTS_FILE, CONFIG, finite=False, bounded=False)
    return cast("Mapping[str, Mapping[str, object]]", found["types"])


def defaults_of(model_type: str, nested: bool = False) -> Mapping[str, object]:
    """Return the defaults of a type.

    Parameters
    ----------
    nested
        Whether the configuration lies inside another: only then sizes may be left out.
    """
    known = {**_all_defaults().get(model_type, {}), **_OWN_CODE.get(model_type, {})}
    return {name: value for name, value in known.items() if nested or name not in SIZES}
