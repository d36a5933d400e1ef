"""What an engine sets aside for its trial run, and how far it pads weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from capplan.schema.engine import EngineConstants, EngineMemory
from capplan.schema.llm import LlmSpec
from capplan.units import BYTES_PER_GIB

Floats = NDArray[np.float64]

_REJECTION_CHUNK_BYTES = BYTES_PER_GIB
"""Most float32 logits that vLLM verifies in one piece (v1/worker/gpu/spec_decode, 0.33)."""
_MOST_CAPTURED_TOKENS = 512.0
"""Default ceiling of vLLM's capture sizes."""
_FLOAT32_BYTES = 4.0
_BF16_BYTES = 2.0
_MX_BLOCK = 32
"""Values that share one scale in mxfp4."""
_MXFP4_BYTES = 4.25 / 8
"""4-bit values and one 8-bit scale for 32 of them."""


def activation_peak_bytes(
    llm: LlmSpec,
    tensor_parallel: ArrayLike,
    max_num_seqs: ArrayLike,
    max_num_batched_tokens: ArrayLike,
    num_speculative_tokens: ArrayLike,
    engine: EngineConstants,
    allots: EngineMemory,
) -> Floats:
    """Return the peak of the trial run: hidden states, and the larger of layers and sampler.

    Sequences times vocabulary dominate, which no tensor parallelism divides: every GPU samples.

    Notes
    -----
    docs/method/memory.md. Leave one LLM out on seven start-ups of vLLM that sort the logits:
    0.01 GiB off at most. Later versions are counted in their code, not fitted.
    """
    tp = np.asarray(tensor_parallel, dtype=float)
    seqs = np.asarray(max_num_seqs, dtype=float)
    batched = np.asarray(max_num_batched_tokens, dtype=float)
    n = np.asarray(num_speculative_tokens, dtype=float)
    sampler = allots.activation_bytes_per_logit * seqs * llm.vocab_size
    layers = engine.activation_bytes_per_width * batched * _width(llm) / tp
    if llm.experts_per_token is not None:
        layers = np.maximum(layers, _BF16_BYTES * batched * llm.experts_per_token * llm.hidden)
    rows = np.minimum(seqs * (n + 1.0), batched) * llm.vocab_size
    verified = _BF16_BYTES * rows + np.minimum(_FLOAT32_BYTES * rows, _REJECTION_CHUNK_BYTES)
    verified = np.where(n > 0, verified, 0.0)
    hidden = engine.activation_bytes_per_hidden * batched * llm.hidden
    peak: Floats = hidden + np.maximum(np.maximum(sampler, layers), verified)
    return peak


def cuda_graph_bytes(
    layers: int,
    max_num_seqs: ArrayLike,
    num_speculative_tokens: ArrayLike,
    engine: EngineConstants,
) -> Floats:
    """Return room for CUDA graphs: every captured size costs about as much a layer.

    Sizes are captured up to twice the tokens of a full decode step, 512 at most.
    """
    seqs = np.asarray(max_num_seqs, dtype=float)
    n = np.asarray(num_speculative_tokens, dtype=float)
    most = np.minimum(2.0 * seqs * (n + 1.0), _MOST_CAPTURED_TOKENS)
    # the grid: 1, 2, 4, steps of 8 below 256, steps of 16 from there on
    above = np.where(most >= 256, (most - 256) // 16 + 1, 0.0)
    sizes = np.minimum(most, 3.0) + np.minimum(most, 255.0) // 8 + above
    return np.asarray(layers * sizes * engine.cuda_graph_bytes_per_layer_size, dtype=float)


def sampler_state_bytes(llm: LlmSpec, max_num_seqs: ArrayLike, allots: EngineMemory) -> Floats:
    """Return what the sampler keeps for good: counts of every token for every sequence."""
    seqs = np.asarray(max_num_seqs, dtype=float)
    return np.asarray(allots.sampler_state_bytes_per_logit * seqs * llm.vocab_size, dtype=float)


def _width(llm: LlmSpec) -> float:
    """Return elements a token in a layer's buffers: about its parameters over the hidden size."""
    inner = llm.params_active - llm.vocab_size * llm.hidden
    return max(inner / (llm.layers * llm.hidden), 2.0 * llm.hidden)


def weight_scale(llm: LlmSpec, engine: EngineConstants, arch: str, tensor_parallel: int) -> float:
    """Return weights that the engine holds over weights that the checkpoint ships.

    Only mxfp4 experts are known to be padded; every other scheme gives 1.
    """
    if llm.experts is None or llm.experts_per_token is None:
        return 1.0
    if "mxfp4" not in f"{llm.dtype} {llm.quantisation}".lower():
        return 1.0
    k, experts = llm.experts_per_token, llm.experts
    if experts <= k:
        return 1.0
    expert_bytes = (llm.weight_bytes - llm.weight_bytes_active) / (experts - k)
    inner = expert_bytes / (llm.layers * 3.0 * llm.hidden * _MXFP4_BYTES)
    blocks = max(round(inner / _MX_BLOCK), 1)
    intermediate = -(-blocks * _MX_BLOCK // tensor_parallel)
    multiples = engine.mxfp4_multiples
    of_intermediate, of_hidden = multiples.get(arch, multiples["default"])
    grown = _up(intermediate, of_intermediate) * tensor_parallel / (blocks * _MX_BLOCK)
    grown *= _up(llm.hidden, of_hidden) / llm.hidden
    return 1.0 + experts * expert_bytes * (grown - 1.0) / llm.weight_bytes


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
