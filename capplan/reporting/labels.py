"""Names of things as people read them."""

from __future__ import annotations

import re

from capplan.schema.pairing import Method
from capplan.schema.plan import PlanOption, Tier
from capplan.schema.price import Purchase
from capplan.schema.provenance import Kind

METHODS: dict[Method, str] = {
    Method.NONE: "no speculation",
    Method.DRAFT_MODEL: "draft model",
    Method.NGRAM: "n-gram lookup",
    Method.EAGLE: "EAGLE head",
    Method.EAGLE3: "EAGLE-3 head",
    Method.PEAGLE: "P-EAGLE head",
    Method.MTP: "MTP layers",
    Method.MEDUSA: "Medusa heads",
    Method.DFLASH: "DFlash head",
    Method.DSPARK: "DSpark head",
    Method.SUFFIX: "suffix lookup",
}

REASONS: dict[str, str] = {
    "memory": "does not fit in memory",
    "context": "longer than the context",
    "tpot": "TPOT over the limit",
    "ttft": "TTFT over the limit",
    "budget": "over budget",
    "acceptance_unknown": "acceptance unknown",
    "head_mismatch": "head for another LLM",
    "vocabulary": "vocabularies differ",
    "vocabulary_padded": "same tokenizer, padded unequally",
    "node_size": "no node with so many GPUs",
    "kv_unknown": "KV size unknown",
    "price_unknown": "price unknown",
    "draft_unknown": "draft does not exist",
    "engine_unmeasured": "engine not measured on this GPU",
}
"""Rejection ids of the planner; an id that is not here is shown as it is."""

TIERS: dict[Tier, str] = {
    Tier.DATASHEET: "modelled from data sheets",
    Tier.ANCHORED: "anchored on a measured step",
    Tier.PROFILED: "fitted to a measured grid",
}

KINDS: dict[Kind, str] = {
    Kind.MEASURED: "measured",
    Kind.CITED: "published",
    Kind.DERIVED: "derived",
    Kind.ASSUMED: "assumed",
    Kind.CLAIMED: "claimed, not measured",
}

LIST_TIERS = ("list", "secure", "own")
"""Tiers of a published or stated price, held for anybody who asks."""

_ID_OR_PATH = re.compile(r"[\w.\-/~+ ]+")
_LOOKUPS = (Method.NGRAM, Method.SUFFIX)


def short_id(full_id: str) -> str:
    """Return the last part of a Hugging Face id or a path; anything else as it is."""
    if not _ID_OR_PATH.fullmatch(full_id):
        return full_id
    return full_id.rstrip("/").rsplit("/", maxsplit=1)[-1] or full_id


def draft_name(option: PlanOption) -> str:
    """Return what drafts for this option: a short id, or the method where nothing is loaded."""
    named = option.draft is not None and option.draft != "(built-in)"
    if option.draft is None or option.method in _LOOKUPS or not named:
        return METHODS[option.method]
    return short_id(option.draft)


def option_pair(option: PlanOption) -> str:
    """Return ``Qwen3-32B + Qwen3-0.6B``."""
    target = short_id(option.target)
    if option.method is Method.NONE:
        return f"{target}, no speculation"
    return f"{target} + {draft_name(option)}"


def option_title(option: PlanOption) -> str:
    """Return ``Qwen3-32B + Qwen3-0.6B, N = 3``."""
    pair = option_pair(option)
    speculates = option.method is not Method.NONE
    return f"{pair}, N = {option.num_speculative_tokens}" if speculates else pair


def hardware(option: PlanOption) -> str:
    """Return ``2 replicas of 2 x H100 SXM (TP 2)``, ``1 replica of a CPU host (AMD EPYC)``."""
    tp = option.tensor_parallel
    if option.on_cpu:
        hosts = "a CPU host" if tp == 1 else f"{tp} CPU hosts"
        gpus = f"{hosts} ({option.gpu_name})"
    else:
        gpus = option.gpu_name if tp == 1 else f"{tp} x {option.gpu_name} (TP {tp})"
    noun = "replica" if option.replicas == 1 else "replicas"
    return f"{option.replicas:,} {noun} of {gpus}"


def offer(option: PlanOption) -> str:
    """Return ``lambda, list``; spot and reserved are said, for what they ask of the buyer."""
    bought = {
        Purchase.SPOT: ", spot",
        Purchase.RESERVED: f", reserved {option.term_months} months",
    }.get(option.purchase, "")
    return f"{option.provider}, {option.price_tier}{bought}"


def price_unit(option: PlanOption) -> str:
    """Return ``USD/GPU-h``, on a machine without a GPU ``USD/host-h``."""
    return f"USD/{'host' if option.on_cpu else 'GPU'}-h"
