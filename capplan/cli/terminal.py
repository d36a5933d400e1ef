r"""The one way out to a terminal: what comes from outside is shown, never obeyed.

A name in a file, a server's error or a metrics label may hold characters that move the cursor,
set the window's title, ring, hide or turn text round. :func:`guarded` puts a stream before
standard output and standard error that spells such characters out, whoever prints: commands,
click's own messages, warnings, libraries. They are written as JSON writes them (``\u001b``), so
that JSON stays JSON with the same value.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_RANGES = (
    *("\x00-\x08", "\x0b-\x1f", "\x7f-\x9f"),  # controls but tab and line feed
    *("\xad", "\u061c", "\u180e", "\u200b-\u200f", "\u2028-\u202e", "\u2060-\u206f"),
    *("\ufeff", "\ufff9-\ufffb"),  # unseen, or they turn the direction of writing
    *("\u034f", "\u115f\u1160", "\u17b4\u17b5", "\u180b-\u180f", "\u3164", "\uffa0"),  # no ink
    "\ud800-\udfff",  # halves of pairs: bytes of a file name that are no UTF-8
    *("\U0001bca0-\U0001bca3", "\U0001d173-\U0001d17a", "\U000e0000-\U000e0fff"),
)
_UNSHOWN = re.compile(f"[{''.join(_RANGES)}]")
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"
_INDENT = "\n  "


def visible(text: str) -> str:
    r"""Return a text with every character spelled out that drives a terminal or cannot be seen.

    >>> visible("a\x1b[2Jb")
    'a\\u001b[2Jb'
    """
    return _UNSHOWN.sub(lambda found: _spelled(found[0]), text)


def _spelled(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


class GuardedStream:
    """A text stream that shows what drives a terminal instead of passing it on.

    It has no ``buffer``: nothing gets by it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding
        self.errors = stream.errors

    def write(self, text: str | bytes) -> int:
        """Write a text, made visible; click hands shell completion over as bytes."""
        if isinstance(text, bytes):
            text = text.decode(errors="surrogateescape")
        self._stream.write(_encodable(visible(text), self.encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    def write_exact(self, text: str) -> None:
        """Write what is no text for people: a page that is redirected into a file."""
        self._stream.write(_encodable(text, self.encoding))

    def write_line(self, text: str, *, red: bool = False) -> None:
        """Write a line, in red where colours are shown.

        Further lines of it are indented, so that no file name can begin a line of its own.
        """
        shown = visible(text).replace("\n", _INDENT)
        coloured = f"{_RED}{shown}{_PLAIN}" if red and self.isatty() else shown
        self._stream.write(_encodable(f"{coloured}\n", self.encoding))

    def flush(self) -> None:
        """Flush the stream behind."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Whether a terminal is behind."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream behind."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """Whether it can be written to: always."""
        return True

    def readable(self) -> bool:
        """Whether it can be read from: never."""
        return False

    def seekable(self) -> bool:
        """Whether it can be wound back: never."""
        return False

    @property
    def closed(self) -> bool:
        """Whether the stream behind is closed."""
        return self._stream.closed

    @property
    def exact(self) -> TextIO:
        """The stream behind."""
        return self._stream


@contextmanager
def guarded() -> Iterator[None]:
    """Guard standard output and standard error."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = GuardedStream(out), GuardedStream(err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


def say_error(message: str, remedy: str = "") -> None:
    """Print an error and how to mend it to standard error."""
    stream = _guarded(sys.stderr)
    stream.write_line(message, red=True)
    if remedy:
        stream.write_line(remedy)


def write_exact(text: str) -> None:
    """Write to standard output without a change: a page, megabytes of somebody else's script."""
    _guarded(sys.stdout).write_exact(text)


def console(*, stderr: bool = False) -> Console:
    """Return a console of rich: its own sequences pass, so give it texts through ``Shown``."""
    from rich.console import Console

    return Console(file=_guarded(sys.stderr if stderr else sys.stdout).exact)


class Shown:
    """A renderable of rich whose texts are made visible."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Any, options: Any) -> Any:
        """Render, and spell out what is not rich's own."""
        from rich.segment import Segment

        for segment in console.render(self._renderable, options):
            yield Segment(visible(segment.text), segment.style, segment.control)


def _guarded(stream: TextIO) -> GuardedStream:
    return stream if isinstance(stream, GuardedStream) else GuardedStream(stream)


def _encodable(text: str, encoding: str | None) -> str:
    """Spell out what the terminal's encoding does not have: an answer is better than none."""
    name = encoding or "utf-8"
    if name.lower() in ("utf-8", "utf8"):
        return text
    return text.encode(name, "backslashreplace").decode(name)
