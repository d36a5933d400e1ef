"""Three tiers of drafting on three real LLMs: what the composition foretells and what is measured.

The target is capplan's demo checkpoint, the smallest its trained draft. The middle one is the
target without some of its layers, or, with ``--middle-layers``, what
``tools/train_demo_middle.py`` trained. Every prompt is decoded in every way in turn: plain, with
either draft alone, the middle LLM alone with the small draft, and with three tiers. Predictions
use the ways with fewer tiers only. Times are seconds of one processor thread. No engine runs
three tiers: nothing here can be deployed.

Run from the repository: ``python benchmarks/three_tiers.py [--quick] [--format json]``
(docs/method/three-tiers.md)
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file

from capplan.estimate.acceptance import replay_per_token
from capplan.estimate.multilevel import (
    NOT_DEPLOYABLE,
    InnerPair,
    multilevel_speedup,
    pays,
    proposal_s,
    surplus_tokens,
)
from profiler.backends.checkpoints import find_checkpoint
from profiler.backends.embedded import demo_checkpoint
from profiler.backends.embedded_draft import WEIGHTS, assemble, demo_draft
from profiler.backends.speculative_three import Levels
from profiler.backends.speculative_three_runs import WayCounts, run_ways
from profiler.backends.torch_llm import TorchLlm
from profiler.backends.torch_loading import load_llm, quiet_transformers
from profiler.backends.torch_trace import trace_draft_model
from profiler.prompts import embedded_prompts
from profiler.protocol import Generation, SamplingPoint

SETTINGS = ((2, 1), (4, 2), (6, 3))
"""Drafts a round of the target, and of the middle LLM."""
QUICK_SETTINGS = ((4, 2),)
PROMPTS, MAX_TOKENS = 12, 32
QUICK_PROMPTS, QUICK_MAX_TOKENS = 3, 16
LEFT_OUT = 4
"""Layers of the target's 30 that the middle LLM goes without if none was trained."""
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


# ---- the three LLMs


def without_layers(target: Path, left_out: Sequence[int], into: Path) -> Path:
    """Write the target's layers but some, renumbered, as one file of layers."""
    kept: dict[str, torch.Tensor] = {}
    with safe_open(target / WEIGHTS, framework="pt") as weights:
        every = weights.keys()  # a safetensors handle is no mapping: it has no __iter__
        names = [name for name in every if name.startswith("model.layers.")]
        numbers = sorted({int(name.split(".")[2]) for name in names} - set(left_out))
        for place, number in enumerate(numbers):
            prefix = f"model.layers.{number}."
            for name in names:
                if name.startswith(prefix):
                    kept[f"model.layers.{place}.{name.removeprefix(prefix)}"] = weights.get_tensor(
                        name
                    )
    save_file(kept, into, metadata={"format": "pt"})
    return into


@torch.inference_mode()
def idlest_layers(llm: TorchLlm, prompt: Sequence[int], count: int) -> list[int]:
    """Return the layers that turn the state least: ShortGPT's block influence, arXiv:2403.03853.

    The first and the last two stay: what they do is not seen in the angle.
    """
    passed = llm.model(input_ids=llm.tensor([prompt]), output_hidden_states=True, use_cache=False)
    states = passed.hidden_states
    turned = [
        float(1.0 - torch.cosine_similarity(before, after, dim=-1).mean())
        for before, after in pairwise(states)
    ]
    return sorted(sorted(range(1, len(turned) - 2), key=turned.__getitem__)[:count])


def load_three(layers: Path | None, left_out: int, aside: Path) -> tuple[list[TorchLlm], str]:
    """Load target, middle and small LLM, and say what the middle one is."""
    device, dtype = torch.device("cpu"), torch.float32
    folder = demo_checkpoint()
    with quiet_transformers():
        target = load_llm(find_checkpoint(str(folder)), device, dtype)
        words = "trained"
        if layers is None:
            idle = idlest_layers(target, prompts_of(target, 1)[0], left_out)
            layers = without_layers(folder, idle, aside / "layers.safetensors")
            words = f"the target without layers {', '.join(map(str, idle))}"
        assemble(folder, layers, aside / "middle")
        drafts = [
            load_llm(find_checkpoint(str(one)), device, dtype)
            for one in (aside / "middle", demo_draft())
        ]
    return [target, *drafts], words


def prompts_of(llm: TorchLlm, count: int) -> list[tuple[int, ...]]:
    """Return prompts of all tasks in turn."""
    by_task = embedded_prompts().by_task.values()
    texts = [prompt.text for prompts in zip(*by_task, strict=True) for prompt in prompts]
    return [_encode(llm, text) for text in texts[:count]]


def _encode(llm: TorchLlm, text: str) -> tuple[int, ...]:
    assert llm.tokenizer is not None, "the demo checkpoint has one"
    chat = [{"role": "user", "content": text}]
    ids = llm.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    return tuple(ids)


# ---- foretold and measured


@dataclass(frozen=True)
class Measured:
    """All ways, decoded side by side."""

    ways: Mapping[str, WayCounts]
    rates: NDArray[np.float64]
    """Of the middle LLM with the target, from one trace of the plain text: C_1, C_2, ..."""
    tokens_by_length: Mapping[int, float]
    """Tokens a round of the target that the same trace foretells."""

    @property
    def plain_s(self) -> float:
        """Plain decode step of the target."""
        return self.ways["plain"].token_s


def decode_all(
    llms: Sequence[TorchLlm],
    settings: Sequence[tuple[int, int]],
    prompts: Sequence[tuple[int, ...]],
    max_tokens: int,
) -> Measured:
    """Decode every prompt in every way, then trace the middle LLM on the plain text."""
    target, middle, small = llms
    ways = {"plain": Levels((target,), ())}
    for n, inner in settings:
        ways[f"small {inner}"] = Levels((target, small), (inner,))
        ways[f"middle {n}"] = Levels((target, middle), (n,))
        ways[f"pair {inner}"] = Levels((middle, small), (inner,))
        ways[f"three {n} {inner}"] = Levels((target, middle, small), (n, inner))
    cold = SamplingPoint(temperature=0.0, max_tokens=max_tokens, seed=0)
    found = run_ways(ways, prompts, cold, clock_s=time.process_time)
    texts = [
        Generation(tuple(prompt), tuple(text))
        for prompt, text in zip(prompts, found["plain"].texts, strict=True)
    ]
    trace = trace_draft_model(target, middle, texts, cold)
    longest = max(n for n, _ in settings)
    counts = {
        n: replay_per_token(trace.arrays["accept_greedy"], trace.offsets, n)
        for n in range(1, longest + 1)
    }
    tokens = {n: float(c.emitted.sum() / c.rounds.sum()) for n, c in counts.items()}
    most = counts[longest]
    rates = most.accepted_per_position.sum(axis=0) / most.rounds.sum()
    return Measured(found, rates, tokens)


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


# ---- shown


def text_of(found: Outcome) -> str:
    """Return the outcome as a page of Markdown."""
    ratios = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.pass_ratios.items())
    first = ", ".join(f"{who} {rate * 100:.0f} %" for who, rate in found.accepted_first.items())
    fewer = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.token_ratios.items())
    lines = [
        found.note,
        "",
        f"Middle LLM: {found.middle}, {found.middle_layers} layers. {found.prompts} prompts, "
        f"{found.tokens} tokens at temperature 0; texts of all ways "
        f"{'are identical' if found.identical_texts else 'DIFFER'}.",
        f"A pass over one of the target: {ratios}. First draft kept: {first}.",
        f"Time of a token over a plain step: {fewer}.",
        "",
        "| N, inner | tokens a round | inner tokens a round | drafted token / plain step "
        "| token / plain step | over best with fewer tiers | surplus foretold |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.num_speculative_tokens}, {row.inner_num_speculative_tokens} "
        f"| {row.outer_tokens[0]:.2f} / {row.outer_tokens[1]:.2f} "
        f"| {row.inner_tokens[0]:.2f} ({row.inner_tokens_cut:.2f}) / {row.inner_tokens[1]:.2f} "
        f"| {row.draft_token_ratio[0]:.3f} / {row.draft_token_ratio[1]:.3f} "
        f"| {row.token_ratio[0]:.2f} ({row.token_ratio_cut:.2f}) / {row.token_ratio[1]:.2f} "
        f"| {row.gain * 100:+.0f} % ({row.gain_low * 100:+.0f} to {row.gain_high * 100:+.0f}), "
        f"{row.best_fewer} | {row.surplus_tokens:+.2f} |"
        for row in found.rows
    ]
    lines += ["", "Foretold / measured; in brackets with the pair's last round cut to N."]
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one setting, few prompts")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--middle-layers", type=Path, help="layers of tools/train_demo_middle.py")
    parser.add_argument(
        "--left-out", type=int, default=LEFT_OUT, help="layers of the target (%(default)s)"
    )
    parser.add_argument("--prompts", type=int, help=f"({PROMPTS})")
    parser.add_argument("--max-tokens", type=int, help=f"a prompt ({MAX_TOKENS})")
    return parser.parse_args()


def main() -> None:
    """Decode, compose, print."""
    given = arguments()
    # One thread, so that processor time is the time that the work takes.
    torch.set_num_threads(1)
    settings = QUICK_SETTINGS if given.quick else SETTINGS
    count = given.prompts or (QUICK_PROMPTS if given.quick else PROMPTS)
    max_tokens = given.max_tokens or (QUICK_MAX_TOKENS if given.quick else MAX_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        llms, middle = load_three(given.middle_layers, given.left_out, Path(folder))
        measured = decode_all(llms, settings, prompts_of(llms[0], count), max_tokens)
    found = outcome_of(llms, settings, measured, middle)
    print(json.dumps(asdict(found), indent=2) if given.format == "json" else text_of(found))
    if not found.identical_texts:
        sys.exit("Texts differ: speculation must not change what is written.")


if __name__ == "__main__":
    main()
