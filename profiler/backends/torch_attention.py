"""Scaled dot-product attention that never copies the cached context.

transformers' own path expands the keys and values of grouped-query models to one copy a query
head as soon as a mask is needed, which a verification pass (several tokens over a long context)
always does: the copy would be timed as if the hardware read the cache many times. Two cases
cover all passes here: on CUDA a bottom-right causal bias, which keeps the flash kernel; on a
CPU, or with padding, the query heads of a group are laid along the query axis.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own customary name
from torch.nn.attention.bias import causal_lower_right
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "capplan_grouped"


def grouped_attention(
    module: torch.nn.Module,  # noqa: ARG001 - transformers' calling convention
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend; ``attention_mask=None`` means causal, aligned at the last key."""
    queries, keys = query.shape[2], key.shape[2]
    if attention_mask is None and queries == keys > 1:
        out = F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
    elif attention_mask is None and queries > 1 and query.is_cuda:
        bias = causal_lower_right(queries, keys)
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, scale=scaling, enable_gqa=True
        )
    else:
        out = _packed(query, key, value, attention_mask, scaling)
    return out.transpose(1, 2).contiguous(), None


def _packed(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
) -> torch.Tensor:
    batch, heads, queries, width = query.shape
    kv_heads, keys = key.shape[1], key.shape[2]
    group = heads // kv_heads
    packed = query.reshape(batch, kv_heads, group * queries, width)
    if mask is None and queries > 1:
        last = torch.arange(keys - queries, keys, device=query.device)[:, None]
        mask = (torch.arange(keys, device=query.device) <= last)[None, None]
    if mask is not None and group > 1:
        mask = mask.repeat(1, 1, group, 1)
    out = F.scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(batch, heads, queries, value.shape[-1])


def causal_or_explicit_mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """Build a mask only where plain causality does not say it all (padding, sliding windows)."""
    plain = kwargs.get("allow_is_causal_skip") and kwargs.get("local_size") is None
    if plain and kwargs.get("attention_mask") is None:
        return None
    kwargs["allow_is_causal_skip"] = False
    mask: torch.Tensor | None = sdpa_mask(*args, **kwargs)
    return mask


def install(model: Any) -> str:
    """Switch a model to this attention if it can use SDPA at all, and name what it uses."""
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, causal_or_explicit_mask)
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(NAME)
    return str(model.config._attn_implementation)
