"""Engine versions: which were checked, and what they call the ways to draft."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from capplan.errors import RequestError
from capplan.schema.pairing import Method

Minor = tuple[int, int]

CHECKED: dict[Minor, str] = {(0, 32): "0.32.0", (0, 33): "0.33.0"}
"""Versions whose parser and configuration were read, with the patch release that was."""

LAUNCH_ENGINE = "vllm==0.33"
"""What launch text is written for unless another version is named."""
LAUNCH_ENGINE_ON_CPU = "vllm==0.32"
"""The same for a CPU: the latest version whose CPU build was checked."""

_WRITTEN = re.compile(r"(?:vllm\s*(?:==)?\s*)?v?(\d+)\.(\d+)(?:\.(\d+))?", re.IGNORECASE)


@dataclass(frozen=True)
class EngineVersion:
    """A version of vLLM that text can be written for."""

    minor: Minor
    full: str
    """With its patch number, as images are tagged: ``0.33.0``."""

    @property
    def short(self) -> str:
        """Return ``0.33``."""
        return f"{self.minor[0]}.{self.minor[1]}"

    def __str__(self) -> str:
        return f"vLLM {self.short}"


@lru_cache(32)
def parse_version(engine: str) -> EngineVersion:
    """Read ``vllm==0.33``, ``vllm==0.33.0``, ``0.33`` or ``v0.33.0``.

    Raises
    ------
    RequestError
        For another engine, or a version that was never checked.
    """
    match = _WRITTEN.fullmatch(engine.strip())
    minor = (int(match[1]), int(match[2])) if match else None
    if match is None or minor not in CHECKED:
        known = ", ".join(f"vllm=={major}.{minor}" for major, minor in CHECKED)
        raise RequestError(
            f"capplan has no launch text for the engine version {engine!r}.",
            f"Versions it was checked against: {known}.",
        )
    full = f"{minor[0]}.{minor[1]}.{match[3]}" if match[3] else CHECKED[minor]
    return EngineVersion(minor, full)


def launch_engine(*, on_cpu: bool) -> str:
    """Return the engine that launch text is written for unless another one is named."""
    return LAUNCH_ENGINE_ON_CPU if on_cpu else LAUNCH_ENGINE


@dataclass(frozen=True)
class EngineMethod:
    """A way to draft as the engine has it."""

    name: str
    """Its value of ``method``."""
    until: Minor | None = None
    """First version without it."""
    needs_checkpoint: bool = True
    may_be_built_in: bool = False
    samples_drafts: bool = False
    """Whether it can draw its drafts from the draft's own distribution."""
    by_batch_on_v1: bool = True
    """Whether its length may follow the batch on the older model runner, the one on CPUs."""


METHODS: dict[Method, EngineMethod] = {
    Method.DRAFT_MODEL: EngineMethod("draft_model", samples_drafts=True),
    Method.NGRAM: EngineMethod("ngram", needs_checkpoint=False),
    Method.EAGLE: EngineMethod("eagle", samples_drafts=True),
    Method.EAGLE3: EngineMethod("eagle3", samples_drafts=True),
    Method.PEAGLE: EngineMethod("eagle3"),
    Method.MTP: EngineMethod("mtp", may_be_built_in=True, samples_drafts=True),
    Method.MEDUSA: EngineMethod("medusa", until=(0, 33), by_batch_on_v1=False),
    Method.DFLASH: EngineMethod("dflash"),
    Method.DSPARK: EngineMethod("dspark", by_batch_on_v1=False),
    Method.SUFFIX: EngineMethod("suffix", needs_checkpoint=False, by_batch_on_v1=False),
}

REMOVED_METHODS: dict[str, Minor] = {"medusa": (0, 33), "mlp_speculator": (0, 33)}
"""Values of ``method`` that a version dropped, with the first one without them."""

RUNS_ON_V1 = (Method.SUFFIX, Method.PEAGLE, Method.MEDUSA)
"""Methods for which the engine falls back to its older model runner on GPUs too."""


def runs(method: Method, version: EngineVersion) -> bool:
    """Whether a version has the method at all."""
    if method is Method.NONE:
        return True
    until = METHODS[method].until
    return until is None or version.minor < until
