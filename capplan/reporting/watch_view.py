"""One poll of a live server, as a table on a terminal and as a line elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from capplan.schema.watching import ServedFigures, WatchPoll
from capplan.units import MS_PER_S

if TYPE_CHECKING:
    from rich.console import RenderableType

_UNKNOWN = "-"


def as_line(poll: WatchPoll) -> str:
    """Return a poll as plain lines: figures, then alarms and advice one a line.

    A server's words cannot begin a line of their own.
    """
    return "\n".join(line.replace("\n", " ") for line in _lines(poll))


def _lines(poll: WatchPoll) -> Iterator[str]:
    clock = poll.at[11:19]
    message = f" {poll.message}" if poll.message else ""
    if not poll.figures:
        yield f"{clock} {poll.state}{message}"
    for figures in poll.figures:
        model = f" {figures.model}" if len(poll.figures) > 1 else ""
        shown = "  ".join(f"{name} {value}" for name, value in cells(figures) if value != _UNKNOWN)
        yield f"{clock} {poll.state}{model}  {shown}{message}"
    for notice in poll.notices:
        yield f"{clock} {notice.level.upper()} {notice.text} {notice.remedy} [{notice.source}]"


def cells(figures: ServedFigures) -> list[tuple[str, str]]:
    """Return (name, value) of what is shown of one model, in reading order."""
    expected = figures.expected
    return [
        ("acceptance", _acceptance(figures)),
        ("tokens/round", _number(figures.tokens_per_round, ".2f")),
        ("drafted rounds", _share(figures.draft_share)),
        ("step", _ms(figures.step_s)),
        ("time/token", _ms(figures.time_per_token_s)),
        ("first token", _ms(figures.ttft_s)),
        ("speedup", _number(figures.actual_speedup, ".2f", "x")),
        ("predicted", _number(expected.speedup if expected else None, ".2f", "x")),
        ("break-even", _number(expected.round_ratio if expected else None, ".2f")),
        ("tokens/s", _number(figures.output_tokens_per_s, ".4g")),
        ("running", _number(figures.running, "g")),
        ("waiting", _number(figures.waiting, "g")),
        ("KV", _share(figures.kv_usage)),
        ("prefix hits", _share(figures.prefix_hit_rate)),
        ("preemptions", _number(figures.preemptions or None, "g")),
    ]


def as_table(poll: WatchPoll) -> RenderableType:
    """Return a poll for a terminal."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[RenderableType] = [Text(f"{poll.url}  {poll.at[11:19]} UTC  {poll.state}", "bold")]
    if poll.message:
        parts.append(Text(poll.message, "yellow"))
    for figures in poll.figures:
        table = Table(box=None, show_header=False, padding=(0, 2))
        shown = [(name, value) for name, value in cells(figures) if value != _UNKNOWN]
        for left, right in zip(shown[::2], [*shown[1::2], ("", "")], strict=False):
            table.add_row(left[0], Text(left[1], "bold"), right[0], Text(right[1], "bold"))
        title = f"{figures.model or figures.software}, last {figures.window_s:.0f} s"
        parts += [Text(title, "cyan"), table]
    for notice in poll.notices:
        style = "bold red" if notice.level == "alarm" else "green"
        parts.append(Text(f"{notice.level}: {notice.text}", style))
        parts.append(Text(f"  {notice.remedy} [{notice.source}]"))
    return Group(*parts)


def _acceptance(figures: ServedFigures) -> str:
    if figures.acceptance_rate is None:
        return _UNKNOWN
    at = f" (N={figures.num_speculative_tokens})" if figures.num_speculative_tokens else ""
    return f"{figures.acceptance_rate:.1%}{at}"


def _number(value: float | None, spec: str, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value:{spec}}{unit}"


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0%}"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds * MS_PER_S:.3g} ms"
