"""Prompts to let the target write on: composed from word lists, seeded, for six kinds of task.

They are ours, written for this purpose. The prompts that capplan ships to measure acceptance
with are the test set: :func:`near_copy` keeps everything away that shares a phrase with them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence

from demo_draft.words import WORDS

PASSAGE_SHARE = 0.7
"""So many texts to translate or to summarise come from what the target wrote before."""
PHRASE_WORDS = 7
"""A prompt that shares this many words in a row with a test prompt counts as a near copy."""

TEMPLATES: dict[str, tuple[str, ...]] = {
    "code": (
        "Write a {language} function that {code_job}.",
        "Write a {language} function that {code_job}. Add {code_extra}.",
        "How do I write a program in {language} that {code_job}?",
        "Show me a short {language} example that {code_job}, and explain how it works.",
        "Implement a class {code_class} in {language} with the methods {method} and {method2}. "
        "Add {code_extra}.",
        "Write one SQL query on the table {table} that {sql_job}.",
        "I have the tables {table} and {table2}. Write an SQL query that {sql_job}.",
        "Here is a function:\n\n{snippet}\n\nRewrite it so that it {code_change}, and explain "
        "the change in one sentence.",
        "What does this code do?\n\n{snippet}\n\nExplain it step by step.",
        "Write a shell script that {shell_job}. Print a usage line if an argument is missing.",
        "Give me a regular expression that matches {pattern}, and wrap it in a {language} "
        "function.",
        "Write unit tests for this function:\n\n{snippet}",
        "Find the mistake in this code and correct it:\n\n{snippet}",
    ),
    "qa": (
        "What is {concept}, and why does it matter?",
        "What is the difference between {concept} and {concept2}?",
        "Explain {concept} to {audience} in {length}.",
        "Why {why}? Please explain the reason in {length}.",
        "How does {concept} work? Give one example from everyday life.",
        "I would like to {goal} in {period}. How should I start, and what should I avoid?",
        "Somebody told me that {claim}. Is this true, and how do we know?",
        "What are the advantages and disadvantages of {topic}?",
        "Which questions should I ask before I {decision}, and what should I write down?",
        "List the steps of {process} in order, and say where it goes wrong most often.",
        "My {thing} {problem}. What could be the reason, and what can I do about it?",
        "Give me five tips to {goal}.",
    ),
    "maths": (
        "{name} buys {n1} {goods} for {n2} euros each and pays with {n3} euros. How much change "
        "does {name} get? Show each step.",
        "A {vehicle} travels {n4} kilometres in {n5} hours. What is its average speed, and how "
        "long does it take for {n3} kilometres?",
        "The price of a {product} is {n3} euros. It is lowered by {n1} percent and later raised "
        "by {n2} percent. What does it cost in the end?",
        "A bag holds {n1} red and {n2} green {goods}. Two are drawn without putting any back. "
        "What is the probability that both have the same colour?",
        "Solve the equation {n1}x + {n2} = {n4} and check the result.",
        "A rectangle is {n1} metres longer than it is wide, and its area is {n4} square metres. "
        "Set up an equation and find both sides.",
        "{name} saves {n3} euros a month at {n5} percent interest a year. How much money is "
        "there after {n5} years? Write down the formula first.",
        "One machine makes {n3} {goods} in {n5} hours, another in {n1} hours. How long do they "
        "take together?",
        "Find all whole numbers between {n1} and {n3} that can be divided by {n5}, and explain "
        "how you found them.",
        "The ages of {name} and {name2} add up to {n3}. {name} is {n5} years older. How old are "
        "they?",
        "Prove that {statement}.",
        "What is {n4} divided by {n5}, plus {n1} times {n2}? Show your work.",
    ),
    "creative": (
        "Write the opening of a short story in which {character} {event}. Use the {person} "
        "person.",
        "Write a poem of {count} stanzas about {image}. It should {poem_wish}.",
        "Write a dialogue between {character} and {character2} about {image}.",
        "Invent {place} where {rule}. Describe one day there.",
        "Write a letter from {character} to {character2} about {image}.",
        "Write a short speech for {occasion}. Mention {image}.",
        "Think of {count} names and slogans for {business}.",
        "Continue this beginning in the same mood: '{opening}'",
        "Write a short tale for children about {character} who {event}.",
        "Describe {image} as seen by {character}, in {length}.",
    ),
    "translation": (
        "Translate into {tongue}: '{passage}'",
        "Translate this {text_kind} into {tongue}, in a {tone} tone: '{passage}'",
        "Please translate the following {text_kind} into {tongue}: '{passage}'",
        "Translate into English: '{foreign}'",
        "Please translate this {text_kind} into English and keep it {tone}: '{foreign}'",
    ),
    "summary": (
        "Summarise this {text_kind} in {count} sentences:\n\n{passage}",
        "Give a summary of this {text_kind} for {audience}:\n\n{passage}",
        "Summarise the following {text_kind} as {count} bullet points:\n\n{passage}",
        "Write an abstract of not more than {n3} words for this text:\n\n{passage}",
        "What is the main point of this {text_kind}? Answer in one sentence.\n\n{passage}",
        "Summarise the text below in plain words:\n\n{passage}",
    ),
}

_SLOT = re.compile(r"\{([a-z_]+?)(\d?)\}")
_NUMBERS = {
    "1": (2, 20),
    "2": (2, 15),
    "3": (20, 200),
    "4": (30, 900),
    "5": (2, 12),
}
"""Ranges of the number slots ``{n1}`` to ``{n5}``."""


def compose(task: str, source: random.Random, passage: str | None = None) -> str:
    """Return one prompt of a task.

    Parameters
    ----------
    task
        A key of ``TEMPLATES``.
    source
        Where the choices come from.
    passage
        Text to translate or to summarise; two composed sentences by default.
    """
    chosen: dict[str, str] = {"passage": passage or compose_passage(source)}
    template = source.choice(TEMPLATES[task])
    return _SLOT.sub(lambda slot: _fill(slot.group(1), slot.group(2), chosen, source), template)


def compose_passage(source: random.Random, sentences: int = 2) -> str:
    """Return a few unrelated sentences."""
    parts = (source.choice(WORDS["sentence"]) for _ in range(sentences))
    return " ".join(
        _SLOT.sub(lambda slot: _fill(slot.group(1), slot.group(2), {}, source), part)
        for part in parts
    )


def _fill(kind: str, number: str, chosen: dict[str, str], source: random.Random) -> str:
    key = kind + number
    if key not in chosen:
        chosen[key] = _pick(kind, number, source)
    return chosen[key]


def _pick(kind: str, number: str, source: random.Random) -> str:
    if kind == "n":
        return str(source.randint(*_NUMBERS[number]))
    return source.choice(WORDS[kind])


def phrases(text: str, words: int = PHRASE_WORDS) -> set[tuple[str, ...]]:
    """Return every run of ``words`` words, without case and punctuation."""
    bare = re.findall(r"\w+", text.lower())
    return {tuple(bare[start : start + words]) for start in range(len(bare) - words + 1)}


def near_copy(test_prompts: Iterable[str]) -> Callable[[str], bool]:
    """Return a check whether a text shares a phrase with one of the test prompts."""
    known = set().union(*(phrases(prompt) for prompt in test_prompts))
    return lambda text: not known.isdisjoint(phrases(text))


def compose_many(
    tasks: Sequence[str],
    count: int,
    source: random.Random,
    is_forbidden: Callable[[str], bool],
    passages: Sequence[str] = (),
) -> list[str]:
    """Return ``count`` prompts, the tasks in turn, none of them a near copy of a test prompt."""
    prompts: list[str] = []
    seen: set[str] = set()
    while len(prompts) < count:
        passage = source.choice(passages) if passages and source.random() < PASSAGE_SHARE else None
        prompt = compose(tasks[len(prompts) % len(tasks)], source, passage)
        if prompt not in seen and not is_forbidden(prompt):
            seen.add(prompt)
            prompts.append(prompt)
    return prompts
