"""Which columns of a trace hold the time and the tokens, by the names that traces use."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from capplan.errors import WorkloadError

ROLES = ("timestamp", "prompt", "output")

_NAMES: Mapping[str, tuple[str, ...]] = {
    "timestamp": (
        *("timestamp", "timestamp_s", "timestamp_ms", "timestamp_us", "timestamp_ns"),
        *("arrival", "arrival_s", "arrival_ms", "arrival_time", "arrival_time_s"),
        *("arrival_time_ms", "arrival_timestamp", "arrived_at", "request_time", "start_time"),
        *("started_at", "start_timestamp", "created_at", "created", "datetime", "time", "ts"),
    ),
    "prompt": (
        *("prompt_tokens", "context_tokens", "request_tokens", "input_tokens"),
        *("num_prompt_tokens", "num_input_tokens", "num_prefill_tokens", "prefill_tokens"),
        *("input_length", "prompt_length", "input_len", "prompt_len", "isl"),
        *("usage.prompt_tokens", "usage.input_tokens"),
    ),
    "output": (
        *("output_tokens", "generated_tokens", "response_tokens", "completion_tokens"),
        *("num_output_tokens", "num_generated_tokens", "num_decode_tokens", "decode_tokens"),
        *("output_length", "response_length", "output_len", "response_len", "osl"),
        *("usage.completion_tokens", "usage.output_tokens"),
    ),
}
"""Names by what they hold, the likeliest first; case, spaces and underscores do not count."""


@dataclass(frozen=True)
class Columns:
    """Where a trace keeps what is needed.

    Attributes
    ----------
    timestamp, prompt, output
        Places in the list of names.
    names
        The three names as they stand in the file.
    layout
        A public layout that was recognised, or ``columns by name``.
    total
        Place and name of the sum of prompt and output, where the layout has one.
    """

    timestamp: int
    prompt: int
    output: int
    names: tuple[str, str, str]
    layout: str
    total: tuple[int, str] | None = None

    @property
    def places(self) -> tuple[int, ...]:
        """The three places in order, and that of the total if there is one."""
        more = () if self.total is None else (self.total[0],)
        return (self.timestamp, self.prompt, self.output, *more)

    @property
    def read_names(self) -> tuple[str, ...]:
        """Names of all columns that are read, as :attr:`places`."""
        return (*self.names, *(() if self.total is None else (self.total[1],)))


def plain(name: str) -> str:
    """Return a name without case, spaces and underscores; the dot of nested fields stays."""
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def find_columns(
    names: Sequence[str], file: str, chosen: Mapping[str, str] | None = None
) -> Columns:
    """Find the three columns.

    Parameters
    ----------
    names
        Names of all columns, in their order.
    file
        For messages.
    chosen
        Names that the caller states, by role: ``{"prompt": "my column"}``.

    Raises
    ------
    WorkloadError
        If one is missing or stands there twice.
    """
    keys = [plain(name) for name in names]
    timestamp, prompt, output = (_place(role, keys, names, file, chosen or {}) for role in ROLES)
    layout = _layout(set(keys))
    return Columns(
        timestamp,
        prompt,
        output,
        (names[timestamp], names[prompt], names[output]),
        layout,
        # columns that the caller names need not be the parts of it
        None if chosen else _total(layout, keys, names),
    )


def _total(layout: str, keys: Sequence[str], names: Sequence[str]) -> tuple[int, str] | None:
    """Return the column that a layout keeps the sum of both lengths in."""
    key = _TOTALS.get(layout)
    if key is None or keys.count(key) != 1:
        return None
    return keys.index(key), names[keys.index(key)]


def _place(
    role: str, keys: Sequence[str], names: Sequence[str], file: str, chosen: Mapping[str, str]
) -> int:
    wanted = [plain(chosen[role])] if role in chosen else [plain(name) for name in _NAMES[role]]
    for name in wanted:
        if keys.count(name) > 1:
            raise WorkloadError(
                f"{file}: the column {names[keys.index(name)]!r} stands there twice.",
                f"Rename one, or name the right one: --column {role}=NAME.",
            )
        if name in keys:
            return keys.index(name)
    listed = ", ".join(repr(name) for name in names[:12]) or "none"
    known = chosen.get(role) or ", ".join(_NAMES[role][:4])
    raise WorkloadError(
        f"{file}: no column for the {role}{'' if role == 'timestamp' else ' tokens'}; the columns "
        f"are {listed}, expected one like {known}.",
        f"Name it: --column {role}=NAME.",
    )


_LAYOUTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("Azure LLM inference", frozenset({"timestamp", "contexttokens", "generatedtokens"})),
    (
        "BurstGPT",
        frozenset({"timestamp", "model", "requesttokens", "responsetokens", "logtype"}),
    ),
    ("Mooncake", frozenset({"timestamp", "inputlength", "outputlength", "hashids"})),
)
_TOTALS = {"BurstGPT": "totaltokens"}


def _layout(keys: set[str]) -> str:
    return next((name for name, needs in _LAYOUTS if needs <= keys), "columns by name")
