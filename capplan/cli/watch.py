"""``capplan watch``: a live view of a server's speculation."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from capplan.cli.terminal import Shown, console

if TYPE_CHECKING:
    from capplan.schema.watching import WatchPoll

_EXAMPLES = """\b
Examples:
  capplan watch http://localhost:8000
  capplan watch http://localhost:8000 --profile profile.json
  capplan watch http://localhost:8000 --baseline last-week.json
  capplan watch http://localhost:8000 --json --interval 10
  capplan watch http://localhost:8000 --once
"""
_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command("watch", epilog=_EXAMPLES)
@click.argument("url")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.2, max=3600),
    default=5.0,
    show_default=True,
    help="Seconds between two polls.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a poll and line.")
@click.option("--once", is_flag=True, help="Show one window of --interval seconds and end.")
@click.option("--profile", type=_FILE, help="Profile that says what to expect.")
@click.option("--baseline", type=_FILE, help="Earlier profile: alarm where this server left it.")
@click.option("--plan", type=_FILE, help="Plan whose first option was deployed.")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="Of the traffic, for what --profile predicts; counters do not tell it.",
)
@click.option(
    "--api-key-env",
    default="CAPPLAN_API_KEY",
    show_default=True,
    metavar="NAME",
    help="Environment variable that holds the server's key.",
)
def command(
    url: str,
    interval_s: float,
    as_json: bool,
    once: bool,
    profile: Path | None,
    baseline: Path | None,
    plan: Path | None,
    temperature: float,
    api_key_env: str,
) -> None:
    """Show what a server's speculation does: acceptance, tokens a round, speedup, alarms.

    URL is the server's address; only its /metrics is read. Figures are of the last minute, as
    differences of counters; a restart is noticed and said. Ctrl-C ends.
    """
    from capplan.api.baseline import baseline_rule
    from capplan.api.expecting import expectation
    from capplan.api.watching import WINDOW_S, Watcher
    from capplan.profiles.server_http import get_metrics, parse_address

    if profile is not None and plan is not None:
        raise click.UsageError("--profile and --plan exclude each other.")
    key = os.environ.get(api_key_env)
    watcher = Watcher(
        parse_address(url),
        expectation(profile=profile, plan=plan, temperature=temperature),
        fetch=lambda address: get_metrics(address, api_key=key),
        window_s=max(WINDOW_S, interval_s),
        also=baseline_rule(baseline, temperature) if baseline is not None else None,
    )
    try:
        with _shown(as_json=as_json) as show:
            last = _run(watcher.poll, show, interval_s, once=once)
    except KeyboardInterrupt:
        return  # the way to end a view that has no end
    if once and last.state == "gone":
        sys.exit(1)


def _run(
    poll: Callable[[], WatchPoll],
    show: Callable[[WatchPoll], None],
    interval_s: float,
    *,
    once: bool,
) -> WatchPoll:
    """Poll until interrupted; with ``once`` until there is a window, or no server."""
    while True:
        began_s = time.monotonic()
        seen = poll()
        has_window = seen.state != "starting"
        if has_window or not once:
            show(seen)
        if once and has_window:
            return seen
        time.sleep(max(interval_s - (time.monotonic() - began_s), 0.0))


@contextmanager
def _shown(*, as_json: bool) -> Iterator[Callable[[WatchPoll], None]]:
    """Yield a function that shows a poll: a table that is redrawn, or lines elsewhere."""
    from capplan.reporting.watch_view import as_line, as_table

    if as_json:
        yield lambda poll: _line(poll.model_dump_json(exclude_none=True))
    elif not sys.stdout.isatty():
        yield lambda poll: _line(as_line(poll))
    else:
        from rich.live import Live

        with Live(auto_refresh=False, console=console()) as live:
            yield lambda poll: live.update(Shown(as_table(poll)), refresh=True)


def _line(text: str) -> None:
    # Flushed: whoever reads a pipe wants the poll now, not in four kilobytes.
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
