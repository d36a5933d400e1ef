"""What a profile was measured on: the machine, the engine, the LLM and what drafts for it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from capplan.schema.base import Value
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import Method


class Device(Value):
    """The processor that ran the models."""

    kind: Literal["cuda", "cpu", "unknown"]
    """``unknown``: a server or a file did not say what it ran on."""
    name: str
    """As the driver or the operating system names it."""
    count: int = Field(default=1, ge=1)
    uuid: str = ""
    memory_bytes: float | None = Field(default=None, gt=0)
    """None only for an unknown device."""
    driver: str = ""
    cuda: str = ""
    power_limit_w: float | None = None
    clocks_mhz: dict[str, float] = Field(default_factory=dict)
    mig: bool | None = None
    ecc: bool | None = None
    cores: int | None = None


class Environment(Value):
    """Where the measurement ran; what must agree before two profiles may be merged."""

    device: Device
    host: str = ""
    """Operating system and architecture; never a host name."""
    python: str
    libraries: dict[str, str]
    container: bool = False


class Backend(Value):
    """What ran the models."""

    name: Literal["torch", "vllm", "server", "import", "fake"]
    """``server``: a live engine was asked; ``import``: files of other tools were read."""
    version: str
    arguments: dict[str, str] = Field(default_factory=dict)
    cuda_graphs: bool = False


class ProfiledLlm(Value):
    """A checkpoint as it was loaded."""

    spec: LlmSpec
    revision: str = ""
    weight_sha256: str = ""
    """Hash of the weight files; empty for dummy weights."""
    weights: Literal["real", "dummy"] = "real"
    dtype: str
    quantisation: str = ""


class ModelDraft(Value):
    """A smaller LLM drafts."""

    method: Literal[Method.DRAFT_MODEL] = Method.DRAFT_MODEL
    llm: ProfiledLlm


class NgramDraft(Value):
    """Drafts are looked up in the text so far, by vLLM's rules."""

    method: Literal[Method.NGRAM] = Method.NGRAM
    prompt_lookup_max: int = Field(ge=1)
    prompt_lookup_min: int = Field(ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.prompt_lookup_min > self.prompt_lookup_max:
            msg = (
                f"prompt_lookup_min={self.prompt_lookup_min} must be <= "
                f"prompt_lookup_max={self.prompt_lookup_max}"
            )
            raise ValueError(msg)
        return self


class EngineDraft(Value):
    """Any other way to draft, known by what the engine was told: heads, MTP, suffix, blocks."""

    method: Literal[
        Method.EAGLE,
        Method.EAGLE3,
        Method.MTP,
        Method.MEDUSA,
        Method.DFLASH,
        Method.DSPARK,
        Method.PEAGLE,
        Method.SUFFIX,
    ]
    id: str
    """The head's checkpoint; the method's name where there is none (mtp, suffix)."""
    weight_bytes: float | None = Field(default=None, gt=0)


Draft = Annotated[ModelDraft | NgramDraft | EngineDraft, Field(discriminator="method")]
