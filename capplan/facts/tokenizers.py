"""A checkpoint's tokenizer from its files, read as plain data: no ``tokenizers`` package.

Five ways in which vocabularies are shipped are understood: ``tokenizer.json``, ``tekken.json``,
``vocab.json`` or ``vocab.txt`` with added tokens, tiktoken ranks and SentencePiece models. Of a
folder that has a ``tokenizer_config.json`` alone, the special tokens are read.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from capplan.errors import CheckpointError, UnreadableFileError
from capplan.facts.sentencepiece import read_pieces
from capplan.inputs.documents import read_json
from capplan.inputs.limits import TOKENIZER
from capplan.inputs.reading import read_bytes, read_start, read_text
from capplan.schema.tokenizer import TokenizerFacts

_LFS_POINTER = b"version https://git-lfs"
_CONFIG = "tokenizer_config.json"
_MOST_IDS = 2**31
_TIKTOKEN_LINE = re.compile(rb"[A-Za-z0-9+/=]+ \d+\s")


def read_tokenizer(folder: Path) -> TokenizerFacts | None:
    """Return the tokenizer of a checkpoint's folder; None if it ships none that is understood.

    Raises
    ------
    CheckpointError
        If a tokenizer file is there and cannot be read: cut, not JSON, a Git LFS pointer.
    """
    for names, reader in _READERS:
        for name in names:
            for path in sorted(folder.glob(name)):
                return _guarded(path, reader)
    config = folder / _CONFIG
    return _guarded(config, _specials_alone, may_be_empty=True) if config.is_file() else None


def _guarded(
    path: Path, reader: Callable[[Path], TokenizerFacts], *, may_be_empty: bool = False
) -> TokenizerFacts | None:
    try:
        start = read_start(path, len(_LFS_POINTER))
    except UnreadableFileError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.reason}.", "Check its permissions."
        ) from error
    if start == _LFS_POINTER:
        raise CheckpointError(
            f"{path} is a Git LFS pointer, not a tokenizer.", "Fetch the file with: git lfs pull"
        )
    try:
        facts = reader(path)
        _check_ids(facts.tokens)
    except UnreadableFileError as error:
        raise _not_a_tokenizer(path, error.reason) from error
    except (ValueError, KeyError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise _not_a_tokenizer(path, f"{type(error).__name__}: {str(error)[:200]}") from error
    if not facts.tokens and may_be_empty:
        return None
    if not facts.tokens:
        raise CheckpointError(f"{path} holds no tokens.", "Download the file again.")
    return facts


def _check_ids(tokens: Mapping[int, str]) -> None:
    wrong = next((number for number in tokens if not 0 <= number < _MOST_IDS), None)
    if wrong is not None:
        msg = f"a token has the id {wrong:.3g}, expected 0 to {_MOST_IDS:,}"
        raise ValueError(msg)


def _not_a_tokenizer(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"{path} is not a tokenizer that capplan reads ({why}).",
        "Download the file again, or remove it to compare sizes only.",
    )


def _json(path: Path) -> Any:
    return read_json(path, TOKENIZER, finite=False, bounded=False)


def _tokenizer_json(path: Path) -> TokenizerFacts:
    data = _json(path)
    vocabulary = data["model"]["vocab"]
    tokens = _by_id(vocabulary.items()) if isinstance(vocabulary, dict) else _by_place(vocabulary)
    added = {int(token["id"]): str(token["content"]) for token in data.get("added_tokens") or ()}
    kind = str(data["model"].get("type") or "tokenizer.json")
    return _facts(path, kind, tokens, added)


def _by_id(items: Iterable[tuple[str, int]]) -> dict[int, str]:
    return {int(number): text for text, number in items}


def _by_place(pieces: Iterable[tuple[str, float]]) -> dict[int, str]:
    """Return the pieces of a Unigram vocabulary, a list of (text, score)."""
    return dict(enumerate(str(piece[0]) for piece in pieces))


def _facts(
    path: Path, kind: str, tokens: Mapping[int, str], added: Mapping[int, str]
) -> TokenizerFacts:
    return TokenizerFacts(str(path), kind, {**tokens, **added}, frozenset(added))


def _vocab_json(path: Path) -> TokenizerFacts:
    return _facts(path, "BPE", _by_id(_json(path).items()), _added_beside(path))


def _vocab_txt(path: Path) -> TokenizerFacts:
    lines = read_text(path, TOKENIZER).splitlines()
    return _facts(path, "WordPiece", dict(enumerate(lines)), _added_beside(path))


def _added_beside(path: Path) -> dict[int, str]:
    """Return added tokens of older checkpoints, which keep them in files of their own."""
    found: dict[int, str] = {}
    old = path.with_name("added_tokens.json")
    if old.is_file():
        found.update(_by_id(_json(old).items()))
    config = path.with_name(_CONFIG)
    if config.is_file():
        decoder = _json(config).get("added_tokens_decoder") or {}
        found.update({int(number): str(token["content"]) for number, token in decoder.items()})
    return found


def _specials_alone(path: Path) -> TokenizerFacts:
    added = _added_beside(path)
    return TokenizerFacts(
        str(path), "special tokens", added, frozenset(added), trained_known=False
    )


def _tekken(path: Path) -> TokenizerFacts:
    """Mistral's own format: special tokens come first, ordinary ones after them by rank."""
    data = _json(path)
    config = data["config"]
    specials = int(config["default_num_special_tokens"])
    ordinary = int(config["default_vocab_size"]) - specials
    tokens = {
        specials + int(entry["rank"]): _visible(base64.b64decode(entry["token_bytes"]))
        for entry in data["vocab"]
        if int(entry["rank"]) < ordinary
    }
    named = data.get("special_tokens")
    added = {int(token["rank"]): str(token["token_str"]) for token in named or ()}
    return TokenizerFacts(
        str(path), "tekken", {**tokens, **added}, frozenset(added), added_known=named is not None
    )


def _model_file(path: Path) -> TokenizerFacts:
    """``tokenizer.model`` is a tiktoken list for Llama 3, a SentencePiece model for most."""
    raw = read_bytes(path, TOKENIZER)
    if _TIKTOKEN_LINE.match(raw[: raw.find(b"\n") + 1]):
        return _tiktoken(path)
    added = _added_beside(path)
    pieces = read_pieces(raw)
    tokens = {number: piece.text for number, piece in enumerate(pieces)}
    special = {number for number, piece in enumerate(pieces) if piece.special}
    return TokenizerFacts(
        str(path), "SentencePiece", {**tokens, **added}, frozenset(special | set(added))
    )


def _tiktoken(path: Path) -> TokenizerFacts:
    ranks = dict(_ranks(path))
    added = _added_beside(path)
    return TokenizerFacts(
        str(path), "tiktoken", {**ranks, **added}, frozenset(added), added_known=bool(added)
    )


def _ranks(path: Path) -> Iterator[tuple[int, str]]:
    for line in read_bytes(path, TOKENIZER).splitlines():
        if line.strip():
            token, rank = line.split()
            yield int(rank), _visible(base64.b64decode(token))


@cache
def _byte_letters() -> tuple[str, ...]:
    """Return the letter that stands for each byte in byte-level BPE, as GPT-2 defined them.

    Printable bytes stand for themselves, the other 68 for the letters from U+0100 on.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    spare = iter(range(256, 512))
    return tuple(chr(byte if byte in printable else next(spare)) for byte in range(256))


def _visible(raw: bytes) -> str:
    letters = _byte_letters()
    return "".join(letters[byte] for byte in raw)


_READERS: tuple[tuple[tuple[str, ...], Callable[[Path], TokenizerFacts]], ...] = (
    (("tokenizer.json",), _tokenizer_json),
    (("tekken.json",), _tekken),
    (("vocab.json",), _vocab_json),
    (("*.tiktoken", "tiktoken.model"), _tiktoken),
    (("tokenizer.model",), _model_file),
    (("vocab.txt",), _vocab_txt),
)
"""Files in the order in which they are trusted: the first is what engines load."""
