"""Words of a name to boards of the catalogue: every word must fit, or nothing is found."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from capplan.facts.gpu_names.outcome import nearest
from capplan.facts.gpu_names.words import BRANDS, VENDORS, Words, tokens
from capplan.schema.gpu import GpuSpec
from capplan.units import BYTES_PER_GB, BYTES_PER_GIB, BYTES_PER_MIB

MEMORY_TOLERANCE = 0.07
"""Reported and nominal sizes differ by up to 7 %: reserved memory, ECC, powers of 2 or 10."""

_MIB_PER_CARELESS_GB = 1000.0
_OFFERED_BOARDS = 6
_SIZE = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True)
class Boards:
    """The catalogue's GPUs, findable by what drivers and people call them."""

    gpus: tuple[GpuSpec, ...]

    @cached_property
    def by_id(self) -> dict[str, GpuSpec]:
        """Every GPU by its id."""
        return {gpu.id: gpu for gpu in self.gpus}

    @cached_property
    def _by_id_words(self) -> dict[tuple[str, ...], GpuSpec]:
        return {tokens(gpu.id): gpu for gpu in self.gpus}

    @cached_property
    def _by_device_name(self) -> dict[tuple[str, ...], GpuSpec]:
        return {_bare(name): gpu for gpu in self.gpus for name in gpu.device_names}

    @cached_property
    def _by_chip(self) -> dict[tuple[str, ...], tuple[GpuSpec, ...]]:
        found: defaultdict[tuple[str, ...], dict[str, GpuSpec]] = defaultdict(dict)
        for gpu in self.gpus:
            for name in gpu.chip_names:
                found[_without_brand(name)][gpu.id] = gpu
        return {chip: tuple(boards.values()) for chip, boards in found.items()}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._by_chip), default=0)

    @cached_property
    def _brands(self) -> dict[str, frozenset[str]]:
        return {
            gpu.id: BRANDS.intersection(
                word
                for name in (gpu.name, *gpu.chip_names, *gpu.device_names)
                for word in tokens(name)
            )
            for gpu in self.gpus
        }

    def with_id(self, name: str) -> GpuSpec | None:
        """Return the GPU of this id, whatever separates its words."""
        return self._by_id_words.get(tokens(name))

    def with_device_name(self, name: str) -> GpuSpec | None:
        """Return the board that a driver calls exactly so; the vendor's name may be missing."""
        found = self._by_device_name.get(_bare(name))
        return found if found is not None and self._admits(found, tokens(name)) else None

    def _admits(self, gpu: GpuSpec, words: Iterable[str]) -> bool:
        vendors, brands = VENDORS.intersection(words), BRANDS.intersection(words)
        return vendors <= {gpu.vendor} and brands <= self._brands[gpu.id]

    def with_chip(self, words: Words) -> tuple[tuple[GpuSpec, ...], tuple[int, ...]]:
        """Return all boards with this chip, and the sizes stated.

        A bare number beside the chip is a size (``A100-40``).
        """
        found = self._by_chip.get(words.chip, ())
        sizes = words.memory_gb
        if not found and words.chip and _SIZE.fullmatch(words.chip[-1]):
            found = self._by_chip.get(words.chip[:-1], ())
            sizes = (*sizes, int(words.chip[-1])) if found else sizes
        named = words.vendors | words.brands
        return tuple(gpu for gpu in found if self._admits(gpu, named)), sizes

    def beginning_with(self, words: Sequence[str]) -> tuple[GpuSpec, ...]:
        """Return the boards whose device names begin so."""
        stem = " ".join(word for word in words if word not in VENDORS)
        names = self._by_device_name.items() if stem else ()
        found = {gpu.id: gpu for name, gpu in names if " ".join(name).startswith(stem)}
        return tuple(found.values())

    def like(self, chip: Sequence[str]) -> tuple[str, ...]:
        """Return ids of the boards whose chips have the names most alike."""
        names = {" ".join(known): boards for known, boards in self._by_chip.items()}
        alike = nearest(" ".join(chip), names)
        ids = dict.fromkeys(gpu.id for name in alike for gpu in names[name])
        return tuple(ids)[:_OFFERED_BOARDS]

    def relatives(self, chip: Sequence[str]) -> tuple[tuple[GpuSpec, ...], tuple[str, ...]]:
        """Return the boards that some of the words name, and the words that no board has."""
        for length in range(min(len(chip), self._longest), 0, -1):
            for start in range(len(chip) - length + 1):
                found = self._by_chip.get(tuple(chip[start : start + length]), ())
                if found:
                    return found, (*chip[:start], *chip[start + length :])
        return (), tuple(chip)


def plain_board(boards: Sequence[GpuSpec], chip: tuple[str, ...]) -> GpuSpec | None:
    """Return the board that its driver calls by the chip's name alone, if one of these is.

    ``NVIDIA H200`` is the SXM module, the other board is always called ``H200 NVL``; no board is
    called ``NVIDIA H100``.
    """
    plain = [gpu for gpu in boards if chip in {_bare(name) for name in gpu.device_names}]
    return plain[0] if len(plain) == 1 else None


def _bare(name: str) -> tuple[str, ...]:
    """Return the words of a device name without the vendor's."""
    return tuple(word for word in tokens(name) if word not in VENDORS)


def _without_brand(name: str) -> tuple[str, ...]:
    return tuple(word for word in tokens(name) if word not in BRANDS)


def fits_size(gpu: GpuSpec, size_gb: int) -> bool:
    """Whether a size in a name is this board's: the nominal one, or the reported one rounded.

    Names carry data-sheet gigabytes, or what a driver reports in GiB, GB or thousands of MiB.
    """
    if size_gb == gpu.memory_gb_nominal:
        return True
    if not gpu.memory_is_reported:
        return False
    gib, gb = gpu.memory_bytes / BYTES_PER_GIB, gpu.memory_bytes / BYTES_PER_GB
    careless = gpu.memory_bytes / BYTES_PER_MIB / _MIB_PER_CARELESS_GB
    return abs(size_gb - gib) < 1 or size_gb in (round(gb), int(careless))


def fits_reported(gpu: GpuSpec, memory_mib: float) -> bool:
    """Whether the memory that a device reports is within 7 % of a known size of this board."""
    nominal = gpu.memory_gb_nominal
    known = (gpu.memory_bytes, nominal * BYTES_PER_GB, nominal * BYTES_PER_GIB)
    reported = memory_mib * BYTES_PER_MIB
    return any(abs(reported / size - 1) <= MEMORY_TOLERANCE for size in known)


def fits_form(gpu: GpuSpec, form: str) -> bool:
    """Whether a form factor in a name is this board's: ``sxm`` is any SXM, ``sxm5`` only that."""
    own = gpu.form_factor.lower()
    return own == form or (form == "sxm" and own.startswith("sxm"))


def fits_memory_type(gpu: GpuSpec, memory_type: str) -> bool:
    """Whether a memory type in a name is this board's; ``hbm3`` is also said of HBM3e."""
    return not gpu.memory_type or gpu.memory_type.lower().startswith(memory_type)
