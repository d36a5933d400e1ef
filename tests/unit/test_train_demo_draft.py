"""The pieces of ``tools/train_demo_draft.py`` on a small random LLM."""

from __future__ import annotations

import random
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profiler.prompts import embedded_prompts

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from demo_draft import data, prompts, train, words, writer

PREFIX = [3, 1, 4]
END = 63
PLAN = data.Plan(seed=5, rows=12, max_tokens=12)
RECIPE = train.Recipe(
    layers=(0, 2), epochs=8, minutes=5, batch_rows=4, warm_up_steps=2, learning_rate=3e-3
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> Any:
    folder = tmp_path_factory.mktemp("tiny") / "target"
    tiny_llms.save_target(folder, layers=3, tie_word_embeddings=True)
    return tiny_llms.load(folder).model


@pytest.fixture(scope="module")
def author(target: Any) -> data.Author:
    def encode(text: str) -> list[int]:
        return PREFIX + [len(word) % END for word in text.split()][:20]

    def decode(ids: Any) -> str:
        return "The long road has no end at all. " * (1 + len(ids) // 3)

    return data.Author(writer.Writer(target, PREFIX, [END]), encode, decode, lambda _: False)


@pytest.fixture(scope="module")
def rows(author: data.Author, tmp_path_factory: pytest.TempPathFactory) -> list[writer.Written]:
    folder = tmp_path_factory.mktemp("text")
    for number in range(4):
        data.write_chunk(author, PLAN, number, folder)
    return list(data.read_all(folder))


def shipped_prompts() -> list[str]:
    return [one.text for group in embedded_prompts().by_task.values() for one in group]


def test_the_prompts_cover_the_tasks_that_acceptance_is_measured_on() -> None:
    assert set(prompts.TEMPLATES) == set(embedded_prompts().tasks)
    assert set(data.SHORT_TASKS + data.LONG_TASKS) == set(prompts.TEMPLATES)


@pytest.mark.parametrize("task", prompts.TEMPLATES)
def test_every_slot_of_a_template_is_filled(task: str) -> None:
    source = random.Random(1)
    slots = {f"{{{name}}}" for name in [*words.WORDS, "passage"]}
    for _ in range(300):
        text = prompts.compose(task, source)
        assert not any(slot in text for slot in slots)


def test_every_word_list_is_used() -> None:
    templates = [t for group in prompts.TEMPLATES.values() for t in group]
    text = " ".join([*templates, *words.WORDS["sentence"]])
    used = set(re.findall(r"\{([a-z_]+\d?)\}", text))
    # {name2} and its like have a list of their own only where the choices differ
    assert set(words.WORDS) - {"sentence"} <= used


def test_a_prompt_that_shares_a_phrase_with_the_test_set_is_found() -> None:
    is_copy = prompts.near_copy(shipped_prompts())
    for text in shipped_prompts():
        assert is_copy(text)
        assert is_copy(f"Dear friend, {text.upper()}")
    assert not is_copy("What is photosynthesis, and why does it matter?")


def test_composed_prompts_are_distinct_and_share_nothing_with_the_test_set() -> None:
    is_copy = prompts.near_copy(shipped_prompts())
    made = prompts.compose_many(tuple(prompts.TEMPLATES), 600, random.Random(0), is_copy)
    assert len(set(made)) == 600
    assert not any(is_copy(text) for text in made)


def test_passages_are_handed_to_the_tasks_that_need_a_text() -> None:
    passage = "Nothing else says this particular sentence."
    made = prompts.compose_many(data.LONG_TASKS, 60, random.Random(0), lambda _: False, [passage])
    assert 15 < sum(passage in text for text in made) < 60


def test_the_writer_writes_what_transformers_writes(target: Any) -> None:
    texts = [[9, 8], [7, 7, 5, 2, 30, 12], [1], [40, 41, 42]]
    prompt_rows = [PREFIX + text for text in texts]
    plain = writer.Writer(target, PREFIX, [END])
    source = torch.Generator().manual_seed(0)
    written = plain.write(prompt_rows, 10, [0.0] * 4, source)
    for row in written:
        known = torch.tensor([row.prompt + row.text])
        with torch.inference_mode():
            logits = target(known).logits[0, len(row.prompt) - 1 : -1]
        length = len(row.text)
        assert logits.argmax(-1).tolist() == row.text
        head = target.get_output_embeddings().weight
        states = torch.from_numpy(row.states).float()
        assert states.shape[0] == length
        assert torch.allclose(states @ head.T, logits, atol=0.05)
    assert any(len(row.text) == 10 for row in written)


def test_a_text_ends_at_the_end_token_and_its_neighbours_go_on(target: Any) -> None:
    texts = [[number, number + 1] for number in range(5, 45)]
    first = writer.Writer(target, PREFIX, [END])
    source = torch.Generator().manual_seed(0)
    whole = first.write([PREFIX + text for text in texts], 8, [0.0] * 40, source)
    stop = whole[0].text[2]
    shorter = writer.Writer(target, PREFIX, [stop])
    cut = shorter.write([PREFIX + text for text in texts], 8, [0.0] * 40, source)
    for before, after in zip(whole, cut, strict=True):
        text = before.text
        assert after.text == (text[: text.index(stop) + 1] if stop in text else text)


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        ([1, 2, 3, 1, 2, 3, 1, 2, 3], True),
        ([9, 9, 4, 5, 4, 5, 4, 5], True),
        ([1, 2, 3, 1, 2, 3, 1, 2], False),
        ([1, 2, 3, 4, 5], False),
        ([], False),
    ],
)
def test_a_text_loops_if_its_end_is_said_three_times(text: list[int], looping: bool) -> None:
    assert writer.is_looping(text) is looping


def test_an_interrupted_run_arrives_at_the_same_text(
    author: data.Author, rows: list[writer.Written], tmp_path: Path
) -> None:
    for number in (0, 2):
        data.write_chunk(author, PLAN, number, tmp_path)
    data.chunk_file(tmp_path, 2).unlink()  # as if killed before the second was there
    kept = data.chunk_file(tmp_path, 0).stat().st_mtime_ns
    for number in (0, 2):
        data.write_chunk(author, PLAN, number, tmp_path)
    assert data.chunk_file(tmp_path, 0).stat().st_mtime_ns == kept
    again = data.read_chunk(data.chunk_file(tmp_path, 2))
    expected = rows[2 * PLAN.rows : 3 * PLAN.rows]
    assert [(r.prompt, r.text) for r in again] == [(r.prompt, r.text) for r in expected]
    assert all((a.states == b.states).all() for a, b in zip(again, expected, strict=True))
    assert not list(tmp_path.glob("*.part"))


def test_another_seed_is_another_text(author: data.Author, tmp_path: Path) -> None:
    files = [
        data.write_chunk(author, replace(PLAN, seed=seed), 0, tmp_path / str(seed))
        for seed in (5, 6)
    ]
    one, other = ([row.prompt for row in data.read_chunk(file)] for file in files)
    assert one != other


def test_nothing_is_left_to_learn_for_the_whole_target(
    target: Any, rows: list[writer.Written]
) -> None:
    whole = train.new_draft(target, (0, 1, 2)).eval()
    head = target.get_output_embeddings().weight
    counts = train.agreement(whole, rows, head)
    assert sum(hits for hits, _ in counts) >= 0.99 * sum(tokens for _, tokens in counts)
    states = torch.from_numpy(rows[0].states).float()
    assert float(train.distillation_loss(states, states, head, 0.0)) == pytest.approx(0, abs=1e-4)


def test_training_lowers_the_loss_and_raises_the_agreement(
    target: Any, rows: list[writer.Written]
) -> None:
    before = {name: weight.clone() for name, weight in target.state_dict().items()}
    trainer = train.Trainer(target, rows, RECIPE)
    head = target.get_output_embeddings().weight
    untrained = sum(hits for hits, _ in train.agreement(trainer.draft, rows, head))
    losses: list[float] = []
    trainer.run(lambda _step, _progress, loss: losses.append(loss))
    assert len(losses) == trainer.total_steps == 8 * 12
    assert sum(losses[-8:]) < 0.8 * sum(losses[:8])
    assert sum(hits for hits, _ in train.agreement(trainer.draft, rows, head)) > 1.2 * untrained
    # embeddings, norm and the target itself stay as they were
    assert all(torch.equal(before[n], weight) for n, weight in target.state_dict().items())


def test_a_run_can_be_repeated(target: Any, rows: list[writer.Written]) -> None:
    def losses_of_a_run() -> list[float]:
        losses: list[float] = []
        trainer = train.Trainer(target, rows[:8], replace(RECIPE, epochs=2))
        trainer.run(lambda _step, _progress, loss: losses.append(loss))
        return losses

    assert losses_of_a_run() == losses_of_a_run()


def test_the_schedule_ends_when_the_time_is_over(target: Any, rows: list[writer.Written]) -> None:
    steps: list[int] = []
    trainer = train.Trainer(target, rows, replace(RECIPE, minutes=0.0))
    trainer.run(lambda step, _progress, _loss: steps.append(step))
    assert steps == []


def test_the_rate_rises_then_falls_to_nothing() -> None:
    recipe = train.Recipe(warm_up_steps=10, learning_rate=1.0)
    rates = [train.learning_rate(recipe, step, step / 100) for step in range(101)]
    assert rates[0] < rates[5] < rates[9]
    assert rates[20] > rates[50] > rates[90]
    assert rates[100] == pytest.approx(0, abs=1e-9)


def test_an_epoch_holds_every_row_once(rows: list[writer.Written]) -> None:
    batches = train.batches_of(rows, 5, random.Random(0))
    seen = [id(row) for batch in batches for row in batch]
    assert sorted(seen) == sorted(id(row) for row in rows)


def test_the_loss_covers_the_tokens_of_the_batch(rows: list[writer.Written]) -> None:
    recipe = replace(RECIPE, frequent_tokens=4, random_tokens=3)
    vocabulary = train.Vocabulary(rows, recipe, 64)
    batch = train.Batch.of(rows[:3])
    chosen = vocabulary.choose(batch.tokens, torch.Generator().manual_seed(0)).tolist()
    assert set(batch.tokens.tolist()) <= set(chosen)
    assert len(chosen) == len(set(chosen))
