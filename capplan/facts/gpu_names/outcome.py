"""What looking up a GPU name yields when it yields no GPU: a reason, and what to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import takewhile

from capplan.errors import UnknownIdError

_OFFERED = 4
_ALIKE = 0.6
"""Likeness from which a name is worth offering."""
_COMPARED = 80
"""Letters compared; no name is longer, and a pasted page would take minutes."""


class Reason(StrEnum):
    """Why a name means no one GPU."""

    AMBIGUOUS = "ambiguous"
    UNKNOWN = "unknown"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True)
class Unresolved:
    """A name that was not resolved: an answer with a reason, never a nearest guess."""

    reason: Reason
    message: str
    choices: tuple[str, ...] = ()
    """Ids that it may mean, all of them; for an unknown name those most alike."""
    instead: str = ""
    """What to do where no other name helps."""

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.instead:
            return self.instead
        if not self.choices:
            return "List known GPUs with: capplan facts gpus"
        return f"Did you mean {' or '.join(self.choices)}?"

    def error(self) -> UnknownIdError:
        """Return it as an error to raise."""
        return UnknownIdError(self.message, self.remedy)


def ambiguous(typed: str, ids: Iterable[str]) -> Unresolved:
    """Several boards answer to the name."""
    choices = tuple(sorted(ids))
    message = f"GPU {typed!r} is ambiguous: {len(choices)} ids match."
    return Unresolved(Reason.AMBIGUOUS, message, choices)


def incomplete(typed: str, ids: Iterable[str]) -> Unresolved:
    """Only the beginning of the name is there."""
    choices = tuple(sorted(ids))
    message = f"GPU {typed!r} is cut off: give the whole name, as nvidia-smi -L prints it."
    return Unresolved(Reason.AMBIGUOUS if choices else Reason.UNKNOWN, message, choices)


def unknown(typed: str, choices: Sequence[str], why: str = "") -> Unresolved:
    """Return that no board has this name."""
    message = f"No GPU {typed!r} in the catalogue{f': {why}' if why else ''}."
    return Unresolved(Reason.UNKNOWN, message, tuple(choices))


def processor(typed: str) -> Unresolved:
    """Return that the name is that of a CPU: it is measured, as no catalogue holds one."""
    return Unresolved(
        Reason.UNKNOWN,
        f"{typed!r} is a processor; the catalogue holds GPUs, and a CPU is planned with once it "
        "was measured.",
        instead="On it: capplan profile TARGET -o cpu.json. Then leave --gpu out: capplan "
        "recommend --target TARGET --profile cpu.json --gpu-price profile=USD",
    )


def contradiction(typed: str, why: str, choices: Iterable[str]) -> Unresolved:
    """Return that parts of the name, or the name and the device's memory, exclude each other."""
    message = f"GPU {typed!r} contradicts what is known: {why}."
    return Unresolved(Reason.CONTRADICTION, message, tuple(choices))


def nearest(typed: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the few names most alike."""
    wanted = typed.strip().lower()[:_COMPARED]
    scores = {name: _likeness(wanted, name.lower()) for name in names}
    close = [name for name, score in scores.items() if score >= _ALIKE]
    ranked = sorted(close, key=lambda name: (-scores[name], -_shared(wanted, name), name))
    return tuple(ranked[:_OFFERED])


def _shared(wanted: str, name: str) -> int:
    """Return how many letters the beginnings share: ``b100`` is nearer to b200 than to h100."""
    pairs = zip(wanted, name.lower(), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _likeness(one: str, other: str) -> float:
    """Return how alike they are, 0 to 1; the rest of a longer name counts a little less."""
    if not one:
        return 0.0
    whole = SequenceMatcher(None, one, other, autojunk=False).ratio()
    beginning = SequenceMatcher(None, one, other[: len(one)], autojunk=False).ratio()
    return max(whole, 0.9 * beginning)
