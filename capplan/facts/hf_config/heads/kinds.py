"""Which configurations are those of drafting heads, and of which kind."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from capplan.errors import FactsError
from capplan.facts.hf_config.fields import Fields
from capplan.schema.pairing import Method

_BY_CLASS: tuple[tuple[str, Method], ...] = (
    ("peagle", Method.PEAGLE),
    ("eagle3", Method.EAGLE3),
    ("dspark", Method.DSPARK),
    ("dflash", Method.DFLASH),
    ("medusa", Method.MEDUSA),
    ("eagle", Method.EAGLE),
)
"""Words in a class name or type, the more telling first."""

_NOT_HEADS = ("eagle2_5_vl", "eagle2_5vl", "eagle_2_5", "eaglevl")
"""Vision-language LLMs that happen to be called so."""

_REFUSED: Mapping[str, str] = {
    "mlp_speculator": "engines have dropped this kind of head, and no method plans with it",
    "mlpspeculator": "engines have dropped this kind of head, and no method plans with it",
    "dflash2": "its convolution and selector are not counted",
    "xpress": "its layers are not counted",
    "domino": "its layers are not counted",
    "lilicorr": "its layers are not counted",
    "hspec": "its layers are not counted",
}


@dataclass(frozen=True)
class HeadConfig:
    """A head's configuration, with its own fields and those of its layers told apart."""

    method: Method
    outer: Fields
    layer: Fields
    """Fields of the transformer layer; the same as ``outer`` unless nested."""
    options: Fields
    """Fields under ``dflash_config`` or ``eagle_config``."""
    own_embedding: bool
    """Whether the checkpoint holds a token embedding of its own."""
    notes: tuple[str, ...] = field(default=())


def find_head(
    config: Mapping[str, object], name: str, tensors: Set[str] = frozenset()
) -> HeadConfig | None:
    """Return a head's configuration, None if the configuration is that of an LLM.

    Parameters
    ----------
    config
        The content of ``config.json``.
    name
        Path or id, for messages; ``eagle`` in it tells heads whose configuration is a plain
        one-layer LLM's.
    tensors
        Names of the checkpoint's tensors, where known: an ``fc`` matrix marks a head.

    Raises
    ------
    FactsError
        If it is a head of a kind that is not counted.
    """
    outer = Fields(config, name)
    method = _method(outer, name, tensors)
    if method is None:
        return None
    layer = _layer(outer)
    inner = "dflash_config" if method in (Method.DFLASH, Method.DSPARK) else "eagle_config"
    own = _owns_embedding(outer, tensors)
    return HeadConfig(method, outer, layer, outer.inner(inner), own, _notes(own, tensors))


def _words(outer: Fields) -> str:
    names = [outer.text("model_type"), outer.text("speculators_model_type")]
    names += list(outer.texts("architectures"))[:1]
    return " ".join(names).lower().replace("-", "")


def _method(outer: Fields, name: str, tensors: Set[str]) -> Method | None:
    words = _words(outer)
    if any(word in words for word in _NOT_HEADS):
        return None
    for word, reason in _REFUSED.items():
        if word in words:
            raise FactsError(
                f"{name}: drafting heads of kind {word!r} are not known: {reason}.",
                "Known: " + ", ".join(method.value for _, method in _BY_CLASS) + ".",
            )
    named = next((method for word, method in _BY_CLASS if word in words), None)
    if named is Method.EAGLE and outer.has("draft_vocab_size"):
        return Method.EAGLE3
    return named or _unnamed(outer, name, tensors)


def _unnamed(outer: Fields, name: str, tensors: Set[str]) -> Method | None:
    """Return the kind of a head that calls itself a plain LLM, as the first EAGLE heads do."""
    if outer.has("medusa_num_heads"):
        return Method.MEDUSA
    if (outer.optional("num_hidden_layers") or 0) != 1:
        return None
    if outer.has("draft_vocab_size", "truncated_vocab_size"):
        return Method.EAGLE3
    if "fc.weight" in tensors or "model.fc.weight" in tensors:
        return Method.EAGLE
    return Method.EAGLE if "eagle" in name.lower() else None


def _layer(outer: Fields) -> Fields:
    for key in ("transformer_layer_config", "model"):
        value = outer.value(key)
        if isinstance(value, Mapping):
            merged: dict[str, Any] = {**outer.config, **value}
            return Fields(merged, f"{outer.where}: {key}")
    return outer


def _owns_embedding(outer: Fields, tensors: Set[str]) -> bool:
    if tensors:
        return any(name.endswith("embed_tokens.weight") for name in tensors)
    return outer.has("speculators_model_type") or outer.has("speculators_config")


def _notes(own_embedding: bool, tensors: Set[str]) -> tuple[str, ...]:
    known = "Its tensors show" if tensors else "Its format implies"
    if own_embedding:
        return (f"{known} a token embedding of the head's own.",)
    return (f"{known} no token embedding: the target's is read, and not counted here.",)
