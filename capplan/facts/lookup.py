"""Find an id by what a person types, and offer the nearest when there is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher

from capplan.errors import UnknownIdError

_OFFERED = 4
_FEW = 24
"""Ids that are few enough to be named all."""
_LISTED = {
    **dict.fromkeys(("LLM", "LLM or head"), "`capplan facts models --all` lists them."),
    "target": "`capplan facts pairings` lists them.",
    "GPU": "`capplan facts gpus` lists them.",
    "API model": "Name it as its provider does, or state its price to capplan breakeven.",
}
"""What helps where no id is near."""
_ALIKE = 0.65
"""Likeness from which a name is worth offering; below it, unlike sizes and families appear."""


_FORMER_NAME = re.compile(r"\bmeta-(?=llama-3\.\d)")
"""Meta's LLMs from Llama 3.1 on were published with it and renamed; files still have it."""


def _short(name: str) -> str:
    """Return an id without its organisation, in lower case."""
    return name.rpartition("/")[2].lower()


def _begins(name: str, typed: str) -> bool:
    """Whether ``typed`` is the beginning of the id, ending where a word ends."""
    return any(text.startswith(f"{typed}-") for text in (name.lower(), _short(name)))


_RULES: tuple[Callable[[str, str], bool], ...] = (
    lambda name, typed: name.lower() == typed,
    lambda name, typed: _short(name) == typed,
    _begins,
)


def resolve(typed: str, known: Iterable[str], kind: str) -> str:
    """Return the one id that ``typed`` means.

    The full id wins, then the part after the organisation, then an unambiguous beginning
    (``llama-3.3-70b``, ``h200``); upper and lower case do not matter, nor does the name that
    Llama 3.1 was first published under.

    Parameters
    ----------
    typed
        What the caller gave.
    known
        All ids of the kind.
    kind
        What the message calls them, for example ``"GPU"``.

    Raises
    ------
    UnknownIdError
        If no id matches, or several do.
    """
    ids = list(dict.fromkeys(known))
    if typed in ids:
        return typed
    wanted = _FORMER_NAME.sub("", typed.strip().lower())
    for rule in _RULES:
        matches = [name for name in ids if rule(name, wanted)]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise UnknownIdError(
                f"{kind} {typed!r} is ambiguous: {len(matches)} ids match.",
                f"Did you mean {_listed(sorted(matches))}?",
            )
    raise UnknownIdError(f"No {kind} {typed!r} in the catalogue.", _instead(wanted, ids, kind))


def _instead(wanted: str, ids: list[str], kind: str) -> str:
    """Offer the nearest ids, else all of a short list, else the command that lists them."""
    nearest = _nearest(wanted, ids)
    if nearest:
        return f"Did you mean {_listed(nearest)}?"
    if len(ids) <= _FEW:
        return f"Known: {', '.join(sorted(ids))}."
    return _LISTED.get(kind, "`capplan facts --help` says what is listed where.")


def _nearest(wanted: str, ids: list[str]) -> list[str]:
    scores = {name: _likeness(wanted, name) for name in ids}
    close = [name for name, score in scores.items() if score >= _ALIKE]
    return sorted(close, key=lambda name: (-scores[name], name))[:_OFFERED]


def _likeness(wanted: str, name: str) -> float:
    """Return how alike they are, 0 to 1; sharing the beginning alone counts a little less."""
    short = _short(name)
    if not wanted:
        return 0.0
    whole = max(_ratio(wanted, short), _ratio(wanted, name.lower()))
    inside = 0.8 if wanted in short else 0.0
    return max(whole, inside, 0.9 * _ratio(wanted, short[: len(wanted)]))


def _ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _listed(names: list[str]) -> str:
    shown = names[:_OFFERED]
    more = f" ({len(names) - len(shown)} more)" if len(names) > len(shown) else ""
    return " or ".join(shown) + more
