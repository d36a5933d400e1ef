"""Weight bytes of a checkpoint: its files first, then its index, then the formula."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from capplan.facts.hf_config.parts import Architecture
from capplan.facts.hf_config.quantisation import Weighed
from capplan.facts.hf_config.weight_census import Census, take_census
from capplan.facts.hf_config.weight_files import FileSet, find_weights
from capplan.facts.hf_config.weight_index import WeightIndex, read_index

_CLOSE = 0.01
"""Difference from the formula that needs no explanation."""
_SHARED = frozenset({"token embedding", "output layer"})
_SANE = 2.0
"""Factor from the formula beyond which an index's total is not believed: a total of another
checkpoint, of one shard or of the unquantised original."""


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
    warnings = [*_index_notes(index, weighed), *(files.notes if files else ())]
    warnings += [file.note for file in files.files if file.note] if files else []
    names = _names(files, index)
    measured, why_not = _measured(files, index, weighed, architecture)
    warnings += why_not
    if measured is None:
        return _formula(weighed, tuple(warnings), names)
    return _reconciled(measured, weighed, tuple(warnings), names)


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
    weighed: Weighed,
    architecture: Architecture,
) -> tuple[_Measured | None, list[str]]:
    """Return the first source that can be believed, and why earlier ones were not."""
    refused: list[str] = []
    if files is not None:
        reason = _why_not(files)
        if not reason:
            return _from_files(files, architecture), refused
        refused.append(reason)
    if index is not None and index.total_bytes is not None and _is_sane(index, weighed):
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
    named_alike = {file.path.stem.partition("-0")[0] for file in files.files}
    if len(named_alike) > 1:
        return "several weight files that may be alternatives; they are not added up"
    return ""


def _from_files(files: FileSet, architecture: Architecture) -> _Measured:
    count = len(files.files)
    what = f"{count} {files.kind} file" + ("s" if count > 1 else "")
    if files.tensors:
        census = take_census(files.tensors, architecture)
        whole = files.size_bytes - census.repeated_bytes
        return _Measured(float(whole), "files", f"headers of {what}", census)
    if files.pointers:
        how = f"sizes in the Git LFS pointers of {what}, file headers included"
        return _Measured(float(files.size_bytes), "Git LFS pointers", how)
    return _Measured(float(files.size_bytes), "files", f"sizes of {what}")


def _is_sane(index: WeightIndex, weighed: Weighed) -> bool:
    total = index.total_bytes or 0
    most = weighed.total_bytes + weighed.mtp_bytes
    return weighed.total_bytes / _SANE <= total <= most * _SANE


def _index_notes(index: WeightIndex | None, weighed: Weighed) -> Iterator[str]:
    if index is None:
        return
    if index.note:
        yield f"{index.note}; it is not used"
    elif not _is_sane(index, weighed):
        yield (
            f"{index.name} states total_size {index.total_bytes:,}, the formula gives "
            f"{weighed.total_bytes:,.0f}: more than {_SANE:g} times apart, it is not used"
        )


def _reconciled(
    measured: _Measured, weighed: Weighed, warnings: tuple[str, ...], names: frozenset[str]
) -> Weights:
    """Take MTP layers off a total and compare the rest with the formula."""
    census = measured.census
    llm, how, notes = measured.size_bytes, measured.how, list(warnings)
    if census is not None and census.mtp_bytes:
        llm -= census.mtp_bytes
        how += f", without {census.mtp_bytes:,} bytes of MTP layers"
    elif census is None and (taken := _mtp_within(llm, weighed)):
        llm -= taken
        how += f"; it matches the formula with MTP layers, so {taken:,.0f} bytes are taken off"
    notes += _differences(llm, weighed, census)
    return Weights(
        llm,
        measured.source,
        how,
        params=census.llm_params if census is not None else None,
        mtp_params=(census.mtp_params or None) if census is not None else None,
        warnings=tuple(notes),
        tensors=names,
    )


def _mtp_within(total: float, weighed: Weighed) -> float:
    """Return the bytes of MTP layers that a total holds; 0 where the LLM alone is nearer.

    Some checkpoints repeat the embedding and the output layer in the MTP layer (DeepSeek-V3).
    """
    mtp = weighed.mtp_bytes
    if not mtp:
        return 0.0
    shared = sum(part.size_bytes for part in weighed.parts if part.part.name in _SHARED)
    nearest = min(
        (0.0, mtp, mtp + shared), key=lambda extra: abs(total - weighed.total_bytes - extra)
    )
    return nearest if abs(total - weighed.total_bytes - nearest) < _CLOSE * total else 0.0


def _differences(llm: float, weighed: Weighed, census: Census | None) -> Iterator[str]:
    if census is not None and census.repeated_bytes:
        yield (
            f"the files repeat tied embeddings ({census.repeated_bytes:,} bytes), which are "
            "loaded once"
        )
    if census is not None and census.other_bytes:
        yield (
            f"{census.other_bytes:,} bytes belong to other modalities (a vision tower or the "
            "like); they are loaded too and count as weights"
        )
        llm -= census.other_bytes
    share = llm / weighed.total_bytes - 1
    if abs(share) > _CLOSE:
        yield (
            f"the files hold {llm:,.0f} bytes, the formula gives {weighed.total_bytes:,.0f} "
            f"({share:+.1%}): parts that the formula does not know, or another quantisation"
        )
