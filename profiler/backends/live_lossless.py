"""Whether a live server's text is still its target's own, asked of the server itself.

A server cannot switch speculation off for one request, but it can score: a prompt is read in one
prefill, without drafts, and every token of it can be given its log-probability under the target.
So the server writes with speculation and then scores its own text.

- At temperature 0 every token must be the target's likeliest one; by how much it is not is kept.
- Above it the token drawn at each place must be, on average, as likely as a draw from the
  target's own distribution there, tempered: its expected log-probability follows from the
  likeliest tokens at that place. This holds given the text before, however it came about, so no
  second run without speculation is needed. Tokens beyond those that the server lists count with
  the log-probability of the last one listed, on both sides.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from capplan.errors import ServerError
from capplan.schema.cells import LosslessnessCell
from profiler.backends.live_answers import choice, ids, log_probs, reported
from profiler.backends.live_http import PATHS, Endpoint, ServedLlm, post_json

LISTED_TOKENS = 20
"""As many of the likeliest tokens are asked for; vLLM allows no more unless told to."""
_AT_ONCE = 8
"""Requests together, so that the batch is mixed as in service."""
_SLACK_NATS = 0.1
"""Log-probabilities come rounded, some from 16 bits."""
_LEAST_NATS = -1e6
_LARGEST_EXPONENT = 600.0
"""Within what a double holds: above temperature 1 an absurdly unlikely floor would overflow."""
_NEUTRAL = {"top_p": 1.0, "top_k": -1, "repetition_penalty": 1.0}
"""A server fills these from the checkpoint's own defaults, which would bend the distribution."""


@dataclass(frozen=True)
class Place:
    """One generated token as the target rates it, and what the target would have drawn."""

    log_prob: float
    least: float
    most: float
    """Bounds of the mean log-probability of a draw from the target: how often it draws a token
    that is not listed is known within bounds only. At temperature 0 and 1 they are one."""
    behind: float
    """By how much the likeliest token is ahead of this one."""
    raw: float
    """Log-probability of the token itself, at temperature 1."""
    tempered: float
    """The same at the temperature it was drawn at: what some servers are told to report."""


@dataclass(frozen=True)
class ScoredText:
    """One request, written with speculation and scored without."""

    places: tuple[Place, ...]
    reported: tuple[float, ...]
    """What the server said of the same tokens while it wrote; empty where it did not."""

    @property
    def is_greedy(self) -> bool:
        """Whether every token is the likeliest."""
        return all(place.behind <= 0 for place in self.places)

    @property
    def report_errors(self) -> tuple[float, float]:
        """Mean distance of what was reported from the scores, at temperature 1 and as drawn."""
        pairs = list(zip(self.places, self.reported, strict=False))
        if not pairs:
            return 0.0, 0.0
        return (
            fmean(abs(place.raw - reported) for place, reported in pairs),
            fmean(abs(place.tempered - reported) for place, reported in pairs),
        )


@dataclass(frozen=True)
class LosslessnessAsk:
    """How much text to check, and how it is drawn."""

    prompts: tuple[str, ...]
    temperature: float
    max_tokens: int
    seed: int
    vocab_size: int
    endpoint: Endpoint = "completions"
    """How it is asked for: through the chat template, or as plain text, which may end at once."""

    def body(self, prompt: str, number: int, model: str) -> dict[str, Any]:
        """Return the request's JSON."""
        shared = {
            "model": model,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed + number,
            "return_token_ids": True,
            **_NEUTRAL,
        }
        if self.endpoint == "chat":
            messages = [{"role": "user", "content": prompt}]
            return {**shared, "messages": messages, "logprobs": True}
        return {**shared, "prompt": prompt, "logprobs": 1}


def score_server(served: ServedLlm, ask: LosslessnessAsk) -> tuple[ScoredText, ...]:
    """Let a server write and then score its own text.

    Raises
    ------
    ServerError
        If it gives no token ids, or no log-probabilities of a prompt.
    """
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(ask.prompts))) as pool:
        numbered = list(enumerate(ask.prompts))
        texts = list(pool.map(lambda pair: _written(served, ask, pair[1], pair[0]), numbered))
        return tuple(pool.map(lambda text: _scored(served, ask, text), texts))


def losslessness_cell(
    texts: Sequence[ScoredText], temperature: float, num_speculative_tokens: int
) -> LosslessnessCell:
    """Return the cell of scored texts; its baseline is what the target would have drawn there.

    Within the bounds of what is expected the value nearest to what was seen is taken, the same
    for all places: a doubt about unlisted tokens never makes a sound server fail.
    """
    used = [text for text in texts if text.places]
    tokens = tuple(len(text.places) for text in used)
    share = _nearest_share([place for text in used for place in text.places])
    worst = tuple(max(p.behind for p in text.places) for text in used if not text.is_greedy)
    is_greedy = temperature == 0
    return LosslessnessCell(
        temperature=temperature,
        num_speculative_tokens=num_speculative_tokens,
        tokens=tokens,
        log_prob_nats=tuple(fmean(p.log_prob for p in text.places) for text in used),
        baseline_tokens=tokens,
        baseline_log_prob_nats=tuple(
            fmean(p.least + share * (p.most - p.least) for p in text.places) for text in used
        ),
        identical=sum(text.is_greedy for text in used) if is_greedy else None,
        difference_margins_nats=worst if is_greedy else (),
    )


def _nearest_share(places: Sequence[Place]) -> float:
    """Return where between its bounds the expectation comes closest to what was seen."""
    width = math.fsum(place.most - place.least for place in places)
    if width <= 0:
        return 0.0
    above = math.fsum(place.log_prob - place.least for place in places)
    return min(max(above / width, 0.0), 1.0)


def rated(
    token: int, listed: Mapping[int, float], temperature: float, vocab_size: int
) -> Place | None:
    """Rate one token by the log-probabilities listed at its place; None if it is not there.

    Parameters
    ----------
    token
        The one that was written.
    listed
        Log-probabilities of the likeliest tokens and of this one, at temperature 1.
    temperature
        That it was drawn at.
    vocab_size
        Tokens in all, to bound the weight of those that are not listed.
    """
    if token not in listed or not _is_distribution(listed.values(), vocab_size):
        return None
    top = sorted(listed.values(), reverse=True)[:LISTED_TOKENS]
    floor = top[-1]
    drawn = max(listed[token], floor)
    behind = top[0] - listed[token]
    raw = listed[token]
    if temperature == 0:
        return Place(drawn, top[0], top[0], behind, raw, raw)
    weights = math.fsum(math.exp((value - top[0]) / temperature) for value in top)
    tempered = (raw - top[0]) / temperature - math.log(weights)
    return Place(drawn, *_expected(top, temperature, vocab_size), behind, raw, tempered)


def _is_distribution(listed: Collection[float], vocab_size: int) -> bool:
    """Whether these can be log-probabilities of one place; a server may say anything.

    None is above 0, and the likeliest of all tokens is at least as likely as a fair draw.
    """
    if not all(math.isfinite(value) and value >= _LEAST_NATS for value in listed):
        return False
    return -math.log(max(vocab_size, 1)) - _SLACK_NATS <= max(listed) <= _SLACK_NATS


def _expected(top: Sequence[float], temperature: float, vocab_size: int) -> tuple[float, float]:
    """Return bounds of the mean log-probability of a draw, unlisted tokens at the floor."""
    likeliest, floor, power = top[0], top[-1], 1.0 / temperature
    # All weights are relative to the likeliest token's: at low temperatures none would be left.
    weights = [math.exp((value - likeliest) * power) for value in top]
    inner = math.fsum(w * value for w, value in zip(weights, top, strict=True))
    total = math.fsum(weights)
    tails = _tails(top, power, max(vocab_size - len(top), 1))
    means = [(inner + tail * floor) / (total + tail) for tail in tails]
    return min(means), max(means)


def _tails(top: Sequence[float], power: float, others: int) -> tuple[float, float]:
    """Return bounds of the tempered weight of the tokens that are not listed.

    None of them is likelier than the floor, which bounds it from one side; if all were equally
    likely, convexity bounds it from the other.
    """
    unlisted = 1.0 - math.fsum(map(math.exp, top))
    if unlisted <= 0:
        return 0.0, 0.0
    share, base = math.log(unlisted), -top[0] * power
    steep = share + top[-1] * (power - 1.0) + base
    flat = (1.0 - power) * math.log(others) + power * share + base
    return math.exp(min(steep, _LARGEST_EXPONENT)), math.exp(min(flat, _LARGEST_EXPONENT))


@dataclass(frozen=True)
class _Text:
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    reported: tuple[float, ...]


def _written(served: ServedLlm, ask: LosslessnessAsk, prompt: str, number: int) -> _Text:
    body = ask.body(prompt, number, served.name)
    document = post_json(served, PATHS[ask.endpoint], body, prompt=prompt)
    first = choice(document)
    at_top = document.get("prompt_token_ids") if isinstance(document, Mapping) else None
    prompt_ids = ids(first.get("prompt_token_ids") or at_top)
    token_ids = ids(first.get("token_ids"))
    if not prompt_ids or not token_ids:
        raise ServerError(
            f"{served.address} gives no token ids, so that its text cannot be scored.",
            "Losslessness is checked on vLLM 0.11 or newer; elsewhere use --backend vllm.",
        )
    told = reported(first.get("logprobs"))
    return _Text(prompt_ids, token_ids, told if len(told) == len(token_ids) else ())


def _scored(served: ServedLlm, ask: LosslessnessAsk, text: _Text) -> ScoredText:
    body = {
        "model": served.name,
        "prompt": [*text.prompt_ids, *text.token_ids],
        "temperature": 0.0,
        "max_tokens": 1,
        "prompt_logprobs": LISTED_TOKENS,
    }
    listed = choice(post_json(served, PATHS["completions"], body)).get("prompt_logprobs")
    if not isinstance(listed, list) or len(listed) != len(text.prompt_ids) + len(text.token_ids):
        raise ServerError(
            f"{served.address} gives no log-probabilities of a prompt.",
            "Losslessness is checked on servers that know prompt_logprobs, such as vLLM.",
        )
    places = [
        rated(token, log_probs(row), ask.temperature, ask.vocab_size)
        for token, row in zip(text.token_ids, listed[len(text.prompt_ids) :], strict=True)
    ]
    usable = tuple(place for place in places if place is not None)
    if not usable:
        raise ServerError(
            f"{served.address} gives log-probabilities of a prompt that are none.",
            "Look at the server's log; another version of the engine may score soundly.",
        )
    whole = len(usable) == len(places)
    return ScoredText(usable, text.reported if whole else ())
