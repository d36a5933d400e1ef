"""Every check of an imported figure, in order. A figure is flagged, never mended in silence.

The one thing that is changed is a unit, where Little's law leaves a single one; that is said.
"""

from __future__ import annotations

import math

from capplan.profiles.importers.bounds import bound_flags
from capplan.profiles.importers.definitions import step_of
from capplan.profiles.importers.identities import ALL_USES, identities, in_flight
from capplan.profiles.importers.load_checks import load_flags
from capplan.profiles.importers.reading import Known, Reading
from capplan.profiles.importers.speculation_checks import (
    completed_counts,
    speculation_flags,
    with_known_length,
)
from capplan.profiles.importers.units import in_found_unit
from capplan.schema.observation import Flag, Observation

_NAMED = 5


def checked(reading: Reading, damaged: str = "", known: Known | None = None) -> Observation:
    """Return the observation with its derived values and everything that is wrong with it.

    Parameters
    ----------
    reading
        What an importer found.
    damaged
        What of the file could not be parsed.
    known
        What the user states beside the file.
    """
    told = known or Known()
    reading = _with_known(with_known_length(reading, told.num_speculative_tokens), told)
    reading, unit = in_found_unit(reading)
    observation, counted = completed_counts(reading)
    reading = Reading(observation, reading.stated)
    step, defined = step_of(reading)
    failed = (one.flag() for one in identities(reading) if not one.holds)
    flags = (
        *_file_flags(reading, damaged),
        *reading.stated.flags,
        *unit,
        *failed,
        *bound_flags(reading),
        *defined,
        *counted,
        *speculation_flags(reading),
        *load_flags(reading),
        *observation.flags,
    )
    return observation.model_copy(
        update={
            "step_s": step,
            "load": _with_concurrency(reading),
            "flags": tuple(dict.fromkeys(flags)),
        }
    )


def _with_known(reading: Reading, known: Known) -> Reading:
    o = reading.observation
    stated = {
        "model": known.model,
        "draft": known.draft,
        "method": known.method,
        "gpu": known.gpu,
        "gpu_count": known.gpu_count,
    }
    update: dict[str, object] = {name: value for name, value in stated.items() if value}
    if known.temperature is not None:
        update["load"] = o.load.model_copy(update={"temperature": known.temperature})
    return Reading(o.model_copy(update=update), reading.stated)


def _with_concurrency(reading: Reading) -> object:
    load, little = reading.observation.load, in_flight(reading)
    if load.mean_concurrency is not None or little is None or not math.isfinite(little):
        return load
    return load.model_copy(update={"mean_concurrency": little})


def _file_flags(reading: Reading, damaged: str) -> list[Flag]:
    flags = []
    if damaged:
        flags.append(
            Flag(
                check="truncated",
                text=f"the file {damaged}; what stands before it was read",
                remedy="Copy the file again.",
            )
        )
    odd = reading.stated.odd
    if odd:
        more = f" and {len(odd) - _NAMED} more" if len(odd) > _NAMED else ""
        flags.append(
            Flag(
                check="odd_values",
                text=f"no number of 0 or more: {', '.join(odd[:_NAMED])}{more}",
                remedy="The file was edited or damaged; take it again from the tool.",
                unusable_for=ALL_USES,
            )
        )
    return flags
