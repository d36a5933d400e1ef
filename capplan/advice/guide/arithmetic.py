"""Figures that follow from other figures of the guide: recomputed, within its own rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from capplan.advice.guide.sheet import Found, Sheet
from capplan.estimate.acceptance import tokens_per_round_iid
from capplan.estimate.speculation import guide_speedup
from capplan.schema.audit import ClaimVerdict, Finding

_LENGTHS = (3, 5, 7)


@dataclass(frozen=True)
class Derivation:
    """A claim that is a function of others."""

    claim: str
    formula: str
    """In words, with ``{0}``, ``{1}`` ... for the inputs."""
    inputs: tuple[str, ...]
    compute: Callable[..., float]
    aside: Callable[[Sheet], str] | None = None
    """Another way to the same figure, in a sentence."""


def _saving_of_bills(sheet: Sheet) -> str:
    cost = {
        row: sheet[f"cost-{row}-month"] / sheet[f"cost-{row}-throughput"] for row in ("none", "n5")
    }
    saving = 1 - cost["n5"] / cost["none"]
    return f" Bills over throughputs, at one utilisation, give {saving * 100:.1f} %."


def _example_by_chance(sheet: Sheet) -> str:
    """Section 1 calls its alpha the acceptance of a token; then alpha * N are not accepted."""
    alpha, length = sheet["formula-example-acceptance"], sheet["formula-example-n"]
    tokens = float(tokens_per_round_iid(alpha, length))
    speedup = tokens / (1 + length * sheet["formula-example-cost-ratio"])
    return (
        f" But if {alpha:g} is the chance of each token, as it says, a round accepts "
        f"{tokens - 1:.2f} tokens, not {alpha * length:g} (the first rejection ends it), and "
        f"yields {tokens:.2f} with the bonus token: {speedup:.2f}x, before verification costs "
        "anything."
    )


def _eagle_by_throughput(sheet: Sheet) -> str:
    eagle, draft = sheet["cost-eagle-throughput"], sheet["cost-n5-throughput"]
    gain = (eagle / draft - 1) * 100
    return f" Its cost table has {eagle:,g} / {draft:,g} tokens/s: {gain:.1f} %."


def _quotient(above: float, below: float) -> float:
    return above / below


def _gain(new: float, old: float) -> float:
    return new / old - 1


def _difference(new: float, old: float) -> float:
    return new - old


def _saving(new: float, old: float) -> float:
    return 1 - new / old


def _same(value: float) -> float:
    return value


def _fastest_length(*throughputs: float) -> float:
    return float(_LENGTHS[throughputs.index(max(throughputs))])


def _example(alpha: float, length: float, cost_ratio: float) -> float:
    return float(guide_speedup(alpha, length, cost_ratio))


_PLAIN, _N5, _N7 = "a100-none-decode", "a100-n5-decode", "a100-n7-decode"
RATIOS = tuple(
    Derivation(
        f"pair-{pair}-ratio",
        "{0} / {1} billion parameters",
        (f"pair-{pair}-target-size", f"pair-{pair}-draft-size"),
        _quotient,
    )
    for pair in ("llama-4-maverick", "qwen3.5-72b", "deepseek-v4")
)

DERIVATIONS: tuple[Derivation, ...] = (
    Derivation(
        "formula-example-speedup",
        "{0} x {1} / (1 + {1} x {2})",
        ("formula-example-acceptance", "formula-example-n", "formula-example-cost-ratio"),
        _example,
        _example_by_chance,
    ),
    *RATIOS,
    Derivation("a100-n5-speedup", "{0} / {1} tokens/s", (_N5, _PLAIN), _quotient),
    Derivation("a100-n7-speedup", "{0} / {1} tokens/s", (_N7, _PLAIN), _quotient),
    Derivation("a100-n7-gain", "{0} / {1} - 1", ("a100-n7-speedup", "a100-n5-speedup"), _gain),
    Derivation(
        "a100-n7-memory-extra",
        "{0} - {1} GB",
        ("a100-n7-memory", "a100-n5-memory"),
        _difference,
    ),
    Derivation(
        "a100-best-n",
        "The largest throughput at 64 requests, of {0}, {1} and {2} tokens/s,",
        tuple(f"a100-n{length}-throughput" for length in _LENGTHS),
        _fastest_length,
    ),
    Derivation(
        "eagle-extra-acceptance",
        "{0} - {1}",
        ("method-eagle-acceptance", "method-standard-acceptance"),
        _difference,
    ),
    Derivation(
        "eagle-extra-speedup",
        "{0} / {1} - 1",
        ("method-eagle-speedup", "method-standard-speedup"),
        _gain,
        _eagle_by_throughput,
    ),
    Derivation(
        "cost-none-throughput", "Section 4.1, {0} tokens/s,", ("a100-none-throughput",), _same
    ),
    Derivation("cost-n5-throughput", "Section 4.1, {0} tokens/s,", ("a100-n5-throughput",), _same),
    *(
        Derivation(
            claim,
            "1 - {0} / {1}",
            ("cost-n5-million", "cost-none-million"),
            _saving,
            _saving_of_bills,
        )
        for claim in ("cost-saving", "summary-saving")
    ),
    Derivation(
        "tasks-worst",
        "The smallest of {0}, {1}, {2}, {3}, {4} and {5}",
        tuple(
            f"task-{task}-speedup"
            for task in ("code", "qa", "maths", "creative", "translation", "summary")
        ),
        lambda *speedups: min(speedups),
    ),
)


def derived_figures(sheet: Sheet) -> Iterator[Found]:
    """Recompute every figure that the guide's own figures determine."""
    for derivation in DERIVATIONS:
        inputs = tuple(sheet[claim] for claim in derivation.inputs)
        recomputed = derivation.compute(*inputs)
        claimed, unit = sheet[derivation.claim], sheet.resolution(derivation.claim)
        # half a millionth of slack: 0.89 - 0.82 is not 0.07 in binary
        agrees = abs(recomputed - claimed) < unit + 5e-7
        aside = derivation.aside(sheet) if derivation.aside else ""
        formula = derivation.formula.format(*(f"{value:,g}" for value in inputs))
        yield (
            derivation.claim,
            Finding(
                verdict=ClaimVerdict.REPRODUCED if agrees else ClaimVerdict.INCONSISTENT,
                reason=f"{formula} gives {recomputed:,.4g}; it prints {claimed:,g}.{aside}",
                recomputed=recomputed,
                claims=derivation.inputs,
            ),
        )
