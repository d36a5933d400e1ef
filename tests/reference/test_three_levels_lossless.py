"""Above temperature 0 three levels write with the target's own distribution; planted faults in
either level are caught."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capplan.schema.cells import DraftSampling  # noqa: E402
from profiler.backends import speculative_three  # noqa: E402
from profiler.backends.speculative import Decoding, Proposal, accept, decode  # noqa: E402
from profiler.backends.speculative_three import Levels  # noqa: E402
from profiler.backends.torch_sampling import distribution, draw  # noqa: E402
from profiler.protocol import SamplingPoint  # noqa: E402

VOCAB, TOKENS, RUNS = 6, 3, 1500
PROMPT = (3, 1, 4)
WARM = SamplingPoint(temperature=0.9, max_tokens=TOKENS, seed=11)


@pytest.fixture(scope="module", autouse=True)
def _one_thread(tiny_llms: Any) -> None:
    """Importing the helper sets it: thousands of tiny passes crawl where two threads meet."""


@dataclass
class TokenCache:
    """The text itself, in place of keys and values."""

    length: int = 0
    tokens: list[int] = field(default_factory=list)

    def rewind(self, length: int) -> None:
        self.length = length


class MarkovLlm:
    """Random logits for every two tokens, the first of which it reads from its cache."""

    device = torch.device("cpu")
    eos_ids: frozenset[int] = frozenset()

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits

    def new_cache(self, _capacity: int) -> TokenCache:
        return TokenCache()

    def tensor(self, rows: list[list[int]]) -> torch.Tensor:
        return torch.tensor(rows)

    def forward(self, ids: torch.Tensor, cache: TokenCache, keep: int) -> torch.Tensor:
        (new,) = ids.tolist()
        cache.tokens[cache.length :] = new
        cache.length += len(new)
        text = torch.tensor(cache.tokens)
        return self.logits[text[-keep - 1 : -1], text[-keep:]][None]


@pytest.fixture(scope="module")
def trio() -> tuple[Any, ...]:
    source = torch.Generator().manual_seed(0)
    logits = 1.5 * torch.randn(VOCAB, VOCAB, VOCAB, generator=source)
    noise = [torch.randn(VOCAB, VOCAB, VOCAB, generator=source) for _ in range(2)]
    return tuple(MarkovLlm(one) for one in (logits, logits + noise[0], logits + sum(noise)))


@torch.inference_mode()
def written(trio: tuple[Any, ...], mode: DraftSampling, lengths: tuple[int, int]) -> Counter[Any]:
    """Write a few tokens many times; all come from rounds, none from the prefill."""
    source = torch.Generator().manual_seed(WARM.seed)
    drafter = Levels(trio, lengths).drafter(WARM, mode)
    cache = trio[0].new_cache(0)
    trio[0].forward(trio[0].tensor([PROMPT[:-1]]), cache, 1)
    drafter.start(PROMPT, 0)
    seen: Counter[Any] = Counter()
    for _ in range(RUNS):
        cache.rewind(len(PROMPT) - 1)
        state = Decoding(trio[0], drafter, WARM, cache, list(PROMPT), len(PROMPT), source)
        seen[tuple(decode(state, lengths[0]))] += 1
    return seen


def expected(target: Any) -> dict[tuple[int, ...], float]:
    """The probability of every text, by enumeration."""
    chances = distribution(target.logits, WARM)
    found = {}
    for text in itertools.product(range(VOCAB), repeat=TOKENS):
        whole = (*PROMPT, *text)
        places = range(len(PROMPT), len(whole))
        found[text] = math.prod(
            float(chances[whole[i - 2], whole[i - 1], whole[i]]) for i in places
        )
    return found


def p_value(seen: Counter[Any], chances: dict[tuple[int, ...], float]) -> float:
    """Chi-square test of the counts; outcomes expected fewer than five times are pooled."""
    total = sum(seen.values())
    frequent = [text for text, chance in chances.items() if chance * total >= 5]
    cells = [(seen[text], chances[text] * total) for text in frequent]
    rest = (
        total - sum(count for count, _ in cells),
        total - sum(mean for _, mean in cells),
    )
    statistic = sum((count - mean) ** 2 / mean for count, mean in [*cells, rest])
    # Wilson and Hilferty (1931): the cube root of chi-square over its freedom is near normal.
    spread = 2 / (9 * len(cells))
    z = ((statistic / len(cells)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))


@pytest.mark.parametrize("lengths", [(2, 1), (3, 2)])
@pytest.mark.parametrize("mode", list(DraftSampling))
def test_three_levels_keep_the_targets_distribution(
    trio: tuple[Any, ...], mode: DraftSampling, lengths: tuple[int, int]
) -> None:
    assert p_value(written(trio, mode, lengths), expected(trio[0])) > 0.001


def resamples_from_the_middle(
    probs: torch.Tensor, proposal: Proposal, uniforms: torch.Tensor
) -> tuple[int, int]:
    """Fault: what the middle LLM refuses is replaced from its distribution, not the residual."""
    accepted, _ = accept(probs, proposal, uniforms)
    return accepted, int(draw(probs[accepted], uniforms[-1]))


def keeps_too_easily(
    probs: torch.Tensor, proposal: Proposal, uniforms: torch.Tensor
) -> tuple[int, int]:
    """Fault: the middle LLM keeps whatever the small draft proposes."""
    return accept(probs, proposal, torch.cat([torch.zeros(len(uniforms) - 1), uniforms[-1:]]))


@pytest.mark.parametrize("fault", [resamples_from_the_middle, keeps_too_easily])
def test_a_fault_in_the_inner_level_is_caught(
    trio: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]
) -> None:
    # the tokens no longer come from the distribution that the target is told they come from
    monkeypatch.setattr(speculative_three, "accept", fault)
    seen = written(trio, DraftSampling.PROBABILISTIC, (3, 2))
    assert p_value(seen, expected(trio[0])) < 1e-6
