"""What each serving engine demands of a pair, as far as its source or its users' reports show."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from capplan.errors import UnknownIdError
from capplan.schema.pair import EngineAnswer, VocabularyFacts
from capplan.schema.pairing import Method

VLLM = "vllm"
VLLM_CHECKED = "0.33"

HETEROGENEOUS = "use_heterogeneous_vocab: true"
HETEROGENEOUS_COST = (
    "only tokens that both vocabularies have are drafted, drafts are greedy (acceptance falls at "
    "temperature > 0), and the V1 runner is used"
)

_VLLM_SOURCE = "vLLM 0.33.0, config/speculative.py"
_LLAMA_SOURCE = "ggml-org/llama.cpp common/speculative.cpp @001d906a"
_LLAMA_LIMIT, _LLAMA_LIMIT_2024 = 128, 100
_LLAMA_2024 = "llama.cpp==2024-04"
_LLAMA_FIRST_ID = 5
_SGLANG_SOURCE = "docs.sglang.io, speculative decoding"
_SGLANG_METHODS = frozenset({Method.EAGLE, Method.EAGLE3, Method.MTP, Method.DFLASH, Method.NGRAM})
_TRT_SOURCE = "TensorRT-LLM 1.4 docs, speculative decoding"
_TRT_METHODS = frozenset({Method.EAGLE3, Method.MTP, Method.NGRAM})
_LLAMA_METHODS = frozenset(
    {Method.DRAFT_MODEL, Method.EAGLE3, Method.MTP, Method.DFLASH, Method.DSPARK, Method.NGRAM}
)


@dataclass(frozen=True)
class Asked:
    """What an engine is asked to run."""

    method: Method
    facts: VocabularyFacts
    heterogeneous: bool = False
    other_tokens: bool = False
    """Whether trained tokens are known or named to differ."""


@dataclass(frozen=True)
class Engine:
    """One engine with the version that its rule was read from."""

    name: str
    answer: Callable[[Asked], EngineAnswer]


def resolve_engine(text: str) -> tuple[Engine, str]:
    """Return the engine that ``vllm==0.33``, ``llama.cpp`` ... means, and the version given.

    Raises
    ------
    UnknownIdError
        If no rule of such an engine is known.
    """
    wanted = text.strip().lower()
    if wanted in ENGINES:
        return ENGINES[wanted], ""
    name, _, version = wanted.partition("==")
    name = _ALIASES.get(re.sub(r"[^a-z]", "", name), name)
    if name not in ENGINES:
        near = difflib.get_close_matches(name, ENGINES, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UnknownIdError(
            f"No vocabulary rule of an engine {text!r} is known.",
            f"{hint}Known: {', '.join(ENGINES)}.",
        )
    return ENGINES[name], version


def all_answers(asked: Asked) -> tuple[EngineAnswer, ...]:
    """Return every engine's answer; of llama.cpp's two limits the old one where it matters."""
    answers = [engine.answer(asked) for engine in ENGINES.values()]
    new = next(answer.accepts for answer in answers if answer.engine == "llama.cpp")
    tells = asked.method is Method.DRAFT_MODEL
    return tuple(
        answer
        for answer in answers
        if answer.engine != _LLAMA_2024 or (tells and answer.accepts is not new)
    )


def _vllm(asked: Asked) -> EngineAnswer:
    if asked.method is Method.MEDUSA:
        return EngineAnswer(
            engine="vllm==0.33",
            accepts=False,
            text="Medusa heads were removed in 0.33 (0.32 was the last version that ran them).",
            remedy="Take an EAGLE-3 head, a DFlash head or a draft model for this target.",
            source="vLLM 0.33.0 changes",
        )
    if asked.method is not Method.DRAFT_MODEL:
        return _accepts("vllm==0.33", "Compares vocab_size of draft models only.", _VLLM_SOURCE)
    facts = asked.facts
    if asked.heterogeneous:
        return _accepts("vllm==0.33", f"Runs it through {HETEROGENEOUS}.", _VLLM_SOURCE)
    if facts.difference:
        return EngineAnswer(
            engine="vllm==0.33",
            accepts=False,
            text="Refuses to start: vocab_size must be equal.",
            remedy=f"{HETEROGENEOUS} (capplan pair --heterogeneous-vocab) runs it: "
            f"{HETEROGENEOUS_COST}.",
            source=_VLLM_SOURCE,
        )
    return _accepts("vllm==0.33", "Compares vocab_size, never the tokens.", _VLLM_SOURCE)


def _sglang(asked: Asked) -> EngineAnswer:
    if asked.method in _SGLANG_METHODS:
        return _accepts("sglang", "Has the method.", _SGLANG_SOURCE)
    if asked.method is not Method.DRAFT_MODEL:
        return _unchecked("sglang", asked)
    source = "sgl-project/sglang#23838, 2026-04"
    if asked.facts.difference:
        return _refuses("sglang", "STANDALONE needs equal vocab_size.", source)
    if asked.other_tokens or _unequal_entries(asked.facts):
        return _refuses("sglang", "STANDALONE compares every token, special ones too.", source)
    return _accepts("sglang", "STANDALONE compares vocab_size and every token.", source)


def _llama_cpp(name: str, limit: int, source: str) -> Callable[[Asked], EngineAnswer]:
    def answer(asked: Asked) -> EngineAnswer:
        if asked.method not in _LLAMA_METHODS:
            return _refuses(name, f"Has no method like {asked.method.value}.", _LLAMA_SOURCE)
        if asked.method is not Method.DRAFT_MODEL:
            if name == _LLAMA_2024:
                return _unchecked(name, asked)
            return _accepts(name, "Has the method.", _LLAMA_SOURCE)
        facts = asked.facts
        if facts.difference > limit:
            return _refuses(
                name, f"Allows a difference of {limit} tokens, got {facts.difference:,}.", source
            )
        if asked.other_tokens or (facts.last_unequal_id or 0) >= _LLAMA_FIRST_ID:
            return _refuses(name, "Compares the text of every token from id 5 on.", source)
        return _accepts(name, f"Sizes may differ by {limit}; compares texts from id 5 on.", source)

    return answer


def _mlc(asked: Asked) -> EngineAnswer:
    if asked.method is not Method.DRAFT_MODEL:
        return _unchecked("mlc-llm", asked)
    source = "mlc-ai/mlc-llm#3212, 2025-04"
    if asked.facts.difference:
        return _refuses("mlc-llm", "Stops after the first token: logits differ in width.", source)
    return _accepts("mlc-llm", "Compares the width of the logits, no tokens.", source)


def _tensorrt_llm(asked: Asked) -> EngineAnswer:
    if asked.method in _TRT_METHODS:
        return _accepts("tensorrt-llm", "Has the method; not for every target.", _TRT_SOURCE)
    if asked.method is not Method.DRAFT_MODEL or asked.facts.difference or asked.other_tokens:
        return _unchecked("tensorrt-llm", asked)
    return _accepts(
        "tensorrt-llm", "Asks for one tokenizer; its checks were not read.", _TRT_SOURCE
    )


def _unequal_entries(facts: VocabularyFacts) -> int:
    return (facts.ids_that_differ or 0) + (facts.only_in_target or 0) + (facts.only_in_draft or 0)


def _accepts(engine: str, text: str, source: str = "") -> EngineAnswer:
    return EngineAnswer(engine=engine, accepts=True, text=text, source=source)


def _refuses(engine: str, text: str, source: str) -> EngineAnswer:
    return EngineAnswer(engine=engine, accepts=False, text=text, source=source)


def _unchecked(engine: str, asked: Asked) -> EngineAnswer:
    what = f"{asked.method.value} on it"
    if asked.other_tokens:
        what = "a draft with other tokens"
    if asked.facts.difference:
        what = "a draft with another vocab_size"
    return EngineAnswer(engine=engine, accepts=None, text=f"Nobody checked {what}.")


ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine("vllm", _vllm),
        Engine("sglang", _sglang),
        Engine("llama.cpp", _llama_cpp("llama.cpp", _LLAMA_LIMIT, _LLAMA_SOURCE)),
        Engine(
            _LLAMA_2024,
            _llama_cpp(_LLAMA_2024, _LLAMA_LIMIT_2024, "QwenLM/Qwen3#326, 2024-04"),
        ),
        Engine("mlc-llm", _mlc),
        Engine("tensorrt-llm", _tensorrt_llm),
    )
}
"""Engines by the name that ``--engine`` takes."""

_ALIASES = {
    "llamacpp": "llama.cpp",
    "llama": "llama.cpp",
    "mlc": "mlc-llm",
    "mlcllm": "mlc-llm",
    "trtllm": "tensorrt-llm",
    "tensorrtllm": "tensorrt-llm",
    "sgl": "sglang",
}
