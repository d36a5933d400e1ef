"""Drafting heads (EAGLE, EAGLE-3, P-EAGLE, DFlash, DSpark, Medusa) to architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from capplan.errors import FactsError
from capplan.facts.hf_config.architectures.blocks import norms
from capplan.facts.hf_config.architectures.network import (
    Layer,
    Piece,
    add_up,
    group_caches,
    size,
)
from capplan.facts.hf_config.fields import Fields
from capplan.facts.hf_config.heads.kinds import HeadConfig, find_head
from capplan.facts.hf_config.heads.layer import decoder_layer
from capplan.facts.hf_config.parts import Architecture
from capplan.schema.llm import HeadFacts
from capplan.schema.pairing import Method

_TARGET_STATES = 3
"""Layers of the target whose hidden states EAGLE-3 reads, unless the configuration lists them."""

_DENSE = frozenset(
    {
        *("llama", "qwen2", "qwen3", "mistral", "eagle", "eagle3", "gpt_oss", "minimax_m2"),
        *("speculators", "speculator_model", "eagle3_speculator", "dflash", "dspark", "peagle"),
        *("kimi_k2", "qwen3_vl_text", "qwen2_5_vl", "qwen2_vl", "mixtral", "phi3", "", "gemma3"),
    }
)
"""Types under which heads with plain attention and a gated MLP are published; the type is the
target's, the layer is Llama's."""

_MOST_LAYERS = 64
_REMEDY = "State its sizes in a row of models_db/models; CONTRIBUTING.md shows how."


def read_head(
    config: Mapping[str, object], name: str, tensors: Set[str] = frozenset()
) -> Architecture | None:
    """Count a drafting head; None if the configuration is that of an LLM.

    Parameters
    ----------
    config
        The content of ``config.json``.
    name
        Path or id.
    tensors
        Names of the checkpoint's tensors, where known.

    Raises
    ------
    FactsError
        If a field that its size depends on is missing, or the kind is not known.
    """
    head = find_head(config, name, tensors)
    if head is None:
        return None
    readers: Mapping[Method, Callable[[HeadConfig], Architecture]] = {
        Method.EAGLE: _eagle,
        Method.EAGLE3: _eagle3,
        Method.PEAGLE: _eagle3,
        Method.DFLASH: _dflash,
        Method.DSPARK: _dflash,
        Method.MEDUSA: _medusa,
    }
    return readers[head.method](head)


def _layer_count(fields: Fields) -> int:
    count = fields.integer("num_hidden_layers")
    if count > _MOST_LAYERS:
        raise fields.error("num_hidden_layers", f"at most {_MOST_LAYERS} layers in a head")
    return count


def _known_type(head: HeadConfig) -> None:
    kind = head.layer.text("model_type")
    if kind not in _DENSE:
        raise FactsError(
            f"{head.layer.where}: a {head.method.value} head of type {kind!r} is not known.",
            _REMEDY,
        )


def _eagle(head: HeadConfig) -> Architecture:
    """EAGLE: one decoder layer that reads a token's embedding and the target's hidden state."""
    _known_type(head)
    hidden = head.layer.integer("hidden_size")
    # the first layer has no norm on its input: the projection before it takes its place
    layers = tuple(
        decoder_layer(head, hidden, hidden, -1 if number == 0 else 0)
        for number in range(_layer_count(head.layer))
    )
    projection = Piece("projections", size(2 * hidden, hidden))
    bias = Piece("biases", size(hidden).when(head.layer.flag("bias", default=False)))
    return _built(head, hidden, layers, (projection, bias), None)


def _eagle3(head: HeadConfig) -> Architecture:
    """EAGLE-3: hidden states of several target layers, an output layer of its own."""
    _known_type(head)
    hidden = head.layer.integer("hidden_size")
    target = _target_hidden(head) or hidden
    count = _layer_count(head.layer)
    layers = (
        decoder_layer(head, hidden, 2 * hidden, 1),
        *(decoder_layer(head, hidden, hidden, 1) for _ in range(count - 1)),
    )
    states = len(head.options.integers("eagle_aux_hidden_state_layer_ids"))
    states = states or len(head.outer.integers("eagle_aux_hidden_state_layer_ids"))
    states = head.outer.optional("num_aux_hidden_states") or states or _TARGET_STATES
    reads = head.options.flag("use_aux_hidden_state", default=True)
    draft_vocab = _draft_vocab(head)
    normed = head.outer.flag("norm_before_fc") or head.options.flag("norm_before_fc")
    outer = (
        Piece("projections", size(states * target, hidden).when(reads)),
        Piece("output layer", size(draft_vocab, hidden)),
        norms(hidden, 1),
        norms(states * target, 1 if reads and normed else 0),
    )
    return _built(head, hidden, layers, outer, draft_vocab)


def _dflash(head: HeadConfig) -> Architecture:
    """DFlash: a small stack that drafts a block at once; DSpark adds two heads to it."""
    _known_type(head)
    hidden = head.layer.integer("hidden_size")
    target = _target_hidden(head) or hidden
    count = _layer_count(head.layer)
    layers = tuple(decoder_layer(head, hidden, hidden, 0) for _ in range(count))
    states = len(head.options.integers("target_layer_ids"))
    states = states or len(head.outer.integers("target_layer_ids"))
    states = states or len(head.outer.integers("aux_hidden_state_layer_ids")) or count
    draft_vocab = head.outer.optional("draft_vocab_size")
    outer = [Piece("projections", size(states * target, hidden)), norms(hidden, 2)]
    if head.method is Method.DSPARK:
        outer += _dspark(head, hidden, draft_vocab)
    if draft_vocab and head.outer.has("speculators_model_type"):
        outer.append(Piece("output layer", size(draft_vocab, hidden)))
    return _built(head, hidden, layers, tuple(outer), draft_vocab)


def _dspark(head: HeadConfig, hidden: int, draft_vocab: int | None) -> list[Piece]:
    fields = head.options if head.options.has("markov_rank") else head.outer
    rank = fields.integer("markov_rank")
    vocab = head.layer.integer("vocab_size")
    markov = size(vocab, rank) + size(rank, draft_vocab or vocab)
    pieces = [Piece("Markov head", markov)]
    if fields.flag("enable_confidence_head"):
        inputs = hidden + (rank if fields.flag("confidence_head_with_markov") else 0)
        pieces.append(Piece("confidence head", size(inputs, 1) + size(1)))
    return pieces


def _medusa(head: HeadConfig) -> Architecture:
    """Medusa: heads that each guess one further token from the last hidden state."""
    fields = head.outer
    hidden, vocab = fields.integer("hidden_size"), fields.integer("vocab_size")
    heads = fields.integer("medusa_num_heads", "num_heads")
    blocks = fields.integer("medusa_num_layers", "num_hidden_layers")
    draft_vocab = fields.optional("truncated_vocab_size") or vocab
    residual = size(hidden, hidden) + size(hidden)
    pieces = (
        Piece("projections", residual.times(blocks * heads)),
        Piece("output layer", size(draft_vocab, hidden).times(heads)),
    )
    reduced = draft_vocab if draft_vocab != vocab else None
    return _built(head, hidden, (Layer(()),), pieces, reduced)


def _target_hidden(head: HeadConfig) -> int | None:
    return head.outer.optional("target_hidden_size")


def _draft_vocab(head: HeadConfig) -> int:
    reduced = head.outer.optional("draft_vocab_size", "truncated_vocab_size")
    return reduced or head.layer.integer("vocab_size")


def _target_id(head: HeadConfig) -> str:
    verifier = head.outer.inner("speculators_config").inner("verifier")
    return verifier.text("name_or_path") or head.outer.text("base_model_name_or_path")


def _built(
    head: HeadConfig,
    hidden: int,
    layers: tuple[Layer, ...],
    outer: tuple[Piece, ...],
    draft_vocab: int | None,
) -> Architecture:
    vocab = head.layer.integer("vocab_size")
    if head.own_embedding:
        outer = (Piece("token embedding", size(vocab, hidden)), *outer)
    classes = head.outer.texts("architectures")
    return Architecture(
        model_type=head.layer.text("model_type"),
        class_name=classes[0] if classes else "",
        family=head.method.value,
        layers=len(layers),
        hidden=hidden,
        heads=head.layer.optional("num_attention_heads"),
        vocab_size=vocab,
        tied_embeddings=False,
        dtype=_dtype(head),
        cache=group_caches(layers),
        max_context=head.layer.optional("max_position_embeddings"),
        parts=add_up(layers, outer, {}),
        head=HeadFacts(
            method=head.method,
            target_hidden=_target_hidden(head) or hidden,
            draft_vocab_size=draft_vocab if draft_vocab != vocab else None,
            target_id=_target_id(head),
        ),
        notes=head.notes,
    )


def _dtype(head: HeadConfig) -> str:
    for fields in (head.outer, head.layer):
        for name in ("dtype", "torch_dtype"):
            if fields.has(name):
                return fields.text(name).removeprefix("torch.")
    return "bfloat16"
