"""The target writes batches of text, and the states it wrote from are kept.

Plain torch instead of transformers: fused projections, one key-value cache per batch, the system
message computed once, and no copies of keys for grouped queries. On two cores that is what
decides how much text the draft can learn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

HIDDEN_NUMPY_DTYPE = np.float16
COMPACT_BELOW = 0.8
"""Finished rows leave the batch once fewer than this share is still writing."""
READ_ROWS = 16
"""Prompts are read this many at a time, so that short ones are not padded to the longest."""
LOOP_TOKENS, LOOP_TIMES = 24, 3
"""A text that says the same again, up to so many tokens and so often, teaches nothing new."""


@dataclass(frozen=True)
class Written:
    """One request: its prompt, the text, and the target's state before each token of the text."""

    prompt: list[int]
    text: list[int]
    states: np.ndarray[Any, Any]
    """Output of the target's final norm, one row a token of the text: times the embedding
    matrix it gives the target's logits, so nothing else of the target is needed to learn."""


@dataclass(frozen=True)
class _Layer:
    norm_in: torch.Tensor
    qkv: torch.Tensor
    out: torch.Tensor
    norm_mlp: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class Writer:
    """A Llama-shaped target, ready to write.

    Parameters
    ----------
    model
        A ``LlamaForCausalLM`` in float32 on the CPU.
    prefix
        Tokens that every prompt starts with; its keys and values are computed once.
    end_ids
        Tokens that end a text.
    """

    def __init__(self, model: Any, prefix: Sequence[int], end_ids: Sequence[int]) -> None:
        config = model.config
        self.eps = float(config.rms_norm_eps)
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.width = config.hidden_size // config.num_attention_heads
        self.embedding = model.get_input_embeddings().weight.detach()
        self.norm = model.model.norm.weight.detach()
        self.layers = [_fused(layer) for layer in model.model.layers]
        self.rotation = rotation_table(config, config.max_position_embeddings)
        self.prefix, self.end_ids = list(prefix), torch.tensor(sorted(end_ids))
        with torch.inference_mode():
            empty = _Cache.empty(self, 1, len(self.prefix))
            positions = torch.arange(len(self.prefix))[None]
            causal = torch.full((len(self.prefix),) * 2, float("-inf")).triu(1)[None, None]
            self.forward(torch.tensor([self.prefix]), positions, empty, causal)
            self._prefix_cache = empty

    def forward(
        self, ids: torch.Tensor, positions: torch.Tensor, cache: _Cache, mask: torch.Tensor
    ) -> torch.Tensor:
        """Append tokens to the cache and return the states behind the final norm."""
        hidden = functional.embedding(ids, self.embedding)
        cos, sin = (table[positions][:, None] for table in self.rotation)
        start, end = cache.length, cache.length + ids.shape[1]
        for layer, (keys, values) in zip(self.layers, cache.buffers, strict=True):
            query, key, value = self._project(layer, hidden)
            keys[:, :, start:end] = rotate(key, cos, sin)
            values[:, :, start:end] = value
            mixed = self._attend(
                rotate(query, cos, sin), keys[:, :, :end], values[:, :, :end], mask
            )
            hidden = hidden + functional.linear(mixed, layer.out)
            gate, up = functional.linear(
                self._normed(hidden, layer.norm_mlp), layer.gate_up
            ).chunk(2, -1)
            hidden = hidden + functional.linear(functional.silu(gate) * up, layer.down)
        cache.length = end
        return self._normed(hidden, self.norm)

    def _project(self, layer: _Layer, hidden: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, tokens, _ = hidden.shape
        projected = functional.linear(self._normed(hidden, layer.norm_in), layer.qkv)
        projected = projected.view(rows, tokens, -1, self.width).transpose(1, 2)
        sizes = (self.heads, self.kv_heads, self.kv_heads)
        return projected.split(sizes, dim=1)

    def _attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        rows, _, tokens, _ = query.shape
        if tokens == 1:
            # The queries of a group become the tokens of its one key head: no copy of the keys.
            query = query.view(rows, self.kv_heads, -1, self.width)
            mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            return mixed.reshape(rows, 1, -1)
        share = self.heads // self.kv_heads
        keys, values = (part.repeat_interleave(share, dim=1) for part in (keys, values))
        mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return mixed.transpose(1, 2).reshape(rows, tokens, -1)

    def _normed(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(hidden, weight.shape, weight, self.eps)

    @torch.inference_mode()
    def write(
        self,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        temperatures: Sequence[float],
        source: torch.Generator,
    ) -> list[Written]:
        """Write behind each prompt (which starts with the prefix), greedily at temperature 0."""
        behind = [list(prompt[len(self.prefix) :]) for prompt in prompts]
        batch = _Batch(self, behind, max_tokens, temperatures)
        state = batch.read_prompts()
        for step in range(max_tokens):
            tokens = batch.choose(state, source)
            batch.keep(tokens, state)
            if step + 1 == max_tokens or batch.is_finished:
                break
            state = batch.advance(tokens)
        return batch.written(prompts)


class _Cache:
    def __init__(self, buffers: list[tuple[torch.Tensor, torch.Tensor]], length: int = 0) -> None:
        self.buffers, self.length = buffers, length

    @classmethod
    def empty(cls, writer: Writer, rows: int, capacity: int) -> _Cache:
        shape = (rows, writer.kv_heads, capacity, writer.width)
        return cls([(torch.zeros(shape), torch.zeros(shape)) for _ in writer.layers])

    def view(self, rows: slice, length: int) -> _Cache:
        """Return some rows of this cache, in the same memory."""
        return _Cache([(keys[rows], values[rows]) for keys, values in self.buffers], length)

    def start_with(self, prefix: _Cache) -> None:
        for ours, theirs in zip(self.buffers, prefix.buffers, strict=True):
            for buffer, known in zip(ours, theirs, strict=True):
                buffer[:, :, : prefix.length] = known
        self.length = prefix.length

    def select(self, rows: torch.Tensor) -> None:
        self.buffers = [(keys[rows], values[rows]) for keys, values in self.buffers]


class _Batch:
    """Rows that are written together: prefix, padding, prompt, text."""

    def __init__(
        self,
        writer: Writer,
        behind: Sequence[list[int]],
        max_tokens: int,
        temperatures: Sequence[float],
    ) -> None:
        self.writer, self.behind = writer, behind
        self.start, self.wide = len(writer.prefix), max(map(len, behind))
        lengths = torch.tensor([len(row) for row in behind])
        capacity = self.start + self.wide + max_tokens
        self.cache = _Cache.empty(writer, len(behind), capacity)
        self.cache.start_with(writer._prefix_cache)
        column = torch.arange(capacity)
        first = self.start + self.wide - lengths
        padding = (column >= self.start) & (column < first[:, None])
        self.mask = torch.where(padding, float("-inf"), 0.0)[:, None, None]
        self.next_position = self.start + lengths
        self.temperatures = torch.tensor(temperatures)
        self.rows = torch.arange(len(behind))
        self.alive = torch.ones(len(behind), dtype=torch.bool)
        self.texts: list[list[int]] = [[] for _ in behind]
        self.states: list[list[torch.Tensor]] = [[] for _ in behind]

    def read_prompts(self) -> torch.Tensor:
        states = [
            self._read(slice(first, first + READ_ROWS))
            for first in range(0, len(self.behind), READ_ROWS)
        ]
        self.cache.length = self.start + self.wide
        return torch.cat(states)

    def _read(self, rows: slice) -> torch.Tensor:
        behind = self.behind[rows]
        wide, end = max(map(len, behind)), self.start + self.wide
        ids = torch.tensor([[0] * (wide - len(row)) + row for row in behind])
        positions = self.next_position[rows, None] - wide + torch.arange(wide)
        causal = torch.full((wide, wide), float("-inf")).triu(1)
        mask = self.mask[rows, ..., :end] + functional.pad(causal, (end - wide, 0))
        cache = self.cache.view(rows, end - wide)
        return self.writer.forward(ids, positions.clamp(min=0), cache, mask)[:, -1]

    def choose(self, state: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        logits = functional.linear(state, self.writer.embedding)
        tokens = logits.argmax(-1)
        sampled = (self.temperatures > 0).nonzero()[:, 0]
        if len(sampled):
            warm = logits[sampled] / self.temperatures[sampled][:, None]
            tokens[sampled] = torch.multinomial(warm.softmax(-1), 1, generator=source)[:, 0]
        return tokens

    def keep(self, tokens: torch.Tensor, state: torch.Tensor) -> None:
        for row in self.alive.nonzero()[:, 0].tolist():
            request = int(self.rows[row])
            self.texts[request].append(int(tokens[row]))
            self.states[request].append(state[row].half())
        self.alive = self.alive & ~torch.isin(tokens, self.writer.end_ids)
        looping = [is_looping(self.texts[request]) for request in self.rows.tolist()]
        self.alive = self.alive & ~torch.tensor(looping)

    @property
    def is_finished(self) -> bool:
        return not bool(self.alive.any())

    def advance(self, tokens: torch.Tensor) -> torch.Tensor:
        if self.alive.float().mean() < COMPACT_BELOW:
            tokens = self._compact(tokens)
        positions = self.next_position[:, None]
        self.next_position = self.next_position + 1
        end = self.cache.length + 1
        return self.writer.forward(tokens[:, None], positions, self.cache, self.mask[..., :end])[
            :, -1
        ]

    def _compact(self, tokens: torch.Tensor) -> torch.Tensor:
        kept = self.alive.nonzero()[:, 0]
        self.cache.select(kept)
        self.rows, self.mask = self.rows[kept], self.mask[kept]
        self.next_position, self.temperatures = self.next_position[kept], self.temperatures[kept]
        self.alive = self.alive[kept]
        return tokens[kept]

    def written(self, prompts: Sequence[Sequence[int]]) -> list[Written]:
        return [
            Written(list(prompt), text, torch.stack(states).numpy().astype(HIDDEN_NUMPY_DTYPE))
            for prompt, text, states in zip(prompts, self.texts, self.states, strict=True)
        ]


def is_looping(text: Sequence[int]) -> bool:
    """Return whether a text ends in the same run of tokens over and over."""
    return any(
        list(text[-length:]) * LOOP_TIMES == list(text[-length * LOOP_TIMES :])
        for length in range(2, LOOP_TOKENS + 1)
        if len(text) >= length * LOOP_TIMES and text[-1] == text[-1 - length]
    )


def _fused(layer: Any) -> _Layer:
    attention, mlp = layer.self_attn, layer.mlp
    qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
    return _Layer(
        layer.input_layernorm.weight.detach(),
        qkv.detach(),
        attention.o_proj.weight.detach(),
        layer.post_attention_layernorm.weight.detach(),
        torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]).detach(),
        mlp.down_proj.weight.detach(),
    )


def rotation_table(config: Any, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines of rotary positions, both halves alike."""
    width = config.hidden_size // config.num_attention_heads
    theta = float(config.rope_parameters["rope_theta"])
    speed = theta ** -(torch.arange(0, width, 2).float() / width)
    angle = torch.arange(positions).float()[:, None] * torch.cat([speed, speed])
    return angle.cos(), angle.sin()


def rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Apply rotary positions to queries or keys."""
    first, second = states.chunk(2, -1)
    return states * cos + torch.cat([-second, first], -1) * sin
