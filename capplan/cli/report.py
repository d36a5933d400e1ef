"""``capplan report``: a saved plan or profile as a page, or two of them compared."""

from __future__ import annotations

from pathlib import Path

import click

from capplan.cli.examples import examples
from capplan.cli.output import chosen_format, deliver, deliver_plan, output_options
from capplan.reporting.render import Format

_EXAMPLES = examples(
    "report plan.json",
    "report plan.json -o report.html",
    "report plan.json --profile h100.json -o report.html",
    "report plan.json --format csv -o options.csv",
    "report plan.json --format focus --month 2027-01 -o estimate.csv",
    "report profile.json -o profile.html",
    "report old-plan.json new-plan.json -o compare.html",
)
_FILE = click.Path(path_type=Path)
_MOST_FILES = 2


@click.command("report", epilog=_EXAMPLES)
@click.argument("files", metavar="FILE [OTHER]", type=_FILE, nargs=-1, required=True)
@click.option(
    "--month",
    metavar="YYYY-MM",
    help="Month of --format focus; the one after the plan was made by default.",
)
@click.option(
    "--profile",
    "profiles",
    type=_FILE,
    multiple=True,
    help="Profile that the plan was made with, so that its page can say what the bill hangs on; "
    "repeatable.",
)
@output_options
def command(
    files: tuple[Path, ...],
    fmt: Format | None,
    output: Path | None,
    month: str | None,
    profiles: tuple[Path, ...],
) -> int:
    """Render a saved plan or profile; compare two of a kind.

    A plan: as HTML, table, CSV, JSON or FOCUS-shaped rows. A profile, and a comparison of two
    plans or two profiles, the earlier first: as HTML, table or JSON.
    """
    from capplan.api.reports import Evidence, load_saved, render_compared, render_saved_profile
    from capplan.profiles.store import StoredProfile, load_profile

    chosen = chosen_format(fmt, output)
    if month is not None and chosen != "focus":
        raise click.UsageError("--month belongs to --format focus.")
    if len(files) > _MOST_FILES:
        raise click.UsageError(f"{len(files)} files were given, expected one, or two to compare.")
    saved = load_saved(files[0]) if len(files) == 1 else None
    if profiles and (chosen != "html" or saved is None or isinstance(saved, StoredProfile)):
        raise click.UsageError("--profile belongs to the page of one plan: -o report.html.")
    if saved is None:
        deliver(render_compared(files[0], files[1], chosen), output, exact=chosen == "html")
    elif isinstance(saved, StoredProfile):
        deliver(render_saved_profile(saved, chosen), output, exact=chosen == "html")
    else:
        evidence = Evidence([load_profile(path) for path in profiles])
        deliver_plan(saved, chosen, output, month=month, evidence=evidence)
    return 0
