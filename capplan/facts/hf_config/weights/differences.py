"""What a stated total holds besides the LLM's weights: named and, where known, taken off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capplan.facts.hf_config.parts import Architecture
from capplan.facts.hf_config.quantisation.weigh import Weighed
from capplan.facts.hf_config.weights.census import is_buffer, is_mtp, is_other, is_output_layer

CLOSE = 0.01
"""Difference from the formula that needs no explanation."""
_SHARED = frozenset({"token embedding", "output layer"})
_MASK_TYPES = frozenset({"gpt2", "gpt_neo", "gpt_neox", "gptj", "codegen"})
"""Families whose checkpoints used to store each layer's causal mask."""
_MASK_BYTES = (4, 2, 1, 0.125)
"""Bytes of an element of a mask: float32, float16, bool, and bool as some indexes count it."""
_MASKS_CLOSE = 0.02


@dataclass(frozen=True)
class Deduction:
    """Bytes that a total holds and an engine does not load for the LLM."""

    size_bytes: float
    what: str


@dataclass(frozen=True)
class Total:
    """A total without the headers behind it, and what is known of its tensors."""

    size_bytes: float
    names: frozenset[str]
    """Names of all tensors; empty where no index gives them."""
    architecture: Architecture
    weighed: Weighed

    @property
    def has_other(self) -> bool:
        """Whether there is a vision tower or the like, by names, else by the configuration."""
        return any(map(is_other, self.names)) if self.names else self.architecture.has_tower

    def deductions(self) -> Iterator[Deduction]:
        """Yield what the total holds without being loaded for the LLM."""
        left = self.size_bytes
        for found in (self._repeated, self._mtp, self._masks):
            deduction = found(left)
            if deduction is not None:
                left -= deduction.size_bytes
                yield deduction

    def _repeated(self, left: float) -> Deduction | None:
        """Return a tied embedding that is stored twice (Falcon, some copies of Gemma)."""
        size = sum(_sizes(self.weighed, "token embedding"))
        if not self.architecture.tied_embeddings or not size:
            return None
        after = left - size - self.weighed.total_bytes
        named = any(map(is_output_layer, self.names))
        if after < -CLOSE * left or not (named or (not self.names and after < CLOSE * size)):
            return None
        return Deduction(size, f"{size:,.0f} bytes of tied embeddings stored twice")

    def _mtp(self, left: float) -> Deduction | None:
        """Return MTP layers; some repeat embedding and output layer (DeepSeek-V3)."""
        mtp = self.weighed.mtp_bytes
        if not mtp or (self.names and not self._names_mtp):
            return None
        shared = mtp + sum(size for name in _SHARED for size in _sizes(self.weighed, name))
        extra = left - self.weighed.total_bytes
        if self.names and self.has_other:
            return Deduction(mtp, f"{mtp:,.0f} bytes of MTP layers, by the formula")
        choices = (mtp, shared) if self._names_mtp else (0.0, mtp, shared)
        nearest = min(choices, key=lambda size: abs(extra - size))
        if not nearest or abs(extra - nearest) >= CLOSE * left:
            return None
        return Deduction(nearest, f"{nearest:,.0f} bytes of MTP layers, as the formula has them")

    @property
    def _names_mtp(self) -> bool:
        return any(is_mtp(name, self.architecture) for name in self.names if not is_other(name))

    def _masks(self, left: float) -> Deduction | None:
        """Return causal masks that older GPT checkpoints store."""
        length = self.architecture.max_context
        if self.architecture.family not in _MASK_TYPES or length is None:
            return None
        extra = left - self.weighed.total_bytes
        for size in _MASK_BYTES:
            masks = self.architecture.layers * length**2 * size
            if abs(extra - masks) < _MASKS_CLOSE * masks:
                what = f"{self.architecture.layers} causal masks of {length} x {length}"
                return Deduction(extra, f"{extra:,.0f} bytes of buffers, not weights: {what}")
        return None

    def notes(self, left: float) -> Iterator[str]:
        """Yield what is unexplained, or explained by other modalities, in what is left."""
        extra = left - self.weighed.total_bytes
        if self.has_other and extra > 0:
            yield other_modalities(extra)
            return
        if any(map(is_buffer, self.names)) and 0 < extra < CLOSE * left:
            yield f"{extra:,.0f} bytes more than the formula: buffers that are stored, not weights"
        yield from unexplained(left, self.weighed)


def other_modalities(size: float) -> str:
    """Return the note on a vision tower, an audio encoder or the like."""
    return (
        f"{size:,.0f} bytes belong to other modalities (a vision tower or the like); they are "
        "loaded too and count as weights, not as parameters of the LLM"
    )


def unexplained(llm: float, weighed: Weighed) -> Iterator[str]:
    """Yield how far a total is from the formula, if it is too far."""
    share = llm / weighed.total_bytes - 1
    if abs(share) > CLOSE:
        yield (
            f"the files hold {llm:,.0f} bytes, the formula gives {weighed.total_bytes:,.0f} "
            f"({share:+.1%}): parts that the formula does not know, or another quantisation"
        )


def _sizes(weighed: Weighed, name: str) -> Sequence[float]:
    return [part.size_bytes for part in weighed.parts if part.part.name == name]
