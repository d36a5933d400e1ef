"""Teach a few of the target's own layers to say what all of them say.

The draft shares the target's embeddings and final norm, which stay as they are, so that its
layers alone need to be shipped. It learns the target's distribution over the frequent tokens, a
random share of the others and those of the batch: the whole vocabulary would take most of the
time and change little.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.utils import clip_grad_norm_

from demo_draft.writer import Written

POOL_BATCHES = 16
"""Batches are cut from pools of this size sorted by length: little padding, still shuffled."""


@dataclass(frozen=True)
class Recipe:
    """What decides the draft, beside the text."""

    layers: tuple[int, ...] = (0, 1, 28, 29)
    """The target's layers to start from."""
    epochs: int = 4
    minutes: float = 28.5
    """The schedule ends here even if the epochs do not."""
    batch_rows: int = 8
    learning_rate: float = 2e-3
    warm_up_steps: int = 50
    frequent_tokens: int = 6144
    random_tokens: int = 1024
    greedy_weight: float = 0.5
    """Weight of the target's first choice against its whole distribution."""
    seed: int = 0


def new_draft(target: Any, layers: Sequence[int]) -> Any:
    """Return an LLM of some of the target's layers, everything else frozen and the target's."""
    config = copy.deepcopy(target.config)
    config.num_hidden_layers = len(layers)
    if getattr(config, "layer_types", None):
        config.layer_types = [config.layer_types[index] for index in layers]
    draft = type(target)(config)
    draft.model.embed_tokens = target.model.embed_tokens
    draft.model.norm = target.model.norm
    draft.tie_weights()
    for ours, index in zip(draft.model.layers, layers, strict=True):
        ours.load_state_dict(target.model.layers[index].state_dict())
    draft.requires_grad_(False)
    draft.model.layers.requires_grad_(True)
    return draft


@dataclass(frozen=True)
class Batch:
    """Rows padded at their ends, and which states answer to which of the target's."""

    ids: torch.Tensor
    is_answer: torch.Tensor
    """True where the state stands before a token of the text."""
    states: torch.Tensor
    tokens: torch.Tensor

    @classmethod
    def of(cls, rows: Sequence[Written]) -> Batch:
        """Pad a few rows to the longest."""
        width = max(len(row.prompt) + len(row.text) for row in rows) - 1
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        is_answer = torch.zeros(len(rows), width, dtype=torch.bool)
        for row, line in enumerate(rows):
            known = torch.tensor(line.prompt + line.text[:-1])
            ids[row, : len(known)] = known
            is_answer[row, len(line.prompt) - 1 : len(known)] = True
        states = torch.cat([torch.from_numpy(row.states).float() for row in rows])
        tokens = torch.tensor([token for row in rows for token in row.text])
        return cls(ids, is_answer, states, tokens)


class Vocabulary:
    """Which tokens the loss is taken over."""

    def __init__(self, rows: Sequence[Written], recipe: Recipe, size: int) -> None:
        counts = Counter(token for row in rows for token in row.text)
        common = [token for token, _ in counts.most_common(recipe.frequent_tokens)]
        self.frequent = torch.tensor(common)
        self.random_tokens, self.size = min(recipe.random_tokens, size), size

    def choose(self, tokens: torch.Tensor, source: torch.Generator) -> torch.Tensor:
        """Return the frequent tokens, those of the batch and some others."""
        others = torch.randint(self.size, (self.random_tokens,), generator=source)
        return torch.cat([self.frequent, tokens, others]).unique()


def distillation_loss(
    states: torch.Tensor, target_states: torch.Tensor, head: torch.Tensor, greedy_weight: float
) -> torch.Tensor:
    """Return the summed loss of some states: towards the target's distribution and first choice.

    Parameters
    ----------
    states
        The draft's states behind the final norm.
    target_states
        The target's at the same places.
    head
        Rows of the output matrix of the tokens to take it over.
    greedy_weight
        Share of the cross entropy with the target's most likely token; the rest is the
        Kullback-Leibler divergence from the target's distribution.
    """
    log_draft = functional.linear(states, head).log_softmax(-1)
    with torch.no_grad():
        target_logits = functional.linear(target_states, head)
        log_target = target_logits.log_softmax(-1)
        first_choice = target_logits.argmax(-1)
    divergence = functional.kl_div(log_draft, log_target, reduction="sum", log_target=True)
    greedy = functional.nll_loss(log_draft, first_choice, reduction="sum")
    return (1 - greedy_weight) * divergence + greedy_weight * greedy


def batches_of(rows: Sequence[Written], size: int, source: random.Random) -> list[list[Written]]:
    """Return shuffled batches of rows of like length."""
    shuffled = source.sample(list(rows), len(rows))
    pool = size * POOL_BATCHES
    batches = []
    for start in range(0, len(shuffled), pool):
        alike = sorted(shuffled[start : start + pool], key=lambda r: len(r.prompt) + len(r.text))
        batches += [alike[first : first + size] for first in range(0, len(alike), size)]
    return source.sample(batches, len(batches))


def learning_rate(recipe: Recipe, step: int, progress: float) -> float:
    """Return the rate: a linear start, then half a cosine down to nothing."""
    start = min(1.0, (step + 1) / recipe.warm_up_steps)
    return recipe.learning_rate * start * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class Trainer:
    """One of the processes that train the draft together."""

    def __init__(
        self, target: Any, rows: Sequence[Written], recipe: Recipe, rank: int = 0, ranks: int = 1
    ) -> None:
        self.recipe, self.rows, self.rank, self.ranks = recipe, list(rows), rank, ranks
        self.draft = new_draft(target, recipe.layers).train()
        self.weights = [weight for weight in self.draft.parameters() if weight.requires_grad]
        for weight in self.weights:
            weight.grad = torch.zeros_like(weight)
        self.head = target.get_output_embeddings().weight.detach()
        self.vocabulary = Vocabulary(self.rows, recipe, len(self.head))
        self.optimizer = torch.optim.AdamW(
            self.weights, betas=(0.9, 0.95), weight_decay=0.01, fused=True
        )
        self.others = torch.Generator().manual_seed(recipe.seed + rank)
        self.total_steps = recipe.epochs * math.ceil(len(self.rows) / recipe.batch_rows)

    def run(self, report: Callable[[int, float, float], None]) -> None:
        """Train to the end of the schedule; ``report`` gets step, progress and mean loss."""
        begun = time.monotonic()
        for step, rows in enumerate(self._batches()):
            progress = max(step / self.total_steps, self._elapsed_share(begun))
            if progress >= 1:
                break
            report(step, progress, self.step(rows, learning_rate(self.recipe, step, progress)))

    def _batches(self) -> Iterator[list[Written]]:
        source = random.Random(self.recipe.seed)
        for _ in range(self.recipe.epochs):
            yield from batches_of(self.rows, self.recipe.batch_rows, source)

    def _elapsed_share(self, begun: float) -> float:
        limit_s = max(60 * self.recipe.minutes, 1e-9)
        share = torch.tensor([(time.monotonic() - begun) / limit_s])
        if self.ranks > 1:
            # All must stop at the same step, or the last would wait for ever.
            dist.broadcast(share, 0)
        return float(share)

    def step(self, rows: Sequence[Written], rate: float) -> float:
        """Learn from one batch and return its mean loss a token."""
        tokens = sum(len(row.text) for row in rows)
        ours = rows[self.rank :: self.ranks]
        loss = self._loss(Batch.of(ours)) / tokens if ours else torch.zeros(())
        self.optimizer.zero_grad(set_to_none=False)
        if ours:
            loss.backward()
        shared = self._share(loss.detach())
        clip_grad_norm_(self.weights, 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return shared

    def _loss(self, batch: Batch) -> torch.Tensor:
        hidden = self.draft.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        head = self.head[self.vocabulary.choose(batch.tokens, self.others)]
        states = hidden[batch.is_answer]
        return distillation_loss(states, batch.states, head, self.recipe.greedy_weight)

    def _share(self, loss: torch.Tensor) -> float:
        """Add up the gradients and losses of all processes."""
        if self.ranks == 1:
            return float(loss)
        flat = torch.cat([weight.grad.reshape(-1) for weight in self.weights] + [loss.reshape(1)])
        dist.all_reduce(flat)
        start = 0
        for weight in self.weights:
            weight.grad.copy_(flat[start : start + weight.numel()].view_as(weight))
            start += weight.numel()
        return float(flat[-1])


@torch.inference_mode()
def agreement(draft: Any, rows: Sequence[Written], head: torch.Tensor) -> list[tuple[int, int]]:
    """Return a row's tokens where the draft's first choice is the target's, and its tokens.

    Both choose from the whole vocabulary, given the true text up to there.
    """
    counts = []
    for row in rows:
        batch = Batch.of([row])
        hidden = draft.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        ours = functional.linear(hidden[batch.is_answer], head).argmax(-1)
        theirs = functional.linear(batch.states, head).argmax(-1)
        counts.append((int((ours == theirs).sum()), len(row.text)))
    return counts
