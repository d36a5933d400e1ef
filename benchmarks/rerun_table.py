"""The tables of ``trace_vs_rerun.py``, as they stand in the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rerun_judged import LEAST_RATIO


def as_text(result: dict[str, Any]) -> str:
    """Return the tables of one draft, as they stand in the documentation."""
    title = f"**{result['draft']}**, {result['requests']} requests, tokens a round (95 %):"
    return (
        "\n\n".join([title, _rounds_table(result), _cost_table(result), _verdict(result)]) + "\n"
    )


def _rounds_table(result: dict[str, Any]) -> str:
    of_n: dict[int, list[str]] = {}
    for row in result["rows"]:
        sides = (row["trace"], row["rerun"])
        cells = [f"{one['mid']:.2f} ({one['low']:.2f}-{one['high']:.2f})" for one in sides]
        of_n.setdefault(row["num_speculative_tokens"], []).extend([*cells, _off(row)])
    columns = (f"{what}, T={t}" for t in result["cost"] for what in ("trace", "rerun", "off"))
    return _table(["N", *columns], [[str(n), *cells] for n, cells in of_n.items()])


def _off(row: dict[str, Any]) -> str:
    """Return the difference; one star outside its own interval, two outside the simultaneous."""
    if row["identical"]:
        return "identical"
    stars = "*" * (2 - row["within_own_interval"] - row["within_simultaneous_interval"])
    return f"{row['difference']:+.1%}{stars}"


def _cost_table(result: dict[str, Any]) -> str:
    units = ("CPU s", "target passes", "draft passes")
    ratios = ("cpu_ratio", "target_pass_ratio", "target_token_ratio")
    head = ["T", *(f"{who}: {unit}" for who in ("trace", "reruns") for unit in units)]
    head += [f"times less: {what}" for what in ("CPU", "target passes", "target tokens")]
    lines = []
    for key, cost in [*result["cost"].items(), ("all", result["total_cost"])]:
        lines.append([key])
        for spent in (cost["trace"], cost["rerun"]):
            passes = [str(spent[f"{role}_passes"]) for role in ("target", "draft")]
            lines[-1] += [f"{spent['cpu_s']:.1f}", *passes]
        lines[-1] += [f"{cost[ratio]:.1f}" for ratio in ratios]
    return _table(head, lines)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _verdict(result: dict[str, Any]) -> str:
    means = (
        f"T={key} {mean['mid']:+.2%} ({mean['low']:+.2%} to {mean['high']:+.2%})"
        for key, mean in result["mean_difference"].items()
    )
    verdict = "agree" if result["agree"] else "DISAGREE"
    cheap = "at least" if result["cheap_enough"] else "LESS THAN"
    return (
        f"Trace less rerun, mean over N: {'; '.join(means)}.\n"
        f"{result['identical']} of {len(result['rows'])} comparisons are identical. Of the others "
        f"{result['misses_observed']} lie outside their own 95 % interval (*), "
        f"{result['misses_expected']:.1f} would by chance. All at once: largest score "
        f"{result['largest_score']:.2f}, limit {result['simultaneous_limit']:.2f}.\n"
        f"Verdict: trace and reruns {verdict}; {cheap} {LEAST_RATIO:g}x less CPU time."
    )
