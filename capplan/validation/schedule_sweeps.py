"""Published sweeps over the draft length: what a schedule computed without them would lose.

A sweep measures several choices at one load (lengths of one draft, or drafts). Each is predicted
from other rows, the best prediction is taken, and what it loses against the best measurement is
its regret. docs/method/adaptive.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.adaptive import regret
from capplan.estimate.calibration import fit_relative
from capplan.estimate.lengths import LengthSeries, falling_rates, length_curve
from capplan.estimate.moe import distinct_experts
from capplan.validation.rows import PublishedRows, SpeedupRow, ThroughputRow

Floats = NDArray[np.float64]

OFF = "none"


@dataclass(frozen=True)
class Sweep:
    """Choices measured at one load, and what was predicted without looking at them.

    Attributes
    ----------
    source, case
        Key of the source; draft, task or load.
    choices
        What could be run, :data:`OFF` first.
    measured, predicted
        Tokens a second, or speedup, of every choice.
    """

    source: str
    case: str
    choices: tuple[str, ...]
    measured: Floats
    predicted: Floats

    @property
    def regret(self) -> float:
        """Share of the best measured rate that the predicted best gives up."""
        return float(regret(self.measured, self.predicted))

    @property
    def picked(self) -> str:
        """The predicted best."""
        return self.choices[int(self.predicted.argmax())]

    @property
    def best(self) -> str:
        """The measured best."""
        return self.choices[int(self.measured.argmax())]


def sweeps(rows: PublishedRows) -> tuple[Sweep, ...]:
    """Return every sweep of the sources that have one."""
    sound = rows.sound()
    return (
        *_lengths_by_load(sound.throughput),
        *_lengths_of_heads(sound.speedup),
        *_drafts_by_load(sound.throughput),
        *_published_constants(),
    )


# ---- DSpark on DeepSeek-V4-Pro, 8 x B300, k = 1, 3, 5, 6, 7 at six loads


EXPERTS, EXPERTS_PER_TOKEN = 384, 6
"""Of DeepSeek-V4-Pro (models_db/models)."""
_FIRSTS, _FALLS = np.linspace(0.6, 0.98, 13), np.linspace(-0.1, 0.7, 9)


def _round_terms(load: Floats, length: Floats) -> Floats:
    """Return the terms of a round's time: METHOD of a mixture of experts, plus the draft."""
    tokens = load * (length + 1.0)
    experts = distinct_experts(tokens, EXPERTS, EXPERTS_PER_TOKEN, 1.0)
    drafts = (length > 0) * np.ones_like(tokens)
    one = np.ones_like(tokens)
    return np.stack([one, drafts, length * one, load * one, tokens, experts], axis=-1)


def _tokens(first: float, fall: float, lengths: Floats) -> Floats:
    most = int(lengths.max())
    curve = np.cumsum(np.cumprod(falling_rates(first, fall, most)))
    result: Floats = np.concatenate([[1.0], 1.0 + curve])[lengths.astype(int)]
    return result


def _fit_rounds(load: Floats, length: Floats, token_s: Floats) -> tuple[float, float, Floats]:
    """Fit acceptance and round cost together: the source states neither."""
    terms = _round_terms(load, length)
    best: tuple[float, float, float, Floats] | None = None
    for first, fall in product(_FIRSTS, _FALLS):
        tau = _tokens(first, fall, length)
        coefficients = fit_relative(terms, token_s * tau)
        misses = terms @ coefficients / (token_s * tau) - 1.0
        error = float((misses**2).sum())
        if best is None or error < best[0]:
            best = (error, float(first), float(fall), coefficients)
    assert best is not None, "the grid is not empty"
    return best[1:]


def _lengths_by_load(rows: tuple[ThroughputRow, ...]) -> Iterator[Sweep]:
    source = "vllm_adaptive"
    fixed = [row for row in rows if row.source_key == source and row.method.startswith("fixed")]
    measured: dict[tuple[float, float], float] = {}
    for row in fixed:
        if None not in (row.load, row.N, row.spec, row.baseline):
            measured[float(row.load or 0), float(row.N or 0)] = float(row.spec or 0)
            measured[float(row.load or 0), 0.0] = float(row.baseline or 0)
    loads = sorted({load for load, _ in measured})
    lengths = np.array(sorted({n for _, n in measured}))
    points = np.array([[load, n, rate] for (load, n), rate in measured.items()]).reshape(-1, 3)
    for load in loads:
        kept = points[points[:, 0] != load]
        first, fall, coefficients = _fit_rounds(kept[:, 0], kept[:, 1], kept[:, 0] / kept[:, 2])
        round_s = _round_terms(np.full_like(lengths, load), lengths) @ coefficients
        rate = np.array([measured[load, n] for n in lengths])
        predicted = load * _tokens(first, fall, lengths) / round_s
        yield Sweep(source, f"{load:g} at once", _names(lengths), rate, predicted)


def _names(lengths: Floats) -> tuple[str, ...]:
    return tuple(f"N={n:g}" if n else OFF for n in lengths)


# ---- EAGLE heads of Llama-3.1-8B on one H100 at batch 1, K = 2 .. 7


_KNOWN_LENGTHS = 2


def _lengths_of_heads(rows: tuple[SpeedupRow, ...]) -> Iterator[Sweep]:
    """Predict longer drafts from the two shortest: acceptance by its law, rounds by a line."""
    source = "vllm20780"
    found = [row for row in rows if row.source_key == source and row.tau and row.t_sd_ms]
    for draft in sorted({row.draft for row in found}):
        of_draft = sorted((row for row in found if row.draft == draft), key=lambda r: r.N or 0)
        lengths = np.array([float(row.N or 0) for row in of_draft])
        tau = np.array([float(row.tau or 0) for row in of_draft])
        token_ms = np.array([float(row.t_sd_ms or 0) for row in of_draft])
        plain_ms = float(of_draft[0].t_ar_ms or 0)
        known = slice(0, _KNOWN_LENGTHS)
        series = LengthSeries(tuple(map(int, lengths[known])), tuple(map(float, tau[known])))
        slope, start = np.polyfit(lengths[known], (token_ms * tau)[known], 1)
        curve, _ = length_curve(series, int(lengths[-1]))
        predicted = curve[lengths.astype(int)] / (start + slope * lengths)
        yield Sweep(
            source,
            draft,
            _names(np.concatenate([[0.0], lengths])),
            np.concatenate([[1.0 / plain_ms], 1.0 / token_ms]),
            np.concatenate([[1.0 / plain_ms], predicted]),
        )


# ---- three drafts for Hy3-295B at five loads and on six tasks


def _drafts_by_load(rows: tuple[ThroughputRow, ...]) -> Iterator[Sweep]:
    """Take tokens a round as stated, and a round's cost from the other tasks at that load."""
    source = "angelslim"
    found = [row for row in rows if row.source_key == source and row.tau and row.speedup]
    ratio = {
        (row.draft, row.load, row.task): float(row.tau or 0) / float(row.speedup or 1)
        for row in found
    }
    speedup = {(row.draft, row.load, row.task): float(row.speedup or 0) for row in found}
    drafts = sorted({draft for draft, _, _ in ratio})
    tasks = sorted({task for _, _, task in ratio})
    for load, task in product(sorted({load or 0.0 for _, load, _ in ratio}), tasks):
        others = [[ratio[d, load, t] for t in tasks if t != task] for d in drafts]
        tau = np.array([ratio[d, load, task] * speedup[d, load, task] for d in drafts])
        yield Sweep(
            source,
            f"{task}, {load:g} at once",
            (OFF, *drafts),
            np.array([1.0, *(speedup[d, load, task] for d in drafts)]),
            np.concatenate([[1.0], tau / np.median(others, axis=1)]),
        )


# ---- step-time constants of Llama-3.1-8B with EAGLE on one H100

EAGLE_TOKENS = {
    "gsm8k": (1.699, 2.391, 2.666, 2.765),
    "cnn": (1.674, 2.329, 2.578, 2.694),
    "sharegpt": (1.661, 2.254, 2.478, 2.582),
    "instructcoder": (1.681, 2.348, 2.625, 2.760),
}
"""Tokens a round at N = 1, 3, 5, 7 over the traces of SpecDecode-Bench (arXiv:2601.11580)."""
EAGLE_LENGTHS = (1, 3, 5, 7)
EAGLE_CONTEXT = {"gsm8k": 177.0, "cnn": 1000.0, "sharegpt": 719.0, "instructcoder": 302.0}
"""Mean prompt and half the mean output of each dataset, tokens."""
_BATCHES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128)


def eagle_round_s(batch: Floats, length: Floats, context: float) -> Floats:
    """Return a round's seconds by the fits of SpecDecode-Bench's simulator (vLLM 0.10, H100).

    Parameters
    ----------
    batch, length
        Broadcast; N = 0 is a decode step.
    context
        Tokens in each request's cache.
    """
    tokens = batch * (length + 1.0)
    verify = 3.9265e-8 * batch * context + 2.1010e-5 * tokens + 5.8859e-3
    draft = 2.3777e-9 * batch * context + 8.414e-7 * batch * length + 2.1353e-3
    result: Floats = verify + np.where(length > 0, draft, 0.0) + 1.2068e-3
    return result


def _published_constants() -> Iterator[Sweep]:
    """Predict N = 5 and 7 from acceptance at 1 and 3; the constants stand for the measurement."""
    lengths = np.array([0.0, *EAGLE_LENGTHS])
    for (dataset, tokens), batch in product(EAGLE_TOKENS.items(), _BATCHES):
        round_s = eagle_round_s(np.array(float(batch)), lengths, EAGLE_CONTEXT[dataset])
        series = LengthSeries(EAGLE_LENGTHS[:_KNOWN_LENGTHS], tokens[:_KNOWN_LENGTHS])
        curve, _ = length_curve(series, EAGLE_LENGTHS[-1])
        yield Sweep(
            "specdecode_bench",
            f"{dataset}, batch {batch}",
            _names(lengths),
            batch * np.array([1.0, *tokens]) / round_s,
            batch * curve[lengths.astype(int)] / round_s,
        )
