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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from capplan.errors import ServerError
from capplan.schema.profile import LosslessnessCell
from profiler.backends.live_http import PATHS, Endpoint, ServedLlm, post_json

LISTED_TOKENS = 20
"""As many of the likeliest tokens are asked for; vLLM allows no more unless told to."""
_AT_ONCE = 8
"""Requests together, so that the batch is mixed as in service."""
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
    if token not in listed or not all(map(math.isfinite, listed.values())):
        return None
    top = sorted(listed.values(), reverse=True)[:LISTED_TOKENS]
    floor = top[-1]
    drawn = max(listed[token], floor)
    behind = top[0] - listed[token]
    raw = listed[token]
    if temperature == 0:
        return Place(drawn, top[0], top[0], behind, raw, raw)
    weights = math.fsum(math.exp(value / temperature) for value in top)
    tempered = raw / temperature - math.log(weights)
    return Place(drawn, *_expected(top, temperature, vocab_size), behind, raw, tempered)


def _expected(top: Sequence[float], temperature: float, vocab_size: int) -> tuple[float, float]:
    """Return bounds of the mean log-probability of a draw, unlisted tokens at the floor."""
    floor, power = top[-1], 1.0 / temperature
    unlisted = max(1.0 - math.fsum(map(math.exp, top)), 0.0)
    others = max(vocab_size - len(top), 1)
    # The tempered weight of the unlisted tokens: none of them is likelier than the floor, which
    # bounds it from one side; if all were equally likely, convexity bounds it from the other.
    steep = unlisted * math.exp(floor * (power - 1.0))
    flat = others ** (1.0 - power) * unlisted**power
    weights = [math.exp(value * power) for value in top]
    inner = math.fsum(w * value for w, value in zip(weights, top, strict=True))
    total = math.fsum(weights)
    means = [(inner + tail * floor) / (total + tail) for tail in (steep, flat)]
    return min(means), max(means)


@dataclass(frozen=True)
class _Text:
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    reported: tuple[float, ...]


def _written(served: ServedLlm, ask: LosslessnessAsk, prompt: str, number: int) -> _Text:
    body = ask.body(prompt, number, served.name)
    document = post_json(served, PATHS[ask.endpoint], body)
    choice = _choice(document)
    at_top = document.get("prompt_token_ids") if isinstance(document, Mapping) else None
    prompt_ids = _ids(choice.get("prompt_token_ids") or at_top)
    token_ids = _ids(choice.get("token_ids"))
    if not prompt_ids or not token_ids:
        raise ServerError(
            f"{served.address} gives no token ids, so that its text cannot be scored.",
            "Losslessness is checked on vLLM 0.11 or newer; elsewhere use --backend vllm.",
        )
    reported = _reported(choice.get("logprobs"))
    return _Text(prompt_ids, token_ids, reported if len(reported) == len(token_ids) else ())


def _reported(logprobs: Any) -> tuple[float, ...]:
    """Return the log-probability that came with each token, in either way of asking."""
    if not isinstance(logprobs, Mapping):
        return ()
    values = logprobs.get("token_logprobs")
    if not isinstance(values, list):
        rows = logprobs.get("content")
        rows = rows if isinstance(rows, list) else []
        values = [row.get("logprob") for row in rows if isinstance(row, Mapping)]
    if not all(isinstance(value, int | float) for value in values):
        return ()
    return tuple(map(float, values))


def _scored(served: ServedLlm, ask: LosslessnessAsk, text: _Text) -> ScoredText:
    body = {
        "model": served.name,
        "prompt": [*text.prompt_ids, *text.token_ids],
        "temperature": 0.0,
        "max_tokens": 1,
        "prompt_logprobs": LISTED_TOKENS,
    }
    listed = _choice(post_json(served, PATHS["completions"], body)).get("prompt_logprobs")
    if not isinstance(listed, list) or len(listed) != len(text.prompt_ids) + len(text.token_ids):
        raise ServerError(
            f"{served.address} gives no log-probabilities of a prompt.",
            "Losslessness is checked on servers that know prompt_logprobs, such as vLLM.",
        )
    places = [
        rated(token, _log_probs(row), ask.temperature, ask.vocab_size)
        for token, row in zip(text.token_ids, listed[len(text.prompt_ids) :], strict=True)
    ]
    usable = tuple(place for place in places if place is not None)
    whole = len(usable) == len(places)
    return ScoredText(usable, text.reported if whole else ())


def _choice(document: Any) -> Mapping[str, Any]:
    choices = document.get("choices") if isinstance(document, Mapping) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def _ids(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        return ()
    return tuple(values)


def _log_probs(row: Any) -> dict[int, float]:
    if not isinstance(row, Mapping):
        return {}
    found: dict[int, float] = {}
    for token, rated_as in row.items():
        value = rated_as.get("logprob") if isinstance(rated_as, Mapping) else None
        if str(token).isdigit() and isinstance(value, int | float):
            found[int(token)] = float(value)
    return found
