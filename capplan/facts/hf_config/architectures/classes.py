"""What the class of a checkpoint leaves out of an LLM: base models and classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from capplan.facts.hf_config.architectures.network import Network, Piece, size
from capplan.facts.hf_config.architectures.registry import CLASSIFIER
from capplan.facts.hf_config.fields import Fields

_DEFAULT_LABELS = 2
"""Of transformers, which leaves two labels out of the file."""
_WITH_OUTPUT = ("ChatGLMModel", "MiniCPMModel")
"""Classes under which whole LLMs are published all the same."""


def as_saved(network: Network, fields: Fields, class_name: str) -> Network:
    """Return the network as its class saves it.

    A base class (``MistralModel``: embedding models) has no output layer; a classifier has one
    of as many outputs as labels.

    Parameters
    ----------
    class_name
        A class of one of these kinds; empty for whole LLMs.
    """
    if class_name.endswith(CLASSIFIER):
        labels = Piece("output layer", size(_labels(fields), network.hidden))
        note = f"{class_name} scores labels: it has no output layer for tokens."
        return replace(network, tied=False, outer=(*_kept(network), labels)).noting(note)
    if not class_name or class_name in _WITH_OUTPUT or network.tied:
        return network
    note = f"{class_name} has no output layer: it writes no text."
    return replace(network, outer=_kept(network)).noting(note)


def _labels(fields: Fields) -> int:
    named = fields.value("id2label")
    return len(named) if isinstance(named, Mapping) and named else _DEFAULT_LABELS


def _kept(network: Network) -> tuple[Piece, ...]:
    """Return what is outside the layers, without output layer and its bias."""
    return tuple(
        piece
        for piece in network.outer
        if piece.part != "output layer"
        and not (piece.part == "biases" and piece.total.value == network.vocab_size)
    )
