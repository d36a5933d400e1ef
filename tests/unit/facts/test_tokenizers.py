"""Every way of shipping a vocabulary gives the same map from id to text."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from capplan.errors import CheckpointError
from capplan.facts.tokenizers import read_tokenizer


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(0x80 | (value & 0x7F))
        value >>= 7
    return bytes([*out, value])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def sentencepiece(pieces: list[tuple[str, int]]) -> bytes:
    """A model as protobuf: text, a 32-bit score, and the type where it is not the default."""
    body = b""
    for text, kind in pieces:
        score = varint(2 << 3 | 5) + b"\x00\x00\x80\xbf"
        named = varint(3 << 3) + varint(kind) if kind != 1 else b""
        body += field(1, field(1, text.encode()) + score + named)
    return body + field(2, b"trainer settings are not read")


def tokenizer_json(folder: Path, vocab: object, added: list[dict[str, object]]) -> None:
    content = {"model": {"type": "BPE", "vocab": vocab}, "added_tokens": added}
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")


def test_added_tokens_belong_to_the_vocabulary(tmp_path: Path) -> None:
    added = [{"id": 3, "content": "<|eot|>", "special": True}]
    tokenizer_json(tmp_path, {"a": 0, "b": 1, "c": 2}, added)
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert facts.size == 4  # len(tokenizer), not tokenizer.vocab_size, which is 3
    assert facts.tokens[3] == "<|eot|>"
    assert facts.added == {3}
    assert facts.top_id == 3


def test_a_unigram_vocabulary_is_numbered_by_place(tmp_path: Path) -> None:
    tokenizer_json(tmp_path, [["<unk>", 0.0], ["▁a", -1.5], ["b", -2]], [])
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert dict(facts.tokens) == {0: "<unk>", 1: "▁a", 2: "b"}


def test_vocab_json_takes_added_tokens_from_both_old_and_new_places(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 1}))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<old>": 2}))
    config = {"added_tokens_decoder": {"3": {"content": "<new>", "special": True}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert dict(facts.tokens) == {0: "a", 1: "b", 2: "<old>", 3: "<new>"}


def test_tiktoken_bytes_read_as_byte_level_bpe_writes_them(tmp_path: Path) -> None:
    raw = [b"a", b" ab", "é".encode(), b"\n"]
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(raw)]
    (tmp_path / "qwen.tiktoken").write_text("".join(lines))
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert dict(facts.tokens) == {0: "a", 1: "Ġab", 2: "Ã©", 3: "Ċ"}
    assert not facts.added_known


def test_tokenizer_model_may_be_tiktoken_ranks(tmp_path: Path) -> None:
    # Llama 3 ships ranks under the name that Llama 2 used for a SentencePiece model.
    (tmp_path / "tokenizer.model").write_bytes(base64.b64encode(b"!") + b" 0\n")
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert facts.kind == "tiktoken"
    assert dict(facts.tokens) == {0: "!"}


def test_a_sentencepiece_model_is_read_without_its_library(tmp_path: Path) -> None:
    pieces = [("<unk>", 2), ("<s>", 3), ("<0x0A>", 6), ("▁the", 1), ("é", 1)]
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece(pieces))
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert [facts.tokens[i] for i in range(5)] == [text for text, _ in pieces]
    assert facts.added == {0, 1}


def test_tekken_puts_special_tokens_before_the_ranks(tmp_path: Path) -> None:
    content = {
        "config": {"default_vocab_size": 4, "default_num_special_tokens": 2},
        "vocab": [
            {"rank": 0, "token_bytes": base64.b64encode(b"x").decode(), "token_str": "x"},
            {"rank": 1, "token_bytes": base64.b64encode(b" y").decode(), "token_str": " y"},
            {"rank": 2, "token_bytes": base64.b64encode(b"cut off").decode()},
        ],
        "special_tokens": [{"rank": 0, "token_str": "<unk>"}, {"rank": 1, "token_str": "<s>"}],
    }
    (tmp_path / "tekken.json").write_text(json.dumps(content))
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert dict(facts.tokens) == {0: "<unk>", 1: "<s>", 2: "x", 3: "Ġy"}


def test_a_word_list_is_numbered_by_line(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\nthe\n", encoding="utf-8")
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert facts.tokens[2] == "the"


def test_tokenizer_json_is_preferred_to_older_files(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"old": 0}))
    tokenizer_json(tmp_path, {"new": 0}, [])
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert facts.tokens[0] == "new"


def test_a_tokenizer_config_alone_gives_its_special_tokens(tmp_path: Path) -> None:
    config = {"added_tokens_decoder": {"7": {"content": "<eot>", "special": True}}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    facts = read_tokenizer(tmp_path)
    assert facts is not None
    assert dict(facts.tokens) == {7: "<eot>"}
    assert not facts.trained_known
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 4096}')
    assert read_tokenizer(tmp_path) is None


def test_a_folder_without_a_tokenizer_gives_none(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tokenizer.json", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        ("tokenizer.json", b'{"model": {"vo', "not a tokenizer"),
        ("tokenizer.json", b"[]", "not a tokenizer"),
        ("tokenizer.json", b'{"model": {"vocab": {}}}', "no tokens"),
        ("vocab.json", b'["a"]', "not a tokenizer"),
        ("tokenizer.model", b"\x0a\xff\x01cut", "not a tokenizer"),
        ("tokenizer.model", b"", "not a tokenizer"),
        ("a.tiktoken", b"YQ== zero\n", "not a tokenizer"),
        ("tokenizer.json", b"\xff\xfe", "not a tokenizer"),
    ],
)
def test_a_broken_tokenizer_is_an_error_that_names_the_file(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read_tokenizer(tmp_path)
    assert name in caught.value.message
    assert says in caught.value.message
    assert caught.value.remedy
