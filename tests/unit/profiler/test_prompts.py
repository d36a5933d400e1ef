"""Prompts: the shipped set, and every way in which a file can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from capplan.errors import PromptsError
from profiler.prompts import embedded_prompts, load_prompts


@pytest.fixture
def write(tmp_path: Path):
    def to_file(content: bytes | str) -> Path:
        path = tmp_path / "prompts.txt"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return to_file


def test_six_tasks_with_eight_distinct_prompts_each_are_shipped():
    prompts = embedded_prompts()
    assert set(prompts.tasks) == {"code", "qa", "maths", "creative", "translation", "summary"}
    for task in prompts.tasks:
        texts = {p.text for p in prompts.by_task[task]}
        assert len(texts) == 8
        assert all(30 <= len(text.split()) <= 150 for text in texts)


def test_plain_text_is_one_prompt_a_line_and_empty_lines_do_not_count(write):
    prompts = load_prompts(write("first\n\n  second  \n"))
    assert [(p.text, p.line) for p in prompts.by_task["custom"]] == [("first", 1), ("second", 3)]


def test_json_lines_may_name_a_task(write):
    prompts = load_prompts(write('{"prompt": "a", "task": "code"}\n{"prompt": "b"}\n'))
    assert prompts.tasks == ("code", "custom")


def test_a_byte_order_mark_is_no_part_of_the_first_prompt(write):
    assert load_prompts(write("\ufeffhello")).by_task["custom"][0].text == "hello"


def test_the_hash_depends_on_text_task_and_order(write):
    def hashed(text):
        return load_prompts(write(text)).sha256

    assert hashed("a\nb") == hashed("a\n\nb\n")
    assert hashed("a\nb") != hashed("b\na")
    assert hashed('{"prompt": "a"}') != hashed('{"prompt": "a", "task": "code"}')


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no prompts"),
        (b"\n \n", "holds no prompts"),
        (b"caf\xe9\n", "byte 3 is not UTF-8, but 0xe9"),
        (b'{"prompt": "a"}\n{"prompt": \n', "prompts.txt:2: not JSON"),
        (b'{"prompt": "a"}\nplain\n', "prompts.txt:2: not JSON"),
        (b'{"text": "a"}\n', 'prompts.txt:1: expected an object with "prompt"'),
        (b'{"prompt": "a"}\n[1]\n', "prompts.txt:2: expected an object"),
        (b'{"prompt": "a", "task": 3}\n', "prompts.txt:1: expected"),
    ],
)
def test_a_bad_file_is_an_error_that_names_the_place_and_the_remedy(write, content, message):
    with pytest.raises(PromptsError) as caught:
        load_prompts(write(content))
    assert message in caught.value.message
    assert caught.value.remedy


def test_a_missing_file_is_an_error_not_a_traceback(tmp_path):
    with pytest.raises(PromptsError, match="No such file"):
        load_prompts(tmp_path / "absent")


SPEC_BENCH = (
    '{"question_id": 81, "category": "writing", "turns": ["Write a post.", "Rewrite it."]}\n'
    '{"question_id": 121, "category": "coding", "turns": ["Sort a list."], "reference": []}\n'
)
SHARE_GPT = (
    '[{"id": "a", "conversations": [{"from": "gpt", "value": "Hello"},'
    ' {"from": "human", "value": "What is a hash?"}, {"from": "gpt", "value": "It is"}]},\n'
    ' {"id": "b", "conversations": []},\n'
    ' {"id": "c", "conversations": [{"from": "human", "value": "And a tree?"}]}]'
)


def test_spec_bench_questions_are_tasks_by_category_with_their_first_turn(write):
    prompts = load_prompts(write(SPEC_BENCH))
    assert prompts.tasks == ("writing", "coding")
    assert [p.text for p in prompts.by_task["writing"]] == ["Write a post."]


def test_of_a_shared_chat_the_users_first_turn_is_taken_and_empty_chats_are_counted(write):
    prompts = load_prompts(write(SHARE_GPT))
    assert [p.text for p in prompts.by_task["custom"]] == ["What is a hash?", "And a tree?"]
    assert prompts.left_out == 1
    assert "1 conversations" in prompts.left_out_text


def test_chat_messages_may_hold_their_text_in_parts(write):
    row = (
        '{"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": '
        '[{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {}}]}]}\n'
    )
    assert load_prompts(write(row)).by_task["custom"][0].text == "Hi"


def test_a_line_that_begins_with_a_bracket_is_text(write):
    assert load_prompts(write("[INST] Say hi [/INST]\n")).tasks == ("custom",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"prompt": "a"}', "not a JSON array"),
        ('[{"conversations": []}]', "none of its 1 conversations"),
        ('[{"prompt": "a"}, 3]', "prompts.txt:2: expected"),
        ('{"turns": []}\n', "prompts.txt:1: expected"),
        ('{"turns": [7]}\n', "prompts.txt:1: expected"),
        ("[]", "holds no prompts"),
    ],
)
def test_a_collection_that_holds_no_prompt_is_refused(write, content, message):
    with pytest.raises(PromptsError) as caught:
        load_prompts(write(content))
    assert message in caught.value.message


def test_of_several_files_each_is_a_task_and_names_of_tasks_stand_behind_it(tmp_path):
    (tmp_path / "chat.txt").write_text("one\ntwo\n")
    (tmp_path / "bench.jsonl").write_text(SPEC_BENCH)
    paths = [tmp_path / "chat.txt", tmp_path / "bench.jsonl"]
    prompts = load_prompts(paths)
    assert prompts.tasks == ("chat", "bench/writing", "bench/coding")
    assert prompts.source == "chat.txt, bench.jsonl"
    assert load_prompts(paths[:1]).tasks == ("custom",)


def test_two_files_of_one_name_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "chat.txt").write_text("one\n")
    with pytest.raises(PromptsError, match="called 'chat'"):
        load_prompts([tmp_path / "a" / "chat.txt", tmp_path / "b" / "chat.txt"])
