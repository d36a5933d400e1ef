"""Three levels: the text is the target's, and every level counts what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from capplan.schema.cells import DraftSampling  # noqa: E402
from capplan.schema.measured_setup import NgramDraft  # noqa: E402
from profiler.backends.speculative import (  # noqa: E402
    LookupDrafter,
    NoDrafter,
    begin,
    decode,
)
from profiler.backends.speculative_three import (  # noqa: E402
    Levels,
    MeteredLlm,
    VerifiedDrafter,
)
from profiler.backends.speculative_three_runs import run_ways  # noqa: E402
from profiler.protocol import SamplingPoint  # noqa: E402

GREEDY = SamplingPoint(temperature=0, max_tokens=20, seed=0)
LENGTHS = [(1, 1), (2, 1), (4, 2), (5, 8), (8, 3)]


@pytest.fixture(scope="module", params=[0, 1, 2])
def trio(request: Any, tmp_path_factory: pytest.TempPathFactory, tiny_llms: Any) -> Any:
    """A random Llama of four layers, the same without one and without two of them."""
    folder = tmp_path_factory.mktemp("trio")
    target = tiny_llms.save_target(folder / "target", layers=4, seed=request.param)
    middle = tiny_llms.save_draft(target, folder / "middle")
    small = tiny_llms.save_draft(middle, folder / "small")
    return tuple(tiny_llms.load(one) for one in (target, middle, small))


@pytest.mark.parametrize("lengths", LENGTHS)
def test_at_temperature_0_the_text_is_plain_decodings(
    trio: Any, tiny_llms: Any, lengths: tuple[int, int]
) -> None:
    ways = {"plain": Levels(trio[:1], ()), "three": Levels(trio, lengths)}
    found = run_ways(ways, tiny_llms.prompts(5), GREEDY)
    assert found["three"].texts == found["plain"].texts
    assert max(map(len, found["plain"].texts)) > 5


def test_the_target_meets_the_middle_llm_as_if_it_drafted_alone(trio: Any, tiny_llms: Any) -> None:
    target, middle, _ = trio
    ways = {"middle": Levels((target, middle), (4,)), "three": Levels(trio, (4, 3))}
    found = run_ways(ways, tiny_llms.prompts(6), GREEDY)
    alone, three = found["middle"].levels[0], found["three"].levels[0]
    assert three.accepted_lengths == alone.accepted_lengths
    assert 0 < three.accepted < three.drafted


def test_counts_of_the_levels_fit_together(trio: Any, tiny_llms: Any) -> None:
    way = run_ways({"three": Levels(trio, (5, 3))}, tiny_llms.prompts(6), GREEDY)["three"]
    top, middle, small = way.levels
    assert top.drafted == middle.emitted == 5 * top.rounds == middle.rounds + middle.accepted
    assert middle.drafted == small.emitted == small.passes
    assert (top.passes, middle.passes) == (top.rounds, middle.rounds)
    assert small.rounds == 0
    assert top.emitted == sum(way.tokens_of) == sum(len(text) - 1 for text in way.texts)
    rates = middle.cumulative_rates(3)
    assert rates == sorted(rates, reverse=True)
    assert 1 + sum(rates) == pytest.approx(middle.tokens_per_round)
    assert sum(level.seconds for level in way.levels) < way.seconds
    assert way.token_s == pytest.approx(sum(way.seconds_of) / sum(way.tokens_of))


def test_nothing_is_drafted_that_the_target_does_not_take(trio: Any, tiny_llms: Any) -> None:
    # one token is proposed a round: the middle LLM writes it itself
    way = run_ways({"one": Levels(trio, (1, 8))}, tiny_llms.prompts(2), GREEDY)["one"]
    assert way.levels[2].emitted == way.levels[1].drafted == 0
    # two of them: at most one draft of eight is of use
    way = run_ways({"two": Levels(trio, (2, 8))}, tiny_llms.prompts(2), GREEDY)["two"]
    assert way.levels[2].emitted <= way.levels[0].rounds * 2
    assert max(way.levels[1].accepted_lengths) <= 1


def test_a_middle_llm_that_is_the_target_is_always_accepted(trio: Any, tiny_llms: Any) -> None:
    target, _, small = trio
    way = run_ways({"same": Levels((target, target, small), (4, 2))}, tiny_llms.prompts(4), GREEDY)
    top = way["same"].levels[0]
    assert top.accepted == top.drafted


def test_a_lookup_may_draft_for_the_middle_llm(trio: Any, tiny_llms: Any) -> None:
    target, middle, _ = trio
    lookup = NgramDraft(prompt_lookup_min=1, prompt_lookup_max=2)
    for prompt in tiny_llms.prompts(3):
        drafter = VerifiedDrafter(middle, LookupDrafter(lookup), 4, GREEDY, DraftSampling.GREEDY)
        text = decode(begin(target, drafter, prompt, GREEDY, 4), 4)
        assert text == decode(begin(target, NoDrafter(), prompt, GREEDY, 0), 0)
        assert drafter.emitted >= drafter.counts.rounds


def test_a_meter_counts_the_passes_since_its_reset(trio: Any) -> None:
    llm = MeteredLlm.of(trio[0], clock_s=iter(range(100)).__next__)
    for _ in range(3):
        llm.forward(llm.tensor([[1, 2]]), llm.new_cache(2), 1)
    # each pass reads the clock twice, one tick apart
    assert (llm.meter.passes, llm.meter.seconds) == (3, 3)
    llm.meter.reset()
    assert (llm.meter.passes, llm.meter.seconds) == (0, 0)


@pytest.mark.parametrize("lengths", [(), (3,), (3, 2, 1)])
def test_levels_need_one_length_fewer_than_llms(trio: Any, lengths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="3 LLMs"):
        Levels(trio, lengths)


@pytest.mark.slow
def test_the_demo_target_writes_the_same_with_three_levels() -> None:
    from capplan.errors import CheckpointError
    from profiler.backends.checkpoints import find_checkpoint
    from profiler.backends.embedded import demo_checkpoint
    from profiler.backends.embedded_draft import demo_draft
    from profiler.backends.torch_loading import load_llm
    from profiler.prompts import embedded_prompts

    try:
        folders: list[Path] = [demo_checkpoint(), demo_draft()]
    except CheckpointError as error:  # no network and nothing cached: nothing to test with
        pytest.skip(error.message)
    target, small = (
        load_llm(find_checkpoint(str(folder)), torch.device("cpu"), torch.float32)
        for folder in folders
    )
    middle = MeteredLlm.of(target)
    chat = [{"role": "user", "content": embedded_prompts().by_task["maths"][0].text}]
    ids = target.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    prompt = tuple(ids)
    cold = SamplingPoint(temperature=0, max_tokens=16, seed=0)
    ways = {"plain": Levels((target,), ()), "three": Levels((target, middle, small), (4, 3))}
    found = run_ways(ways, [prompt], cold)
    assert found["three"].texts == found["plain"].texts
    assert found["three"].levels[1].accepted > 0
