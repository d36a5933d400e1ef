"""Three tiers as the ways with fewer foretell them, beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from three_tiers_runs import Measured

from capplan.estimate.multilevel import (
    NOT_DEPLOYABLE,
    InnerPair,
    multilevel_speedup,
    pays,
    proposal_s,
    surplus_tokens,
)
from profiler.backends.speculative_three_runs import WayCounts
from profiler.backends.torch_llm import TorchLlm

DRAWS = 2000
ENDS = (2.5, 97.5)


@dataclass(frozen=True)
class Row:
    """One setting, foretold and measured. Ratios are times over a plain step of the target.

    Attributes
    ----------
    outer_tokens, inner_tokens
        Emitted a round of the target and of the pair.
    inner_tokens_cut
        Foretold with the pair's last round cut to what the target takes.
    draft_token_ratio
        Time of a token that the pair proposes.
    token_ratio
        Time of a token that the target emits.
    token_ratio_cut
        Foretold with the cut.
    gain, gain_low, gain_high
        Measured tokens a second over those of the best way with fewer tiers, less one, and its
        95 % interval over prompts.
    best_fewer
        That way.
    surplus_tokens
        Foretold: positive if and only if the middle LLM is worth having at some N.
    """

    num_speculative_tokens: int
    inner_num_speculative_tokens: int
    outer_tokens: tuple[float, float]
    inner_tokens: tuple[float, float]
    inner_tokens_cut: float
    draft_token_ratio: tuple[float, float]
    token_ratio: tuple[float, float]
    token_ratio_cut: float
    gain: float
    gain_low: float
    gain_high: float
    best_fewer: str
    surplus_tokens: float
    pair_beats_middle_alone: bool


@dataclass(frozen=True)
class Outcome:
    """Everything that one run found."""

    middle: str
    middle_layers: int
    prompts: int
    tokens: int
    pass_ratios: Mapping[str, float]
    """A pass of the small and of the middle LLM over one of the target."""
    accepted_first: Mapping[str, float]
    """Share of first drafts kept, by who drafts for whom."""
    identical_texts: bool
    token_ratios: Mapping[str, float]
    """Of the ways with fewer tiers."""
    rows: tuple[Row, ...]
    note: str = NOT_DEPLOYABLE


def row_of(measured: Measured, n: int, inner_n: int) -> Row:
    """Compose the ways with fewer tiers, and put the three-tier run beside it."""
    ways, plain_s = measured.ways, measured.plain_s
    pair_way, three = ways[f"pair {inner_n}"], ways[f"three {n} {inner_n}"]
    alone, small = ways[f"middle {n}"], pair_way.levels[1]
    inner_round = pair_way.levels[0]
    pair = InnerPair(inner_round.tokens_per_round, pair_way.seconds / inner_round.rounds)
    # Of a round of target and middle LLM, what is not drafting is verification and bookkeeping.
    verify_s = (alone.seconds - alone.levels[1].seconds) / alone.levels[0].rounds
    pass_s = small.seconds / small.passes
    rates = inner_round.cumulative_rates(inner_n)
    round_s = [pair.round_s - (inner_n - k) * pass_s for k in range(inner_n + 1)]
    cut_s = proposal_s(n, rates, round_s)
    tokens = measured.tokens_by_length[n]
    speedup = multilevel_speedup(tokens, n, pair, verify_s, plain_s)
    seen = three.levels
    drafting_s = three.seconds - seen[0].seconds
    best = min((name for name in ways if not name.startswith(("pair", "three"))),
               key=lambda name: ways[name].token_s)  # fmt: skip
    gain = gains(three, ways[best])
    middle_alone_s = alone.levels[1].seconds / alone.levels[1].passes
    surplus = surplus_tokens(measured.rates, pair.token_s, verify_s, ways[best].token_s)
    return Row(
        num_speculative_tokens=n,
        inner_num_speculative_tokens=inner_n,
        outer_tokens=(tokens, seen[0].tokens_per_round),
        inner_tokens=(pair.tokens_per_round, seen[1].tokens_per_round),
        inner_tokens_cut=n / proposal_s(n, rates, [1.0] * (inner_n + 1)),
        draft_token_ratio=(pair.token_s / plain_s, drafting_s / seen[1].emitted / plain_s),
        token_ratio=(1.0 / speedup, three.token_s / plain_s),
        token_ratio_cut=(cut_s + verify_s) / tokens / plain_s,
        gain=gain[0],
        gain_low=gain[1],
        gain_high=gain[2],
        best_fewer=best,
        surplus_tokens=float(surplus),
        pair_beats_middle_alone=pays(pair, middle_alone_s),
    )


def gains(three: WayCounts, other: WayCounts) -> tuple[float, float, float]:
    """Return three tiers over another way in tokens a second, less one; prompts resampled."""
    rng = np.random.default_rng(0)
    count = len(three.tokens_of)
    rows = np.concatenate([np.arange(count)[None], rng.integers(0, count, (DRAWS, count))])
    spent = [np.array(way.seconds_of)[rows].sum(axis=1) for way in (other, three)]
    written = [np.array(way.tokens_of)[rows].sum(axis=1) for way in (three, other)]
    found = spent[0] / spent[1] * written[0] / written[1] - 1.0
    low, high = np.percentile(found[1:], ENDS)
    return float(found[0]), float(low), float(high)


def outcome_of(
    llms: Sequence[TorchLlm],
    settings: Sequence[tuple[int, int]],
    measured: Measured,
    middle: str,
) -> Outcome:
    """Put everything together."""
    ways, plain_s = measured.ways, measured.plain_s
    n, inner = settings[0]
    small, pair = ways[f"small {inner}"], ways[f"pair {inner}"]
    alone = ways[f"middle {n}"]
    passes = {
        "small": pair.levels[1].seconds / pair.levels[1].passes / plain_s,
        "middle": alone.levels[1].seconds / alone.levels[1].passes / plain_s,
    }
    first = {
        "small for target": small.levels[0].cumulative_rates(1)[0],
        "small for middle": pair.levels[0].cumulative_rates(1)[0],
        "middle for target": alone.levels[0].cumulative_rates(1)[0],
    }
    same = all(
        way.texts == ways["plain"].texts
        for name, way in ways.items()
        if not name.startswith("pair")
    )
    return Outcome(
        middle=middle,
        middle_layers=int(llms[1].text_config.num_hidden_layers),
        prompts=len(ways["plain"].tokens_of),
        tokens=sum(ways["plain"].tokens_of),
        pass_ratios=passes,
        accepted_first=first,
        identical_texts=same,
        token_ratios={
            name: way.token_s / plain_s
            for name, way in ways.items()
            if not name.startswith(("pair", "three"))
        },
        rows=tuple(row_of(measured, *setting) for setting in settings),
    )
