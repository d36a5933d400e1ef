"""The guide's figures beside published measurements; every count is taken from the rows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from capplan.advice.guide.sheet import (
    RUNS,
    AuditEvidence,
    Found,
    Sheet,
    contradicted,
    published,
    reproduced,
    uncheckable,
)
from capplan.schema.audit import Finding, PublishedRun
from capplan.schema.quantity import Quantity

_LEAST_LENGTHS = 3
"""A sweep of fewer lengths says little about the best."""
_NEAR_ONE = 1.05
_REPLAYS = published("models_db/claims/controllers, made by benchmarks/controllers.py")
_TELLING = 0.5
"""A symptom twice as frequent with its cause as without tells something of it."""


def headline_speedups(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Place the promised speedups among all published ones."""
    runs = [run for run in evidence.runs if run.method != "adaptive"]
    if not runs:
        return
    for claim in ("headline-speedup-low", "headline-speedup-title", "summary-speedup-low"):
        yield claim, _reached(sheet[claim], runs)
    yield "summary-easily", _reached(sheet["summary-easily"], runs)
    speedups = [run.speedup for run in runs]
    for claim in ("headline-speedup-high", "summary-speedup-high"):
        above = sum(speedup >= sheet[claim] for speedup in speedups)
        reason = (
            f"As an upper end: {above} of {len(runs):,} published speedups reach it, the largest "
            f"is {max(speedups):g}x. It comes without LLM, load or GPU."
        )
        said = reproduced(reason, source=RUNS) if above else contradicted(reason, RUNS)
        yield claim, said


def _reached(promised: float, runs: Sequence[PublishedRun]) -> Finding:
    speedups = [run.speedup for run in runs]
    reached, middle = sum(speedup >= promised for speedup in speedups), median(speedups)
    share = reached / len(speedups)
    losses = sum(speedup < 1 for speedup in speedups)
    alone = sum(run.load == 1 for run in runs) / len(runs)
    reason = (
        f"{reached} of {len(runs):,} published speedups reach {promised:g}x "
        f"({share * 100:.0f} %); their median is {middle:.2f}x, {losses} lose, though "
        f"{alone * 100:.0f} % are of one request alone, where speculation gains most."
    )
    if share < 0.5:
        return contradicted(reason, RUNS, middle)
    return reproduced(reason, recomputed=middle, source=RUNS)


def verification_cost(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Compare the cost of verification with the one step that the guide says."""
    ratios = evidence.verification_ratios
    claim = "formula-verification-cost"
    if not ratios:
        return
    middle = median(ratios)
    reason = (
        f"Measured: a verifying pass takes {min(ratios):.2f} to {max(ratios):.2f} plain steps, "
        f"median {middle:.2f}, in {len(ratios)} points of 8 to 256 requests at once. Past the "
        "captured CUDA graphs one verification went from 20.6 to 104 ms (vLLM blog, 2026-08-14)."
    )
    source = published("MagicDec, arXiv:2408.11049 (models_db/published/verify_cost.csv)")
    if middle > _NEAR_ONE * sheet[claim]:
        yield claim, contradicted(reason, source, middle)
    else:
        yield claim, reproduced(reason, recomputed=middle, source=source)


Sweep = dict[float, float]
"""Speedup by length, all else alike."""


def published_sweeps(runs: Sequence[PublishedRun]) -> dict[tuple[object, ...], Sweep]:
    """Return every published sweep over three or more lengths, by what was alike in it."""
    sweeps: defaultdict[tuple[object, ...], Sweep] = defaultdict(dict)
    for run in runs:
        length = run.num_speculative_tokens
        if not length or not run.is_chain or run.method == "adaptive":
            continue
        key = (run.source_key, run.target, run.draft, run.gpu, run.task, run.load, run.temperature)
        sweeps[key][length] = max(run.speedup, sweeps[key].get(length, 0.0))
    return {key: sweep for key, sweep in sweeps.items() if len(sweep) >= _LEAST_LENGTHS}


def fastest(sweep: Sweep) -> float:
    """Return the fastest length of a sweep."""
    return max(sweep, key=lambda length: sweep[length])


def best_length(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Ask of how many published sweeps the guide's universal length is the best."""
    sweeps = published_sweeps(evidence.runs)
    best = {key: fastest(sweep) for key, sweep in sweeps.items()}
    if not best:
        return
    claim = "rule-n-default"
    counts = Counter(best.values())
    ours = counts[sheet[claim]]
    spread = ", ".join(f"N = {n:g} in {counts[n]}" for n in sorted(counts))
    loads = sorted(
        (key[5], n) for key, n in best.items() if key[0] == "vllm_adaptive" and key[5] is not None
    )
    by_load = ", ".join(f"{n:g}" for _, n in loads)
    at = ", ".join(f"{load:g}" for load, _ in loads)
    falls = f" One LLM, by load: {by_load} at {at} requests at once." if loads else ""
    reason = (
        f"Best in {ours} of {len(best)} published sweeps of three or more lengths "
        f"({spread}).{falls}"
    )
    if ours / len(best) < 0.5:
        yield claim, contradicted(reason, RUNS)
    else:
        yield claim, reproduced(reason, source=RUNS)


def length_range(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Place the best published lengths in the range that the guide recommends."""
    sweeps = published_sweeps(evidence.runs).values()
    least, most = sheet["rule-n-low"], sheet["rule-n-high"]
    shorter = [fastest(sweep) for sweep in sweeps if min(sweep) < least]
    if shorter:
        inside = sum(n >= least for n in shorter)
        low = (
            f"In {inside} of the {len(shorter)} published sweeps that try less than {least:g} the "
            f"best length is {least:g} or more. Under load none may be: N = 1 lost 15 % at 32 "
            "requests on an A40 (vLLM pull request 26504)."
        )
        said = reproduced if inside > len(shorter) / 2 else contradicted
        yield "rule-n-low", said(low, source=RUNS)
    longer = sum(max(sweep) > most for sweep in sweeps)
    at_end = sum(fastest(sweep) >= most for sweep in sweeps)
    high = (
        f"{longer or 'None'} of the {len(sweeps)} published sweeps tries more than {most:g}, and "
        f"{at_end} are fastest there: the optimum may lie beyond. Drafts made in one pass "
        "(DFlash) are published with N = 15."
    )
    yield "rule-n-high", uncheckable(high, RUNS)


def acceptance_thresholds(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Ask what a threshold of acceptance tells: how many runs below it gain all the same."""
    rated = [(run, rate) for run in evidence.runs if (rate := run.acceptance_rate) is not None]
    if not rated:
        return
    for claim in ("rule-acceptance-replace", "rule-acceptance-healthy"):
        below = [run for run, rate in rated if rate < sheet[claim]]
        gaining = sum(run.speedup > 1 for run in below)
        reason = (
            f"{gaining} of {len(below)} published runs below {sheet[claim] * 100:g} % of the "
            "drafted tokens still gain: the rate falls with N. What decides is tokens a round "
            "against the cost of a round."
        )
        said = contradicted if gaining > len(below) / 2 else uncheckable
        yield claim, said(reason, RUNS)
    yield _slow_for_other_reasons(sheet, rated)


def _slow_for_other_reasons(sheet: Sheet, rated: Sequence[tuple[PublishedRun, float]]) -> Found:
    """Ask whether a low rate tells slow runs from fast ones."""
    claim, enough = "rule-speedup-check", sheet["rule-acceptance-replace"]
    slow = [
        [run.speedup < sheet[claim] for run, rate in rated if (rate < enough) is low]
        for low in (True, False)
    ]
    below, above = (sum(group) / len(group) if group else 0.0 for group in slow)
    reason = (
        f"{above * 100:.0f} % of the published runs with {enough * 100:g} % acceptance or more "
        f"stay below {sheet[claim]:g}x, {below * 100:.0f} % of those with less: draft cost, load "
        "and context keep a speedup low as often as a mismatched draft."
    )
    said = contradicted if above > _TELLING * below else uncheckable
    return claim, said(reason, RUNS)


def small_drafts(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Hold the least draft size to the paper that tried three drafts for one target."""
    runs = [
        run
        for run in evidence.runs
        if run.source_key == "leviathan23" and run.temperature == 0 and run.task == "EnDe"
    ]
    shares = {run.draft: _share(run) for run in runs}
    least = sheet["rule-size-ratio-low"]
    if not runs or any(share is None for share in shares.values()):
        return
    best = max(runs, key=lambda run: run.speedup)
    share = shares[best.draft] or 1.0
    if share < least:
        told = ", ".join(
            f"{run.draft} (1/{1 / (shares[run.draft] or 1):.0f}) {run.speedup:g}x" for run in runs
        )
        reason = f"For {best.target} the smallest draft is the best of three: {told}."
        yield "rule-size-ratio-low", contradicted(reason, published("arXiv:2211.17192, Table 2"))


def _share(run: PublishedRun) -> float | None:
    draft, target = _params(run.draft), _params(run.target)
    return draft / target if draft and target else None


def _params(name: str) -> float | None:
    found = re.search(r"([\d.]+)\s*([MB])\b", name)
    if found is None:
        return None
    return float(found[1]) * (1e6 if found[2] == "M" else 1e9)


def adaptive_gain(sheet: Sheet, evidence: AuditEvidence) -> Iterator[Found]:
    """Hold the gain that the guide promises of its controller to what replays of it gained."""
    claim = "adaptive-throughput-gain"
    known = [
        (one.over_five.mid, one.over_best)
        for one in evidence.controller_replays
        if one.over_five is not None
    ]
    if known:
        yield claim, _replayed(sheet[claim], known, _adaptive_of_vllm(evidence.runs))
    elif other := _adaptive_of_vllm(evidence.runs):
        source = published("vLLM blog, adaptive verification", "2026-08-14")
        yield claim, uncheckable(other, source)


def _replayed(promised: float, known: Sequence[tuple[float, Quantity]], other: str) -> Finding:
    """Judge by the gain over the 5 that the guide compares with; say what any length would do."""
    over_five = [gain for gain, _ in known]
    over_best = [gain.mid for _, gain in known]
    reached = sum(gain >= promised for gain in over_five)
    better = sum(gain.low > 0 for _, gain in known)
    reason = (
        f"Its rule, replayed on {len(known)} sets of traced requests, gains "
        f"{min(over_five) * 100:+.0f} to {max(over_five) * 100:+.0f} % over a fixed 5 and "
        f"{promised * 100:g} % or more in {reached}; over the best single length "
        f"{min(over_best) * 100:+.1f} to {max(over_best) * 100:+.1f} %, a gain in "
        f"{better or 'none'}: where 5 is too long, a shorter fixed length does as much. {other}"
    ).rstrip()
    said = reproduced if reached > len(known) / 2 else contradicted
    return said(reason, source=_REPLAYS)


def _adaptive_of_vllm(runs: Sequence[PublishedRun]) -> str:
    """Say what an adaptive length that exists was measured to gain over a fixed 5."""
    rows = [run for run in runs if run.source_key == "vllm_adaptive"]
    fixed = {run.load: run.speedup for run in rows if run.method == "fixed k=5"}
    gains = [
        run.speedup / fixed[run.load] - 1
        for run in rows
        if run.method == "adaptive" and run.load in fixed
    ]
    if not gains:
        return ""
    return (
        "vLLM's own adaptive verification, another mechanism, gained "
        f"{min(gains) * 100:.0f} to {max(gains) * 100:.0f} % over a fixed 5 at 1 to 256 "
        "requests at once, and nothing over the best fixed length above 64."
    )
