"""Which LLM and which GPU a published name means, and in which number format it was served."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import Pairing

_GROUP_WORDS = re.compile(r"\([^)]*\)")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_TUNING_WORDS = re.compile(r"instruct|chat")
_TUNED = re.compile(r"(it|hf|sft|text|2507|thinking|longcontext|\d+k)$")
_SAME_ARCHITECTURE = {
    "llama38b": "llama318b",
    "llama370b": "llama3170b",
    "llama3370b": "llama3170b",
    "vicuna7b": "llama27b",
    "vicuna7bv13": "llama27b",
    "vicuna13b": "llama213b",
    "vicuna13bv13": "llama213b",
    "metallama318b": "llama318b",
    "metallama3170b": "llama3170b",
    "metallama31405b": "llama31405b",
    "qwen3coder30ba3b": "qwen330ba3b",
    "tinyllama11b": "tinyllama11bv10",
    "deepseekr10528": "deepseekr1",
}
"""Other training, equal shape as far as a step's time goes; Vicuna is LLaMA's shape."""

_BYTES_PER_PARAM = (
    (("nvfp4",), 0.5625),
    (("mxfp4",), 0.53125),
    (("fp8", "int8", "w8a8", "q8"), 1.0),
    (("q4km", "q4k"), 0.60625),
    (("int4", "awq", "gptq", "w4a16", "q4"), 0.5625),
    (("bf16", "fp16", "f16"), 2.0),
)
"""4-bit formats with their scales: 16 values a byte-wide scale (nvfp4), 32 (mxfp4, and the int4 of
gpt-fast with a 16-bit scale and zero), 4.85 bits for llama.cpp's Q4_K_M."""


@dataclass(frozen=True)
class Specs:
    """Facts that some modes need beside the rows; empty by default."""

    llms: Sequence[LlmSpec] = ()
    gpus: Sequence[GpuSpec] = ()
    pairings: Sequence[Pairing] = ()

    @cached_property
    def _llms(self) -> dict[str, LlmSpec]:
        # the first of a shape wins, so that a base LLM is preferred to its later relatives
        found: dict[str, LlmSpec] = {}
        for llm in self.llms:
            found.setdefault(plain_name(llm.id), llm)
        return found

    @cached_property
    def _gpus(self) -> dict[str, GpuSpec]:
        found: dict[str, GpuSpec] = {}
        for gpu in self.gpus:
            for name in (gpu.id, gpu.name, gpu.id.rpartition("-")[0], *gpu.chip_names):
                found.setdefault(_squeezed(name), gpu)
        return {**found, **self._usual_boards(found)}

    def llm(self, name: str) -> LlmSpec | None:
        """Return the LLM of this shape, None if none is known."""
        plain = plain_name(name)
        return self._llms.get(plain) or self._llms.get(_SAME_ARCHITECTURE.get(plain, ""))

    def gpu(self, name: str) -> GpuSpec | None:
        """Return the GPU that a published table most likely means, None if it names none."""
        cleaned = _squeezed(_GROUP_WORDS.sub("", name))
        return self._gpus.get(cleaned) or self._gpus.get(cleaned.removeprefix("nvidia"))

    @staticmethod
    def _usual_boards(found: dict[str, GpuSpec]) -> dict[str, GpuSpec]:
        """Take a bare chip name for the board with the fast link, as publications mostly do."""
        usual = {}
        for chip, board in _USUAL_BOARDS.items():
            if board in found:
                usual[chip] = found[board]
        return usual


_USUAL_BOARDS = {
    "h100": "h100sxm80gb",
    "h100sxm": "h100sxm80gb",
    "h10080gb": "h100sxm80gb",
    "h100pcie": "h100pcie80gb",
    "a100": "a100sxm80gb",
    "a10080gb": "a100sxm80gb",
    "a100sxm": "a100sxm80gb",
    "a10040gb": "a100sxm40gb",
    "a100pcie": "a100pcie80gb",
    "h200": "h200sxm141gb",
    "h200sxm": "h200sxm141gb",
    "b200": "b200sxm180gb",
    "b200sxm": "b200sxm180gb",
    "b300": "b300sxm288gb",
    "rtxpro6000": "rtxpro6000server",
}


def plain_name(name: str) -> str:
    """Return a name without owner, punctuation and words for tuning: ``llama318b``."""
    squeezed = _squeezed(_GROUP_WORDS.sub("", name.rpartition("/")[2]))
    squeezed = _TUNING_WORDS.sub("", squeezed)
    while (shorter := _TUNED.sub("", squeezed)) != squeezed and shorter:
        squeezed = shorter
    return squeezed


def bytes_per_param(stated: str, llm: LlmSpec) -> float:
    """Return bytes of a parameter as served: as the row says, else as the checkpoint ships."""
    squeezed = _squeezed(stated)
    for words, size in _BYTES_PER_PARAM:
        if any(word in squeezed for word in words):
            return size
    return llm.weight_bytes / llm.params_total


def _squeezed(text: str) -> str:
    return _SEPARATORS.sub("", text.lower())
