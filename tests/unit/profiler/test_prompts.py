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
        (b"caf\xe9\n", "byte 3 is 0xe9"),
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
