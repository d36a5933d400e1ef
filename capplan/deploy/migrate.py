"""An old command for the server to one that a version of today takes, with a reason a change.

The command is only read. What is not changed stays as it was written: quotes, variables,
redirections, what stands before and after it.
"""

from __future__ import annotations

import shlex

from capplan.deploy.fields import canonical_json
from capplan.deploy.migrate_items import Dynamic, Item, as_speculative, read_items
from capplan.deploy.old_command import OldCommand, find_command
from capplan.deploy.old_flags import OLD_ENVIRONMENT, OLD_FLAGS
from capplan.deploy.old_speculation import Modern, Server, modernise
from capplan.deploy.versions import EngineVersion
from capplan.estimate.cuda_graphs import size_kept, size_to_state
from capplan.schema.base import Value

_WIDTH = 99
_BREAK = " \\\n  "


class Change(Value):
    """One thing that was changed, or kept although nobody knows it."""

    old: str
    """As it stood there; empty for what was added."""
    new: str
    """What stands there now; empty for what was left out."""
    reason: str


class Migration(Value):
    """A command for a version of today."""

    engine: str
    """Engine and version: ``vllm==0.33.0``."""
    command: str
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()
    """What to mind; nothing was changed for it."""


def migrate_command(command: str, version: EngineVersion) -> Migration:
    """Rewrite a command for a version of vLLM.

    Parameters
    ----------
    command
        ``vllm serve ...`` or ``python -m vllm.entrypoints.openai.api_server ...``, with whatever
        stands before and after it.
    version
        The version to run it on.

    Raises
    ------
    RequestError
        If it starts no server of vLLM, a quote is not closed, or its JSON cannot be read.
    """
    text = command.replace("\r\n", "\n").strip()
    found = find_command(text, version)
    items = read_items(found.arguments, version)
    rewriting = _Rewriting(version, found)
    lines = rewriting.lines(items)
    unchanged = all(change.old == change.new for change in rewriting.changes)
    return Migration(
        engine=f"vllm=={version.full}",
        command=text if unchanged and not found.mended else _laid_out(text, found, lines),
        changes=tuple(rewriting.changes),
        notes=tuple(dict.fromkeys((*found.notes, *rewriting.notes))),
    )


def _laid_out(text: str, found: OldCommand, lines: list[str]) -> str:
    lines = [*lines[:-1], " ".join((lines[-1], *found.redirections))]
    body = " ".join(lines)
    if len(body) > _WIDTH or "\n" in text:
        body = _BREAK.join(lines)
    return f"{text[: found.begin]}{body}{text[found.end :]}"


class _Rewriting:
    """Collects the lines of the new command and what was done on the way."""

    def __init__(self, version: EngineVersion, found: OldCommand) -> None:
        self.version = version
        self.found = found
        self.changes: list[Change] = [Change(old=o, new=n, reason=r) for o, n, r in found.changes]
        self.notes: list[str] = []
        for word in found.prefix:
            name = word.partition("=")[0]
            if name in OLD_ENVIRONMENT:
                self.notes.append(f"{name} {OLD_ENVIRONMENT[name]}; it is kept.")

    def lines(self, items: list[Item]) -> list[str]:
        model = next((item for item in items if item.flag in ("", "--model")), None)
        rest = [item for item in items if item is not model]
        speculative = [item for item in rest if item.speculative]
        plain = [line for item in rest if not item.speculative and (line := self._plain(item))]
        head = [*self.found.prefix, *self.found.program]
        if model is not None:
            head.append(self._model(model))
        return [" ".join(head), *plain, *self._speculation(speculative, rest)]

    def _model(self, item: Item) -> str:
        if not item.flag or not item.values:
            return item.raw
        target = item.values[0].raw
        reason = "the server takes the LLM first, without a flag"
        self._changed(item.raw, target, reason)
        return target

    def _plain(self, item: Item) -> str:
        """Return a line for a flag that has nothing to do with speculation; empty drops it."""
        old = OLD_FLAGS.get(item.flag)
        if old is not None:
            values = [piece.raw for piece in item.values]
            new = " ".join((old.flag, *values)) if old.flag else " ".join(old.words)
            self._changed(item.raw, new, old.reason)
            return new
        if not item.known:
            reason = f"no flag of {self.version}, nor an older one that is known; kept as it is"
            self._changed(item.raw, item.raw, reason)
        return self._graph_size(item)

    def _graph_size(self, item: Item) -> str:
        text = item.values[0].value if item.values else None
        named = item.flag == "--max-cudagraph-capture-size"
        if not named or text is None or not text.isdecimal() or size_kept(int(text)) == int(text):
            return item.raw
        new = f"{item.flag} {size_to_state(int(text))}"
        kept = size_kept(int(text))
        reason = f"the engine cuts {text} to {kept}, and fuller steps run without graphs"
        self._changed(item.raw, new, reason)
        return new

    def _speculation(self, items: list[Item], rest: list[Item]) -> list[str]:
        if not items:
            return []
        given, unread = as_speculative(items)
        if unread:
            self.notes.append(
                f"{unread.raw}: only the shell knows what it holds, so it was not checked."
            )
            return [item.raw for item in items]
        modern = modernise(given, self._server(rest))
        self.notes += modern.notes
        old = [item for item in items if item.flag in OLD_FLAGS]
        for item in old:
            key = OLD_FLAGS[item.flag].key
            kept = key in modern.config
            new = f'"{key}" of --speculative-config' if kept else ""
            self._changed(item.raw, new, OLD_FLAGS[item.flag].reason)
        if not old and not modern.changes:
            return [item.raw for item in items]
        self._speculative_changes(modern)
        return _speculative_lines(modern)

    def _speculative_changes(self, modern: Modern) -> None:
        for old, new, reason in modern.changes:
            self._changed(old, new, reason)

    def _server(self, rest: list[Item]) -> Server:
        parallel = _last(rest, ("--tensor-parallel-size", "-tp"))
        sequences = _last(rest, ("--max-num-seqs",))
        return Server(
            self.version,
            tensor_parallel=1 if parallel is None else parallel.number,
            max_num_seqs=sequences.number if sequences is not None else None,
        )

    def _changed(self, old: str, new: str, reason: str) -> None:
        self.changes.append(Change(old=old, new=new, reason=reason))


def _last(items: list[Item], names: tuple[str, ...]) -> Item | None:
    return next((item for item in reversed(items) if item.flag in names), None)


def _speculative_lines(modern: Modern) -> list[str]:
    """Return the configuration as JSON, or key by key where the shell fills something in."""
    if not modern.config:
        return []
    if not any(isinstance(value, Dynamic) for value in modern.config.values()):
        return [f"--speculative-config {quoted(canonical_json(modern.config))}"]
    lines = []
    for key, value in modern.config.items():
        if isinstance(value, Dynamic):
            word = str(value)
        else:
            word = quoted(value if isinstance(value, str) else canonical_json({"": value})[4:-1])
        lines.append(f"--speculative-config.{key} {word}")
    return lines


def quoted(text: str) -> str:
    """Return a text as one word of a shell."""
    return shlex.quote(text)
