"""Any name of a GPU to its identity: device names, labels, instance types, slices."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from capplan.facts.gpu_names import answers
from capplan.facts.gpu_names.answers import Answer, described
from capplan.facts.gpu_names.boards import (
    Boards,
    fits_form,
    fits_memory_type,
    fits_reported,
    fits_size,
    plain_board,
)
from capplan.facts.gpu_names.machines import Machines
from capplan.facts.gpu_names.outcome import (
    Reason,
    Unresolved,
    ambiguous,
    contradiction,
    incomplete,
    processor,
    unknown,
)
from capplan.facts.gpu_names.slices import MigProfile, VgpuBoard, find_mig, find_vgpu
from capplan.facts.gpu_names.words import Words, cut_off, read_words, take_count, take_memory
from capplan.facts.instances import Instance, InstanceKind
from capplan.schema.gpu import GpuSlice, GpuSpec, SliceKind

_SHARED = re.compile(r"[\s_\-]shared$", re.IGNORECASE)
_LISTED = re.compile(
    r"^\s*gpu\s+\d+:\s*|^\s*\d{1,2},\s*|\s*(?:device\s+\d+:)?\s*\(uuid:[^)]*\)\s*$",
    re.IGNORECASE,
)
"""What ``nvidia-smi -L`` and ``--query-gpu=index,name`` print around a name."""
_LABEL = re.compile(
    r"(?P<key>[\w.\-]+/[\w.\-]+(?=\s*[=:])|[\w.\-]+(?=\s*=))\s*[=:]\s*(?P<value>[^=]+)"
)
_PROCESSOR = re.compile(
    r"(?<![a-z])(?:cpus?|processor|xeon|epyc|opteron|ryzen|threadripper|graviton\d?|neoverse"
    r"|core(?:\(tm\))? ?(?:i[3579]|ultra)|apple m\d)(?![a-z])",
    re.IGNORECASE,
)
"""What CPUs are called by people and by ``lscpu``."""
_PROVIDER_BY_LABEL = {"karpenter.k8s.aws": "aws", "eks.amazonaws.com": "aws"}
"""Labels whose short values (``h100``) are told apart by what that provider rents out."""
_AROUND = " \t\r\n\"'`"
_LONGEST_NAME = 200
_SHOWN = 40


@dataclass(frozen=True)
class GpuNames:
    """Everything that names a GPU; looking up is pure."""

    gpus: tuple[GpuSpec, ...]
    instances: tuple[Instance, ...] = ()
    mig: tuple[MigProfile, ...] = ()
    vgpu: tuple[VgpuBoard, ...] = ()

    def adding(self, rows: Iterable[Instance | MigProfile | VgpuBoard]) -> GpuNames:
        """Return these names and more."""
        more = tuple(rows)
        return replace(
            self,
            instances=(*self.instances, *(row for row in more if isinstance(row, Instance))),
            mig=(*self.mig, *(row for row in more if isinstance(row, MigProfile))),
            vgpu=(*self.vgpu, *(row for row in more if isinstance(row, VgpuBoard))),
        )

    @cached_property
    def _boards(self) -> Boards:
        return Boards(self.gpus)

    @cached_property
    def _machines(self) -> Machines:
        return Machines(self.instances)

    @cached_property
    def _vgpu_boards(self) -> dict[str, GpuSpec]:
        known = self._boards.by_id
        return {row.board: known[row.gpu] for row in self.vgpu if row.gpu in known}

    def look_up(self, name: str, memory_mib: float | None = None) -> Answer:
        """Return which GPU a name means, or why none.

        Parameters
        ----------
        name
            What a driver, PyTorch, a scheduler, a cloud or a person calls it.
        memory_mib
            Memory that the device itself reports: it decides between boards of one name, and
            it wins over the catalogue's size.
        """
        name = name.strip(_AROUND)
        if len(name) > _LONGEST_NAME:
            return unknown(f"{name[:_SHOWN]}...", (), "it is longer than any name")
        label = _LABEL.fullmatch(name)
        bare, reported = take_memory(label["value"].strip(_AROUND) if label else name)
        text = _LISTED.sub("", bare).strip()
        memory_mib = reported if memory_mib is None else memory_mib
        answer = self._look_up(text, memory_mib)
        if label and isinstance(answer, Unresolved) and answer.reason is Reason.AMBIGUOUS:
            provider = _PROVIDER_BY_LABEL.get(label["key"].partition("/")[0])
            return self._of_provider(text, provider, answer, memory_mib)
        return answer

    def instance(self, name: str) -> Instance | None:
        """Return the instance type or label of this name."""
        return self._machines.find(name)

    def _look_up(self, text: str, memory_mib: float | None) -> Answer:
        finders = (
            *(self._by_id, self._by_instance, self._by_mig, self._by_vgpu),
            *(self._by_shared, self._by_beginning),
        )
        for find in finders:
            answer = find(text, memory_mib)
            if answer is not None:
                return answer
        return self._by_words(text, memory_mib)

    def _of_provider(
        self, text: str, provider: str | None, found: Unresolved, memory_mib: float | None
    ) -> Answer:
        rented = {i.gpu for i in self.instances if i.provider == provider}
        left = [self._boards.by_id[gpu] for gpu in found.choices if gpu in rented]
        return answers.whole(text, left, memory_mib, 1, f"label of {provider}") if left else found

    def _by_id(self, text: str, memory_mib: float | None) -> Answer | None:
        count, rest = take_count(text)
        gpu = self._boards.with_id(rest)
        if gpu is None:
            return None
        return answers.whole(text, [gpu], memory_mib, count, "id in the catalogue")

    def _by_instance(self, text: str, memory_mib: float | None) -> Answer | None:
        found = self.instance(text)
        gpu = self._boards.by_id.get(found.gpu) if found is not None else None
        if found is None or gpu is None:
            return None
        kind = "label" if found.kind is InstanceKind.LABEL else "instance type"
        how = f"{kind} of {found.provider}"
        if found.slice_memory_gb is None:
            return answers.whole(text, [gpu], memory_mib, found.gpu_count, how)
        piece = GpuSlice(kind=SliceKind.VGPU, profile=found.slice)
        share = answers.Share.of_gib(found.slice_memory_gb, gpu)
        return answers.part(text, gpu, piece, share, memory_mib, how, found.gpu_count)

    def _by_mig(self, text: str, memory_mib: float | None) -> Answer | None:
        found = find_mig(text)
        if found is None:
            return None
        known = self._boards.by_id
        having = [r for r in self.mig if r.profile == found.profile and r.gpu in known]
        rows = having
        if found.rest:
            around = self._look_up(found.rest, None)
            if isinstance(around, Unresolved) and around.reason is not Reason.AMBIGUOUS:
                return around
            if not isinstance(around, Unresolved) and around.slice is not None:
                found = replace(found, shown=f"{found.shown} {around.slice.profile}")
            named = around.choices if isinstance(around, Unresolved) else (around.gpu,)
            rows = [row for row in having if row.gpu in named]
        if not rows:
            why = f"no MIG profile {found.profile} on that GPU"
            return contradiction(text, why, sorted(row.gpu for row in having))
        if len(rows) > 1:
            return ambiguous(text, (row.gpu for row in rows))
        return answers.mig(text, found, rows[0], known[rows[0].gpu], memory_mib)

    def _by_vgpu(self, text: str, memory_mib: float | None) -> Answer | None:
        found = find_vgpu(text)
        gpu = self._vgpu_boards.get(found.board) if found is not None else None
        if found is None or gpu is None:
            return None
        slices_of = max((r.compute_slices_of for r in self.mig if r.gpu == gpu.id), default=None)
        return answers.vgpu(text, found, gpu, slices_of, memory_mib)

    def _by_shared(self, text: str, memory_mib: float | None) -> Answer | None:
        if not _SHARED.search(text):
            return None
        around = self._look_up(_SHARED.sub("", text), memory_mib)
        if isinstance(around, Unresolved) or around.slice is not None:
            return around
        piece = GpuSlice(kind=SliceKind.SHARED, profile="time-shared")
        return around.model_copy(update={"slice": piece})

    def _by_beginning(self, text: str, memory_mib: float | None) -> Answer | None:
        words = cut_off(text)
        if words is None:
            return None
        boards = self._boards.beginning_with(words)
        fitting = [b for b in boards if memory_mib is not None and fits_reported(b, memory_mib)]
        if len(fitting) == 1:
            return answers.whole(text, fitting, memory_mib, 1, "beginning of a device name")
        return incomplete(text, (board.id for board in fitting or boards))

    def _by_words(self, text: str, memory_mib: float | None) -> Answer:
        count, bare = take_count(text)
        exact = self._boards.with_device_name(bare)
        if exact is not None and (memory_mib is None or fits_reported(exact, memory_mib)):
            return answers.whole(text, [exact], memory_mib, count, "device name")
        words = read_words(text)
        family, sizes = self._boards.with_chip(words)
        if not family:
            return self._unknown(text, words)
        boards = [gpu for gpu in family if _fits(gpu, words, sizes)]
        if not boards and exact is not None:
            boards = [exact]
        if not boards:
            told = (*(f"{size} GB" for size in sizes), *words.forms, *words.memory_types)
            why = f"none of its boards has {' '.join(told)}; known are {described(family)}"
            return contradiction(text, why, (gpu.id for gpu in family))
        plain = None if words.forms else plain_board(boards, words.chip)
        if plain is not None and (memory_mib is None or fits_reported(plain, memory_mib)):
            boards = [plain]
        return answers.whole(text, boards, memory_mib, count, "name")

    def _unknown(self, text: str, words: Words) -> Unresolved:
        if _PROCESSOR.search(text):
            return processor(text)
        siblings = self._machines.siblings(text)
        if siblings:
            return unknown(text, siblings, "its family has other sizes")
        relatives, strange = self._boards.relatives(words.chip)
        if relatives:
            told = " ".join(strange) or " ".join(sorted(words.brands | words.vendors))
            why = f"{told!r} is no part of the name of a board that is known"
            return unknown(text, tuple(gpu.id for gpu in relatives), why)
        return unknown(text, self._boards.like(words.chip) or self._machines.alike(text))


def _fits(gpu: GpuSpec, words: Words, sizes: Iterable[int]) -> bool:
    return (
        all(fits_size(gpu, size) for size in sizes)
        and all(fits_form(gpu, form) for form in words.forms)
        and all(fits_memory_type(gpu, kind) for kind in words.memory_types)
    )
