"""Speculation must not change what is written: token by token at temperature 0, in distribution
above it. The statistical test is shown to have power: planted faults fail it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capplan.schema.cells import DraftSampling  # noqa: E402
from capplan.schema.measured_setup import NgramDraft  # noqa: E402
from profiler.backends import speculative  # noqa: E402
from profiler.backends.speculative import (  # noqa: E402
    Decoding,
    Drafter,
    LookupDrafter,
    ModelDrafter,
    NoDrafter,
    Proposal,
    begin,
    decode,
)
from profiler.backends.torch_sampling import distribution, draw  # noqa: E402
from profiler.protocol import SamplingPoint  # noqa: E402

VOCAB = 16
RUNS = 1500
PROMPT = (3, 1, 4, 1, 5, 3, 1)
"""Ends with an n-gram that it contains, so that prompt lookup has something to propose."""
TWO_TOKENS = SamplingPoint(temperature=0.9, max_tokens=2, seed=11)
GREEDY = SamplingPoint(temperature=0, max_tokens=24, seed=0)
LOOKUP = NgramDraft(prompt_lookup_min=1, prompt_lookup_max=2)
Accept = Callable[[torch.Tensor, Proposal, torch.Tensor], tuple[int, int]]


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
    """Random next-token logits for every two tokens: cheap enough for thousands of texts.

    It reads the token before the newest from its cache, so a cache set back to the wrong place
    changes the distribution as it would for a real LLM.
    """

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
def markov_pair() -> tuple[Any, Any]:
    source = torch.Generator().manual_seed(0)
    logits = 1.5 * torch.randn(VOCAB, VOCAB, VOCAB, generator=source)
    noise = torch.randn(VOCAB, VOCAB, VOCAB, generator=source)
    return MarkovLlm(logits), MarkovLlm(logits + noise)


@pytest.fixture(scope="module")
def llama_pair(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> tuple[Any, Any]:
    # No end token: all texts have the same length.
    shape = {"layers": 2, "hidden_size": 16, "intermediate_size": 24}
    pair: tuple[Any, Any] = tiny_llms.pair(
        tmp_path_factory.mktemp("lossless"), vocab=VOCAB, eos_token_id=None, **shape
    )
    for llm in pair:
        llm.tokenizer.eos_token = None
    return pair


def drafter(kind: str, pair: tuple[Any, Any], sampling: SamplingPoint) -> Drafter:
    if kind == "lookup":
        return LookupDrafter(LOOKUP)
    return ModelDrafter(pair[1], sampling, DraftSampling(kind))


@torch.inference_mode()
def two_token_texts(
    pair: tuple[Any, Any], kind: str, tokens_a_round: int, runs: int = RUNS
) -> Counter[Any]:
    """Write two tokens many times; both come from rounds, none from the prefill."""
    source = torch.Generator().manual_seed(TWO_TOKENS.seed)
    drafts = drafter(kind, pair, TWO_TOKENS)
    cache = pair[0].new_cache(len(PROMPT) + 8)
    pair[0].forward(pair[0].tensor([PROMPT[:-1]]), cache, 1)
    drafts.start(PROMPT, len(PROMPT) + 8)
    seen: Counter[Any] = Counter()
    for _ in range(runs):
        cache.rewind(len(PROMPT) - 1)
        if kind == "lookup":
            drafts.start(PROMPT, 0)
        state = Decoding(pair[0], drafts, TWO_TOKENS, cache, list(PROMPT), len(PROMPT), source)
        seen[tuple(decode(state, tokens_a_round))] += 1
    return seen


@torch.inference_mode()
def exact_probabilities(target: Any) -> dict[tuple[int, int], float]:
    """The probability of every text of two tokens, by enumeration."""

    def following(text: tuple[int, ...]) -> torch.Tensor:
        logits = target.forward(target.tensor([text]), target.new_cache(len(text)), 1)
        return distribution(logits[0, -1], TWO_TOKENS)

    first = following(PROMPT)
    return {
        (a, b): float(first[a] * prob)
        for a in range(VOCAB)
        for b, prob in enumerate(following((*PROMPT, a)))
    }


def p_value(seen: Counter[Any], expected: dict[tuple[int, int], float]) -> float:
    """Chi-square test of the counts; outcomes expected fewer than five times are pooled."""
    total = sum(seen.values())
    frequent = {text for text, prob in expected.items() if prob * total >= 5}
    cells = [(seen[text], expected[text] * total) for text in frequent]
    rest = (
        sum(count for text, count in seen.items() if text not in frequent),
        sum(prob * total for text, prob in expected.items() if text not in frequent),
    )
    statistic = sum((count - mean) ** 2 / mean for count, mean in [*cells, rest])
    freedom = len(cells)
    # Wilson and Hilferty (1931): the cube root of chi-square over its freedom is near normal.
    spread = 2 / (9 * freedom)
    z = ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))


@pytest.mark.parametrize("tokens_a_round", [1, 2])
@pytest.mark.parametrize("kind", ["probabilistic", "greedy", "lookup"])
def test_speculation_keeps_the_targets_distribution(
    markov_pair: tuple[Any, Any], kind: str, tokens_a_round: int
) -> None:
    seen = two_token_texts(markov_pair, kind, tokens_a_round)
    assert p_value(seen, exact_probabilities(markov_pair[0])) > 0.001


def test_speculation_keeps_the_distribution_of_a_transformer(llama_pair: tuple[Any, Any]) -> None:
    seen = two_token_texts(llama_pair, "probabilistic", 2, runs=600)
    assert p_value(seen, exact_probabilities(llama_pair[0])) > 0.001


def resamples_from_the_target(
    target_probs: torch.Tensor, proposal: Proposal, uniforms: torch.Tensor
) -> tuple[int, int]:
    """Fault: a refused draft is replaced from the target's distribution, not the residual."""
    accepted, _ = GOOD(target_probs, proposal, uniforms)
    return accepted, int(draw(target_probs[accepted], uniforms[-1]))


def accepts_too_easily(
    target_probs: torch.Tensor, proposal: Proposal, uniforms: torch.Tensor
) -> tuple[int, int]:
    """Fault: the threshold is twice the ratio of the probabilities."""
    easier = uniforms.clone()
    easier[:-1] /= 2
    return GOOD(target_probs, proposal, easier)


def scores_one_position_late(
    target_probs: torch.Tensor, proposal: Proposal, uniforms: torch.Tensor
) -> tuple[int, int]:
    """Fault: drafts are judged by the distribution after them."""
    return GOOD(target_probs.roll(-1, 0), proposal, uniforms)


GOOD: Accept = speculative.accept


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (resamples_from_the_target, "probabilistic"),
        (resamples_from_the_target, "greedy"),
        (resamples_from_the_target, "lookup"),
        (accepts_too_easily, "probabilistic"),
        (accepts_too_easily, "greedy"),
        (scores_one_position_late, "probabilistic"),
    ],
)
def test_a_planted_fault_is_caught(
    markov_pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, fault: Accept, kind: str
) -> None:
    monkeypatch.setattr(speculative, "accept", fault)
    seen = two_token_texts(markov_pair, kind, 2)
    assert p_value(seen, exact_probabilities(markov_pair[0])) < 1e-6


def test_a_cache_set_back_one_token_too_far_is_caught(
    markov_pair: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_far(self: TokenCache, length: int) -> None:
        # The prompt's own length is where every run begins.
        self.length = length - (length > len(PROMPT) - 1)

    monkeypatch.setattr(TokenCache, "rewind", too_far)
    seen = two_token_texts(markov_pair, "probabilistic", 1)
    assert p_value(seen, exact_probabilities(markov_pair[0])) < 1e-6


@pytest.fixture(scope="module")
def plain_texts(llama_pair: tuple[Any, Any], tiny_llms: Any) -> dict[tuple[int, ...], list[int]]:
    return {
        prompt: decode(begin(llama_pair[0], NoDrafter(), prompt, GREEDY, 0), 0)
        for prompt in tiny_llms.prompts(4, vocab=VOCAB)
    }


@pytest.mark.parametrize("tokens_a_round", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["greedy", "lookup"])
def test_at_temperature_0_the_text_is_plain_decodings(
    llama_pair: tuple[Any, Any],
    plain_texts: dict[tuple[int, ...], list[int]],
    kind: str,
    tokens_a_round: int,
) -> None:
    for prompt, plain in plain_texts.items():
        drafts = drafter(kind, llama_pair, GREEDY)
        state = begin(llama_pair[0], drafts, prompt, GREEDY, tokens_a_round)
        assert decode(state, tokens_a_round) == plain


def test_the_residual_has_what_the_draft_left_over() -> None:
    target_probs = torch.tensor([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    proposal = Proposal([0], torch.tensor([[0.8, 0.1, 0.1]]))
    # Token 0 is kept with probability .5/.8; the residual is 0, .2, .1.
    outcomes = {
        (kept, last): speculative.accept(target_probs, proposal, torch.tensor([kept, last]))
        for kept in (0.62, 0.63)
        for last in (0.66, 0.67)
    }
    assert outcomes == {
        (0.62, 0.66): (1, 0),
        (0.62, 0.67): (1, 0),
        (0.63, 0.66): (0, 1),
        (0.63, 0.67): (0, 2),
    }
