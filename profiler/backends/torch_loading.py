"""Load checkpoints into torch, on a CPU or a CUDA device alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from capplan.errors import CheckpointError, DeviceError, PairingError, RequestError
from profiler.backends.checkpoints import Checkpoint, require
from profiler.backends.torch_attention import install
from profiler.backends.torch_llm import TorchLlm, memory_errors

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
CROPPABLE_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}
"""Attention whose cache can be set back; a recurrent state cannot forget a rejected draft."""


def choose_device(name: str) -> torch.device:
    """Return the device for ``auto``, ``cpu``, ``cuda`` or ``cuda:1``."""
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if name == "cpu":
        return torch.device("cpu")
    kind, _, index = name.partition(":")
    if kind != "cuda" or (index and not index.isdigit()):
        raise RequestError(f"Unknown device {name!r}.", "Use auto, cpu, cuda or cuda:1.")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(index or 0) >= count:
        raise DeviceError(
            f"Device {name} was asked for; torch {torch.__version__} sees {count} CUDA devices.",
            "Use --device cpu, or install a CUDA build of torch and the NVIDIA driver.",
        )
    return torch.device("cuda", int(index or 0))


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Return the number format; ``auto`` is bfloat16 on CUDA and float32 on a CPU."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if name not in DTYPES:
        raise RequestError(f"Unknown dtype {name!r}.", f"Use auto, {', '.join(DTYPES)}.")
    return DTYPES[name]


def load_llm(
    found: Checkpoint, device: torch.device, dtype: torch.dtype, dummy_weights: bool = False
) -> TorchLlm:
    """Load a checkpoint, or build its architecture with random weights on the device."""
    if found.gguf:
        # transformers refuses GGUF without accelerate.
        require("Loading a GGUF file", "gguf", "accelerate")
    with quiet_transformers(), memory_errors(f"the weights of {found.name}"), _readable(found):
        model = _random(found, device, dtype) if dummy_weights else _real(found, dtype)
        model = model.to(device).eval()
        tokenizer = _tokenizer(found)
    install(model)
    llm = TorchLlm(found.name, model, device, dtype, tokenizer)
    _check_layers(llm)
    return llm


def check_pairing(target: TorchLlm, draft: TorchLlm, dummy_weights: bool) -> None:
    """Raise :class:`PairingError` unless both LLMs mean the same by every token id."""
    remedy = "Choose a draft of the same family, whose tokenizer is the target's."
    if target.vocab_size != draft.vocab_size:
        raise PairingError(
            f"{draft.name} cannot draft for {target.name}: vocabulary of {draft.vocab_size} "
            f"against {target.vocab_size} tokens.",
            remedy,
        )
    if dummy_weights or target.tokenizer is None or draft.tokenizer is None:
        return
    ours, theirs = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours != theirs:
        differing = sum(theirs.get(token) != number for token, number in ours.items())
        raise PairingError(
            f"{draft.name} cannot draft for {target.name}: both have {target.vocab_size} tokens, "
            f"but {differing} of the target's {len(ours)} tokenizer entries differ.",
            remedy,
        )


def _random(found: Checkpoint, device: torch.device, dtype: torch.dtype) -> Any:
    config = AutoConfig.from_pretrained(found.folder, trust_remote_code=False)
    if getattr(config, "quantization_config", None):
        raise CheckpointError(
            f"{found.name} is a quantised checkpoint; dummy weights would not run its kernels.",
            "Use the configuration of the unquantised checkpoint, or real weights.",
        )
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)


def _real(found: Checkpoint, dtype: torch.dtype) -> Any:
    extra = {"gguf_file": found.gguf.name} if found.gguf else {"use_safetensors": True}
    return AutoModelForCausalLM.from_pretrained(
        found.folder, dtype=dtype, trust_remote_code=False, local_files_only=True, **extra
    )


def _tokenizer(found: Checkpoint) -> Any | None:
    if not found.has_tokenizer:
        return None
    extra = {"gguf_file": found.gguf.name} if found.gguf else {}
    return AutoTokenizer.from_pretrained(
        found.folder, trust_remote_code=False, local_files_only=True, **extra
    )


def _check_layers(llm: TorchLlm) -> None:
    kinds = set(getattr(llm.text_config, "layer_types", None) or ())
    if kinds - CROPPABLE_LAYERS:
        raise CheckpointError(
            f"{llm.name} has layers of type {', '.join(sorted(kinds - CROPPABLE_LAYERS))}, whose "
            "state cannot be set back after a rejected draft.",
            "The torch backend cannot measure this architecture; use the vLLM backend.",
        )


@contextmanager
def _readable(found: Checkpoint) -> Iterator[None]:
    """Explain what transformers cannot load: it raises ValueError, KeyError or OSError."""
    try:
        yield
    except (ValueError, KeyError, OSError, ImportError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"transformers cannot load {found.name}: {reason}",
            "Check the folder, or upgrade transformers if the architecture is newer.",
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' progress bars and advice off the user's terminal."""
    # The GGUF loader's bar obeys no setting, so what it writes to stderr is caught.
    level = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()
