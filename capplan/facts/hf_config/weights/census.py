"""What the tensors of a checkpoint belong to: the LLM, its MTP layers, other modalities."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from capplan.facts.hf_config.parts import Architecture
from capplan.facts.hf_config.weights.header import Tensor

_MTP = re.compile(r"(^|\.)(mtp|mtp_layers|nextn)(\.|_)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,6})\.")
_OTHER = re.compile(
    r"(^|\.)(visual|vision\w*|vit|image\w*|audio\w*|speech\w*|(sam|qwen2|whisper)_model|"
    r"multi_modal_projector|mm_\w+|\w*projector|mlp1|resampler|vpm|apm|tts|connector|aligner|"
    r"talker|token2wav|code2wav|embed_vision|embed_audio|image_newline|view_seperator)(\.|$)"
)
_SCALE = re.compile(r"(scale|scales|zero_point|qzeros|g_idx|absmax|quant_map|quant_state|SCB)")
_BUFFER = re.compile(
    r"(inv_freq|masked_bias|attn\.bias|attention\.bias|position_ids|(^|\.)d2t|(^|\.)t2d)$"
)
_OUTPUT_LAYER = ("lm_head.weight", "embed_out.weight", "output_layer.weight")
_SHARED_BY_MTP = re.compile(r"(embed_tokens|shared_head\.head|lm_head)\.weight$")
"""Copies of the LLM's embedding and output layer that some MTP layers carry along."""


@dataclass(frozen=True)
class Census:
    """Tensors of a checkpoint, sorted by what they belong to."""

    llm_params: int | None
    """None where weights are packed, several to an element."""
    mtp_bytes: int
    mtp_params: int | None
    """Without what the MTP layers share with the LLM."""
    other_bytes: int
    """Vision towers, audio encoders and their projectors."""
    repeated_bytes: int
    """A second copy of tied embeddings, which engines do not load."""
    buffer_bytes: int = 0
    """Masks and tables that engines compute themselves."""


def take_census(tensors: Iterable[Tensor], architecture: Architecture) -> Census:
    """Sort the tensors of a checkpoint and add them up."""
    llm: list[Tensor] = []
    mtp: list[Tensor] = []
    other_bytes = repeated_bytes = buffer_bytes = 0
    for tensor in tensors:
        if is_other(tensor.name):
            other_bytes += tensor.size_bytes
        elif is_mtp(tensor.name, architecture):
            mtp.append(tensor)
        elif is_buffer(tensor.name):
            buffer_bytes += tensor.size_bytes
        elif architecture.tied_embeddings and is_output_layer(tensor.name):
            repeated_bytes += tensor.size_bytes
        else:
            llm.append(tensor)
    return Census(
        llm_params=_params(llm),
        mtp_bytes=sum(tensor.size_bytes for tensor in mtp),
        mtp_params=_params([tensor for tensor in mtp if not _SHARED_BY_MTP.search(tensor.name)]),
        other_bytes=other_bytes,
        repeated_bytes=repeated_bytes,
        buffer_bytes=buffer_bytes,
    )


def is_other(name: str) -> bool:
    """Return whether a tensor is of a vision tower, an audio encoder or their projectors."""
    return _OTHER.search(name) is not None


def is_mtp(name: str, architecture: Architecture) -> bool:
    """Return whether a tensor of the LLM belongs to its MTP layers, by name or number."""
    if _MTP.search(name):
        return True
    layer = _LAYER.search(name)
    return layer is not None and int(layer[1]) >= architecture.layers


def is_buffer(name: str) -> bool:
    """Return whether a tensor is no weight: a causal mask, rotary frequencies, a token map."""
    return _BUFFER.search(name) is not None


def is_output_layer(name: str) -> bool:
    """Return whether a tensor is the output layer's matrix."""
    return name.endswith(_OUTPUT_LAYER)


def _params(tensors: list[Tensor]) -> int | None:
    counted = [tensor for tensor in tensors if not _SCALE.search(tensor.name)]
    if not all(tensor.is_plain for tensor in counted):
        return None
    return sum(tensor.elements for tensor in counted)
