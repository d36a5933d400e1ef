"""Options of ``capplan profile`` that are about a running server."""

from __future__ import annotations

from collections.abc import Callable

import click

_OPTIONS = (
    click.option("--server", metavar="URL", help="Profile the server at URL, with our load."),
    click.option(
        "--observe",
        type=click.FloatRange(0, 60 * 24 * 7, min_open=True),
        metavar="MINUTES",
        help="With --server: send nothing, only read its metrics for so long.",
    ),
    click.option(
        "--rate",
        "rates",
        type=click.FloatRange(0, 10_000, min_open=True),
        multiple=True,
        help="With --server: requests a second, sent whether or not earlier ones ended; "
        "repeatable. Default: three rates from one request's own time.",
    ),
    click.option(
        "--concurrency",
        "concurrencies",
        type=click.IntRange(1, 256),
        multiple=True,
        help="With --server: so many requests at a time; repeatable.",
    ),
    click.option("--max-requests", type=click.IntRange(1, 100_000), help="In all. Default 200."),
    click.option(
        "--max-seconds",
        type=click.FloatRange(0, 86_400, min_open=True),
        help="Of sending, in all. Default 300.",
    ),
    click.option("--served-model", help="Model to ask, where the server has several."),
    click.option("--gpu", help="With --server: GPU id it runs on (capplan facts gpus)."),
    click.option("--gpu-count", type=click.IntRange(1), default=1, help="With --gpu."),
    click.option("--thinking/--no-thinking", default=None, help="Ask for it, or for none."),
    click.option(
        "--interval",
        "interval_s",
        type=click.FloatRange(0.2),
        default=5.0,
        help="Seconds between two looks at the metrics.",
    ),
    click.option(
        "--no-check-text", is_flag=True, help="Do not check that the text is the target's own."
    ),
    click.option(
        "--api-key-env",
        default="CAPPLAN_API_KEY",
        show_default=True,
        metavar="NAME",
        help="Environment variable that holds the server's key.",
    ),
)


def with_server_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a live server."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
