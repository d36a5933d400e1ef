"""Weight bytes of a checkpoint: its files first, then its index, then the formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from capplan.facts.hf_config.parts import Architecture
from capplan.facts.hf_config.quantisation.weigh import Weighed
from capplan.facts.hf_config.weights.census import Census, take_census
from capplan.facts.hf_config.weights.differences import (
    Deduction,
    Total,
    other_modalities,
    unexplained,
)
from capplan.facts.hf_config.weights.files import FileSet, find_weights, shard_stem
from capplan.facts.hf_config.weights.index import WeightIndex, read_index

_SANE = 2.0
"""Factor from the formula beyond which an index's total is not believed: a total of another
checkpoint, of one shard or of the unquantised original."""
_SANE_WITH_TOWER = 5.0
"""The same above the formula where a small LLM may have a larger vision tower."""


@dataclass(frozen=True)
class Weights:
    """Bytes of the weights that an engine loads for the LLM, and which source gave them."""

    size_bytes: float
    """Without MTP layers, which are loaded only where they draft."""
    source: str
    """``files``, ``Git LFS pointers``, ``index`` or ``formula``."""
    how: str
    params: int | None = None
    """Parameters counted in the files; None where they are not plain."""
    mtp_params: int | None = None
    """The same of the MTP layers."""
    warnings: tuple[str, ...] = ()
    tensors: frozenset[str] = frozenset()
    """Names of all tensors, where known."""
    checkpoint_bytes: float | None = None
    """All that the files hold, MTP layers and the like included; None by formula."""


@dataclass(frozen=True)
class _Measured:
    """A total that a source states, before MTP layers are taken off."""

    size_bytes: float
    source: str
    how: str
    census: Census | None = None


def read_weights(
    folder: Path | None,
    weighed: Weighed,
    architecture: Architecture,
    files: FileSet | None = None,
) -> Weights:
    """Return the weight bytes of a checkpoint.

    Parameters
    ----------
    folder
        Where its files lie; None where only the configuration is known.
    weighed
        What the formula says of its parts.
    architecture
        Tells MTP layers and tied embeddings apart.
    files
        Weight files already found elsewhere, with their sizes.
    """
    index = read_index(folder) if folder is not None else None
    if files is None and folder is not None:
        files = find_weights(folder, index.files if index is not None else ())
    most = _SANE_WITH_TOWER if architecture.has_tower else _SANE
    warnings = [*_index_notes(index, weighed, most), *(files.notes if files else ())]
    warnings += [file.note for file in files.files if file.note] if files else []
    names = _names(files, index)
    believed = index if index is not None and _is_sane(index, weighed, most) else None
    measured, why_not = _measured(files, believed, architecture)
    warnings += why_not
    if measured is None:
        return _formula(weighed, tuple(warnings), names)
    return _reconciled(measured, weighed, architecture, tuple(warnings), names)


def _names(files: FileSet | None, index: WeightIndex | None) -> frozenset[str]:
    if files is not None and files.tensors:
        return frozenset(tensor.name for tensor in files.tensors)
    return frozenset(index.tensors if index is not None else ())


def _formula(weighed: Weighed, warnings: tuple[str, ...], names: frozenset[str]) -> Weights:
    how = "formula: parameters x bytes of each part"
    return Weights(weighed.total_bytes, "formula", how, warnings=warnings, tensors=names)


def _measured(
    files: FileSet | None,
    index: WeightIndex | None,
    architecture: Architecture,
) -> tuple[_Measured | None, list[str]]:
    """Return the first source that can be believed, and why earlier ones were not."""
    refused: list[str] = []
    if files is not None:
        reason = _why_not(files)
        if not reason:
            return _from_files(files, architecture), refused
        refused.append(reason)
    if index is not None and index.total_bytes is not None:
        how = f"{index.name}: metadata.total_size"
        return _Measured(float(index.total_bytes), "index", how), refused
    return None, refused


def _why_not(files: FileSet) -> str:
    if files.missing:
        shown = ", ".join(files.missing[:4]) + (" ..." if len(files.missing) > 4 else "")
        count = len(files.missing)
        return f"{count} of {count + len(files.files)} weight files are not there: {shown}"
    if any(not file.size_bytes for file in files.files):
        return "the weight files cannot all be read, so their sizes are not used"
    named_alike = {shard_stem(file.path.name) for file in files.files}
    if len(named_alike) > 1 and not files.is_listed:
        return "several weight files that may be alternatives; they are not added up"
    return ""


def _from_files(files: FileSet, architecture: Architecture) -> _Measured:
    count = len(files.files)
    what = f"{count} {files.kind} file" + ("s" if count > 1 else "")
    if files.tensors:
        census = take_census(files.tensors, architecture)
        return _Measured(float(files.size_bytes), "files", f"headers of {what}", census)
    if files.pointers:
        how = f"sizes in the Git LFS pointers of {what}, file headers included"
        return _Measured(float(files.size_bytes), "Git LFS pointers", how)
    return _Measured(float(files.size_bytes), "files", f"sizes of {what}")


def _is_sane(index: WeightIndex, weighed: Weighed, most: float) -> bool:
    total = index.total_bytes or 0
    whole = weighed.total_bytes + weighed.mtp_bytes
    return weighed.total_bytes / _SANE <= total <= whole * most


def _index_notes(index: WeightIndex | None, weighed: Weighed, most: float) -> Iterator[str]:
    if index is None:
        return
    if index.note:
        yield f"{index.note}; it is not used"
    elif not _is_sane(index, weighed, most):
        yield (
            f"{index.name} states total_size {index.total_bytes:,}, the formula gives "
            f"{weighed.total_bytes:,.0f}: more than {most:g} times apart, it is not used"
        )


def _reconciled(
    measured: _Measured,
    weighed: Weighed,
    architecture: Architecture,
    warnings: tuple[str, ...],
    names: frozenset[str],
) -> Weights:
    """Take off what is not loaded for the LLM and compare the rest with the formula."""
    census = measured.census
    total = Total(measured.size_bytes, names, architecture, weighed)
    taken = tuple(_stored_only(census) if census is not None else total.deductions())
    left = measured.size_bytes - sum(deduction.size_bytes for deduction in taken)
    how = ", without ".join((measured.how, *(deduction.what for deduction in taken)))
    notes = total.notes(left) if census is None else _census_notes(left, census, weighed)
    return Weights(
        left,
        measured.source,
        how,
        params=census.llm_params if census is not None else None,
        mtp_params=(census.mtp_params or None) if census is not None else None,
        warnings=(*warnings, *notes, *_wide(architecture, left)),
        tensors=names,
        checkpoint_bytes=measured.size_bytes,
    )


def _stored_only(census: Census) -> Iterator[Deduction]:
    for size, what in (
        (census.repeated_bytes, "of tied embeddings stored twice"),
        (census.mtp_bytes, "of MTP layers"),
        (census.buffer_bytes, "of buffers, not weights"),
    ):
        if size:
            yield Deduction(float(size), f"{size:,} bytes {what}")


def _census_notes(left: float, census: Census, weighed: Weighed) -> Iterator[str]:
    if census.other_bytes:
        yield other_modalities(census.other_bytes)
    yield from unexplained(left - census.other_bytes, weighed)


def _wide(architecture: Architecture, left: float) -> Iterator[str]:
    if architecture.dtype in ("float32", "fp32"):
        yield (
            f"weights are stored in float32; vLLM loads them in 16 bit unless told otherwise: "
            f"{left / 2:,.0f} bytes"
        )
