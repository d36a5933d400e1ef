"""A page a command of the command line, from its help."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from capplan.cli.main import cli
from reference_docs.markdown import cell, code_cell, escaped

_WIDTH = 99
_EXIT_CODES = """
Exit codes of every command: 0 an answer, 1 an error with its remedy, 2 misuse, 3 the answer is no
(no plan fits, the memory is too small, the pair does not work), 130 Ctrl-C. [Errors](../errors.md)
"""


def cli_pages() -> dict[str, str]:
    """Return the pages of ``docs/reference/cli``."""
    root = click.Context(cli, info_name="capplan", terminal_width=_WIDTH)
    names = cli.list_commands(root)
    pages = {"cli/README.md": _overview(root, names)}
    for name in names:
        command = cli.get_command(root, name)
        assert command is not None
        pages[f"cli/{name}.md"] = "\n".join(_of_command(command, root, name, "#"))
    return pages


def _overview(root: click.Context, names: list[str]) -> str:
    rows = []
    for name in names:
        command = cli.get_command(root, name)
        assert command is not None
        rows.append(f"| [`{name}`]({name}.md) | {cell(command.get_short_help_str(_WIDTH * 2))} |")
    return "\n".join(
        [
            "# Command line",
            "",
            escaped((cli.help or "").strip()),
            "",
            "| command | what it does |",
            "|---|---|",
            *rows,
            _EXIT_CODES,
        ]
    )


def _of_command(
    command: click.Command, parent: click.Context, name: str, level: str
) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=name, terminal_width=_WIDTH)
    yield from (f"{level} {context.command_path}", "", *_help(command))
    if not isinstance(command, click.Group):
        usage = " ".join(command.collect_usage_pieces(context))
        yield from (f"Usage: `{context.command_path} {usage}`", "")
    yield from _options(command, context)
    yield from _examples(command)
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from _of_command(found, context, sub, f"{level}#")


def _help(command: click.Command) -> Iterator[str]:
    """Yield the text of the help, its paragraphs as they are."""
    for paragraph in re.split(r"\n\s*\n", (command.help or "").strip()):
        yield from (escaped(" ".join(paragraph.replace("\b", "").split())), "")


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [
        record
        for param in command.get_params(context)
        if (record := param.get_help_record(context)) is not None and "--help" not in record[0]
    ]
    if not records:
        return
    yield from ("| option | meaning |", "|---|---|")
    for names, text in records:
        yield f"| {code_cell(names.replace(' RANGE', ''))} | {cell(text)} |"
    yield ""


def _examples(command: click.Command) -> Iterator[str]:
    epilog = (command.epilog or "").replace("\b", "").strip()
    if not epilog:
        return
    head, *lines = epilog.splitlines()
    yield from (
        head.strip(),
        "",
        *(f"    {line.removeprefix('  ')}".rstrip() for line in lines),
        "",
    )
