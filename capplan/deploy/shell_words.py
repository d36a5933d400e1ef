"""Cut a shell command into words without running or changing any of it.

``shlex`` gives the value of a word and forgets how it was written; a command that is given back
must keep its quotes, variables and command substitutions as they were. So a word here has both:
the text as written, and its value where that does not depend on the shell.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from capplan.errors import RequestError

_OPERATORS = ("&&", "||", ";;", ">>", "<<", ">&", "<&", "&>", "|&", ";", "|", "&", ">", "<")
_EXPANDED = "*?[~"
"""What the shell may replace outside quotes."""
_ESCAPED_IN_QUOTES = '$`"\\\n'


class Kind(Enum):
    """What a piece of a command is."""

    WORD = "word"
    OPERATOR = "operator"
    """``&&``, ``>``, a pipe ..., with the digit of a redirection."""
    NEWLINE = "newline"
    """The end of a line that is not continued."""
    COMMENT = "comment"


@dataclass(frozen=True)
class Piece:
    """A piece of a command."""

    raw: str
    """As it was written."""
    kind: Kind = Kind.WORD
    value: str | None = None
    """What a word means; None where only the shell knows: variables, substitutions, patterns."""
    at: int = 0
    """Where it begins in the text."""

    @property
    def end(self) -> int:
        """Return where it ends."""
        return self.at + len(self.raw)


def cut(text: str) -> list[Piece]:
    """Return the pieces of a POSIX shell command in their order.

    Raises
    ------
    RequestError
        If a quote or a substitution is not closed.
    """
    return _Cutter(text).pieces()


class _Cutter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def pieces(self) -> list[Piece]:
        found: list[Piece] = []
        while self._skip_blanks():
            found.append(self._piece())
        return found

    def _skip_blanks(self) -> bool:
        """Move to the next piece; False at the end."""
        while self.at < len(self.text):
            if self.text[self.at] in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            else:
                return True
        return False

    def _piece(self) -> Piece:
        start = self.at
        if self.text[start] == "\n":
            self.at += 1
            return Piece("\n", Kind.NEWLINE, at=start)
        if self.text[start] == "#":
            end = self.text.find("\n", start)
            self.at = len(self.text) if end < 0 else end
            return Piece(self.text[start : self.at], Kind.COMMENT, at=start)
        operator = self._operator()
        return Piece(operator, Kind.OPERATOR, at=start) if operator else self._word()

    def _operator(self) -> str:
        """Take an operator, with the number of a redirection before it."""
        at = self.at
        while self.text[at : at + 1].isdigit():
            at += 1
        numbered = at > self.at
        for operator in _OPERATORS:
            if self.text.startswith(operator, at) and (not numbered or operator[0] in "<>"):
                taken = self.text[self.at : at + len(operator)]
                self.at = at + len(operator)
                return taken
        return ""

    def _word(self) -> Piece:
        start, value, static = self.at, "", True
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;|&<>":
            part = self._part()
            static = static and part is not None
            value += part or ""
        return Piece(self.text[start : self.at], Kind.WORD, value if static else None, start)

    def _part(self) -> str | None:
        """Take a part of a word; None where its value is the shell's."""
        char = self.text[self.at]
        if char == "'":
            return self._single_quoted()
        if char == '"':
            return self._double_quoted()
        if char == "\\":
            self.at += 2
            escaped = self.text[self.at - 1 : self.at]
            return "" if escaped == "\n" else escaped
        if char in "$`":
            self._expansion()
            return None
        self.at += 1
        return None if char in _EXPANDED else char

    def _single_quoted(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise self._unclosed("'")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def _double_quoted(self) -> str | None:
        self.at += 1
        value, static = "", True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return value if static else None
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in _ESCAPED_IN_QUOTES:
                escaped = self.text[self.at + 1 : self.at + 2]
                value += "" if escaped == "\n" else escaped
                self.at += 2
            elif char in "$`":
                self._expansion()
                static = False
            else:
                value += char
                self.at += 1
        raise self._unclosed('"')

    def _expansion(self) -> None:
        """Step over a variable or a substitution, whatever it holds."""
        if self.text[self.at] == "`":
            self._to_closing("`")
            return
        opened = self.text[self.at + 1 : self.at + 2]
        if opened in ("(", "{"):
            self._to_balanced(opened, ")" if opened == "(" else "}")
            return
        self.at += 1
        while self.text[self.at : self.at + 1].isidentifier() or (
            self.text[self.at : self.at + 1].isdigit()
        ):
            self.at += 1

    def _to_closing(self, mark: str) -> None:
        end = self.text.find(mark, self.at + 1)
        if end < 0:
            raise self._unclosed(mark)
        self.at = end + 1

    def _to_balanced(self, opening: str, closing: str) -> None:
        depth = 0
        for at in range(self.at + 1, len(self.text)):
            depth += (self.text[at] == opening) - (self.text[at] == closing)
            if depth == 0:
                self.at = at + 1
                return
        raise self._unclosed("$" + opening)

    def _unclosed(self, mark: str) -> RequestError:
        return RequestError(
            f"The command has a {mark} that is never closed, from character {self.at + 1} on.",
            "Give it as a shell would take it, the whole in single quotes or from a file: "
            'capplan launch --migrate "$(cat start.sh)"',
        )
