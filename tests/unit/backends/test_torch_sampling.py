from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from profiler.backends.torch_sampling import choose, distribution, draw  # noqa: E402
from profiler.protocol import SamplingPoint  # noqa: E402

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])


def sampling(temperature: float, top_p: float = 1.0, top_k: int = 0) -> SamplingPoint:
    return SamplingPoint(temperature, 1, 0, top_p=top_p, top_k=top_k)


def test_temperature_0_puts_everything_on_the_likeliest_token() -> None:
    assert distribution(LOGITS, sampling(0)).tolist() == [[1.0, 0.0, 0.0, 0.0]]


def test_temperature_divides_the_logits() -> None:
    expected = torch.softmax(LOGITS / 0.5, -1)
    torch.testing.assert_close(distribution(LOGITS, sampling(0.5)), expected)


def test_top_k_keeps_the_k_likeliest() -> None:
    probs = distribution(LOGITS, sampling(1, top_k=2))[0]
    torch.testing.assert_close(probs, torch.softmax(torch.tensor([2.0, 1.0, -1e9, -1e9]), -1))


def test_top_p_keeps_the_token_that_crosses_it() -> None:
    # Softmax of the logits is .644, .237, .087, .032.
    assert (distribution(LOGITS, sampling(1, top_p=0.60))[0] > 0).tolist() == [True, *[False] * 3]
    assert (distribution(LOGITS, sampling(1, top_p=0.70))[0] > 0).sum() == 2
    assert distribution(LOGITS, sampling(1, top_p=0.70)).sum() == pytest.approx(1)


def test_top_p_counts_what_top_k_left() -> None:
    # Of the two likeliest, renormalised to .731 and .269, the first reaches 0.7 alone.
    assert (distribution(LOGITS, sampling(1, top_p=0.7, top_k=2))[0] > 0).sum() == 1


def test_a_draw_inverts_the_cumulative_distribution() -> None:
    probs = torch.tensor([0.0, 0.25, 0.0, 0.75])
    points = torch.tensor([0.0, 0.2499, 0.25, 0.9999999999], dtype=torch.float64)
    assert draw(probs.expand(4, -1), points).tolist() == [1, 1, 3, 3]


def test_weights_need_not_be_normalised() -> None:
    weights = torch.tensor([[0.5, 1.5]])
    assert draw(weights, torch.tensor([0.2], dtype=torch.float64)).tolist() == [0]
    assert draw(weights, torch.tensor([0.3], dtype=torch.float64)).tolist() == [1]


def test_draws_have_the_frequencies_of_the_distribution() -> None:
    probs = distribution(LOGITS, sampling(1))
    numbers = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = draw(probs.expand(len(numbers), -1), numbers)
    seen = torch.bincount(drawn, minlength=4) / len(numbers)
    torch.testing.assert_close(seen, probs[0], atol=0.01, rtol=0)


def test_choosing_at_temperature_0_ignores_the_random_number() -> None:
    assert choose(LOGITS, sampling(0), torch.tensor([0.99])).tolist() == [0]
