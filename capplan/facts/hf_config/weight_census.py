"""What the tensors of a checkpoint belong to: the LLM, its MTP layers, other modalities."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from capplan.facts.hf_config.parts import Architecture
from capplan.facts.hf_config.safetensors_header import Tensor

_MTP = re.compile(r"(^|\.)(mtp|mtp_layers|nextn)(\.|_)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,6})\.")
_OTHER = re.compile(
    r"(^|\.)(visual|vision\w*|image\w*|audio\w*|speech\w*|multi_modal_projector|mm_projector|"
    r"mlp1|connector|aligner|talker|token2wav|code2wav|embed_vision|embed_audio)(\.|$)"
)
_SCALE = re.compile(r"(scale|scales|zero_point|qzeros|g_idx|absmax|quant_map|quant_state|SCB)")
_BUFFER = re.compile(
    r"(inv_freq|masked_bias|attn\.bias|attention\.bias|position_ids|(^|\.)d2t|(^|\.)t2d)$"
)
_OUTPUT_LAYER = "lm_head.weight"
_SHARED_BY_MTP = re.compile(r"(embed_tokens|shared_head\.head|lm_head)\.weight$")
"""Copies of the LLM's embedding and output layer that some MTP layers carry along."""


@dataclass(frozen=True)
class Census:
    """Tensors of a checkpoint, sorted by what they belong to."""

    llm_bytes: int
    llm_params: int | None
    """None where weights are packed, several to an element."""
    mtp_bytes: int
    mtp_params: int | None
    """Without what the MTP layers share with the LLM."""
    other_bytes: int
    """Vision towers, audio encoders and their projectors."""
    repeated_bytes: int
    """A second copy of tied embeddings, which engines do not load."""


def take_census(tensors: Iterable[Tensor], architecture: Architecture) -> Census:
    """Sort the tensors of a checkpoint and add them up."""
    llm: list[Tensor] = []
    mtp: list[Tensor] = []
    other_bytes = repeated_bytes = 0
    for tensor in tensors:
        if _is_mtp(tensor.name, architecture):
            mtp.append(tensor)
        elif _OTHER.search(tensor.name):
            other_bytes += tensor.size_bytes
        elif architecture.tied_embeddings and tensor.name.endswith(_OUTPUT_LAYER):
            repeated_bytes += tensor.size_bytes
        else:
            llm.append(tensor)
    return Census(
        llm_bytes=sum(tensor.size_bytes for tensor in llm),
        llm_params=_params(llm),
        mtp_bytes=sum(tensor.size_bytes for tensor in mtp),
        mtp_params=_params([tensor for tensor in mtp if not _SHARED_BY_MTP.search(tensor.name)]),
        other_bytes=other_bytes,
        repeated_bytes=repeated_bytes,
    )


def _is_mtp(name: str, architecture: Architecture) -> bool:
    if _MTP.search(name):
        return True
    layer = _LAYER.search(name)
    numbered = layer is not None and int(layer[1]) >= architecture.layers
    return numbered and not _OTHER.search(name)


def _params(tensors: list[Tensor]) -> int | None:
    counted = [
        tensor
        for tensor in tensors
        if not _SCALE.search(tensor.name) and not _BUFFER.search(tensor.name)
    ]
    if not all(tensor.is_plain for tensor in counted):
        return None
    return sum(tensor.elements for tensor in counted)
