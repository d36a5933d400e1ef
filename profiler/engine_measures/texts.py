"""Text that an engine writes with and without speculation: rounds, acceptance, losslessness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from capplan.errors import ProfileError
from profiler.engine import Load, RunningEngine, ServedLoad, TokenIds
from profiler.engine_cells import (
    ALL_TASKS,
    LogProbs,
    acceptance_cell,
    losslessness_cell,
    rounds_cell,
)
from profiler.engine_measures.prompts import EnginePrompts
from profiler.engine_plan import SyntheticPoint, TextPoint
from profiler.ledger import Ledger

CONTROL_SEED = 1_000_003
"""Added to the seed of plain text for the check of the losslessness check."""


@dataclass(frozen=True)
class Texts:
    """Text of every prompt, in parts."""

    point: TextPoint
    served: tuple[ServedLoad, ...]


@dataclass
class TextWriter:
    """Writes text, and keeps the plain text that later text is compared with."""

    prompts: EnginePrompts
    max_tokens: int
    seed: int
    longest: int
    """The largest N of the plan: acceptance is traced there alone."""
    plain_texts: dict[float, tuple[ServedLoad, ...]] = field(default_factory=dict)
    """By temperature."""
    unscored: list[Texts] = field(default_factory=list)
    """Written while the plain engine could not run, still to be compared."""

    def write(
        self,
        point: TextPoint,
        plain: RunningEngine | None,
        engine: RunningEngine,
        ledger: Ledger,
    ) -> None:
        """Write every prompt with and without speculation, and enter what that shows."""
        theirs: list[ServedLoad] = []
        ours: list[ServedLoad] = []
        for number, part in enumerate(self.prompts.parts()):
            sides = [(plain, theirs), (engine, ours)]
            for side, into in sides if number % 2 == 0 else reversed(sides):
                if side is not None:
                    into.append(side.serve(self._load(part, point.temperature, self.seed)))
        if plain is None:
            theirs = list(self.plain_texts[point.temperature])
        texts = Texts(point, tuple(ours))
        self._enter(texts, theirs, ledger)
        if plain is not None:
            self.plain_texts[point.temperature] = tuple(theirs)
            self._compare(plain, texts, ledger)
        else:
            self.unscored.append(texts)

    def _enter(self, texts: Texts, theirs: Sequence[ServedLoad], ledger: Ledger) -> None:
        point = texts.point
        about = {
            "temperature": point.temperature,
            "draft_sampling": point.draft_sampling,
        }
        length = point.num_speculative_tokens
        rounds = rounds_cell(
            theirs,
            texts.served,
            self.prompts.at_once,
            {**about, "task": ALL_TASKS, "num_speculative_tokens": length},
        )
        if rounds is not None:
            ledger.put_rounds(rounds)
        if length == self.longest:
            for task, requests in self.prompts.of_task(texts.served).items():
                cell, arrays = acceptance_cell(
                    requests,
                    {
                        **about,
                        "task": task,
                        "max_num_speculative_tokens": length,
                        "prompts_sha256": self.prompts.sha256,
                        "seed": self.seed,
                    },
                )
                ledger.add_engine_trace(cell, arrays)

    def _compare(self, plain: RunningEngine, texts: Texts, ledger: Ledger) -> None:
        """Let the target score both texts; above temperature 0 its own other text too, once."""
        point, temperature = texts.point, texts.point.temperature
        theirs = self.plain_texts[temperature]
        scored = _scored(plain, theirs)
        control = temperature > 0 and not any(
            cell.num_speculative_tokens == 0 and cell.temperature == temperature
            for cell in ledger.profile.losslessness
        )
        if control:
            seed = self.seed + CONTROL_SEED
            again = [
                plain.serve(self._load(part, temperature, seed)) for part in self.prompts.parts()
            ]
            ledger.add_losslessness(
                losslessness_cell(
                    temperature, 0, None, (again, _scored(plain, again)), (theirs, scored)
                )
            )
        ledger.add_losslessness(
            losslessness_cell(
                temperature,
                point.num_speculative_tokens,
                point.draft_sampling,
                (texts.served, _scored(plain, texts.served)),
                (theirs, scored),
            )
        )

    def write_plain(self, plain: RunningEngine, temperature: float) -> None:
        """Write the text that speculative text is compared with."""
        self.plain_texts[temperature] = tuple(
            plain.serve(self._load(part, temperature, self.seed)) for part in self.prompts.parts()
        )

    def score_waiting(self, plain: RunningEngine, ledger: Ledger) -> None:
        """Compare what was written while the plain engine could not run."""
        while self.unscored:
            self._compare(plain, self.unscored[0], ledger)
            self.unscored.pop(0)

    def run_synthetic(
        self,
        point: SyntheticPoint,
        plain: RunningEngine | None,
        engine: RunningEngine,
        ledger: Ledger,
    ) -> None:
        """Run rounds whose acceptance is set; their text is worthless and thrown away."""
        if plain is not None:
            self.write_plain(plain, 0.0)
        ours = [engine.serve(self._load(part, 0.0, self.seed)) for part in self.prompts.parts()]
        cell = rounds_cell(
            self.plain_texts.get(0.0, ()),
            ours,
            self.prompts.at_once,
            {
                "task": f"synthetic {point.rate:g}",
                "temperature": 0.0,
                "draft_sampling": None,
                "num_speculative_tokens": point.num_speculative_tokens,
            },
        )
        if cell is None:
            raise ProfileError("No step had a full batch of rounds.")
        ledger.put_rounds(cell.model_copy(update={"identical_outputs": None}))

    def _load(self, prompts: Sequence[TokenIds], temperature: float, seed: int) -> Load:
        at_once = self.prompts.at_once
        return Load(prompts, at_once, self.max_tokens, temperature, seed=seed)


def _scored(plain: RunningEngine, served: Sequence[ServedLoad]) -> LogProbs:
    return plain.score([one.generation for load in served for one in load.requests])
