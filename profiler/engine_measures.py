"""How one point of an engine is measured, and what of a profile was measured already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

from capplan.errors import ProfileError
from capplan.schema.pairing import Method
from capplan.schema.profile import Phase, Profile
from profiler.engine import Load, RunningEngine, Served, ServedLoad, TokenIds
from profiler.engine_cells import (
    ALL_TASKS,
    LogProbs,
    acceptance_cell,
    full_rounds,
    full_steps,
    losslessness_cell,
    prefill_seconds,
    rounds_cell,
    timing_cell,
)
from profiler.engine_plan import (
    LOOKUPS,
    EngineGrid,
    EnginePoint,
    PrefillPoint,
    StepsPoint,
    SyntheticPoint,
    TextPoint,
)
from profiler.ledger import Ledger

WARMUP_STEPS = 2
PREFILL_REPEATS = 5
FEWEST_STEPS = 3
SLICES = 2
"""Parts that the prompts are written in, plain and speculative text in turn."""
CONTROL_SEED = 1_000_003
"""Added to the seed of plain text for the check of the losslessness check."""
PERIOD_TOKENS = 8
"""Length of the passage that prompts repeat where lookup is timed: an LLM that has read it a dozen
times goes on with it, and the lookup finds its drafts. Few repetitions do not hold a small one."""
STRIDE_TOKENS = 97
"""Where in the shipped text the prompt of each further request begins."""


@dataclass(frozen=True)
class Texts:
    """Text of every prompt, in parts."""

    point: TextPoint
    served: tuple[ServedLoad, ...]


@dataclass
class EngineBench:
    """What every measurement needs, and the text that later ones are compared with."""

    grid: EngineGrid
    method: Method | None
    prompt_ids: Mapping[str, Sequence[TokenIds]]
    prompts_sha256: str
    seed: int
    longest: int
    graphs: bool
    max_context: int
    plain_texts: dict[float, tuple[ServedLoad, ...]] = field(default_factory=dict)
    unscored: list[Texts] = field(default_factory=list)

    def measure(
        self,
        point: EnginePoint,
        plain: RunningEngine | None,
        engine: RunningEngine,
        ledger: Ledger,
    ) -> None:
        """Measure one point and enter it.

        Parameters
        ----------
        point
            What to measure.
        plain
            The plain engine if it runs beside ``engine``, or is it.
        engine
            The engine in the point's own configuration.
        ledger
            Where the cells go; nothing is entered if the point fails.
        """
        if isinstance(point, PrefillPoint):
            self._prefill(point, engine, ledger)
        elif isinstance(point, StepsPoint):
            self._steps(point, plain, engine, ledger)
        elif isinstance(point, TextPoint):
            self._text(point, plain, engine, ledger)
        else:
            self._synthetic(point, plain, engine, ledger)

    def _prefill(self, point: PrefillPoint, engine: RunningEngine, ledger: Ledger) -> None:
        prompts = self._timing_prompts(PREFILL_REPEATS + 1, point.tokens)
        served = [engine.serve(Load([prompt], 1, 1, ignore_eos=True)) for prompt in prompts]
        seconds = prefill_seconds(served[1:])
        ledger.add_steps([timing_cell(Phase.PREFILL, 1, point.tokens, 0, seconds, graphs=False)])

    def _steps(
        self,
        point: StepsPoint,
        plain: RunningEngine | None,
        engine: RunningEngine,
        ledger: Ledger,
    ) -> None:
        """Time plain steps and rounds in turn; which goes first alternates."""
        length = point.num_speculative_tokens
        ends = point.context + self._steps_of_a_block() * (length + 1)
        if ends > self.max_context:
            raise ProfileError(f"It ends at {ends} tokens; at most {self.max_context} fit.")
        sides: list[tuple[RunningEngine, int]] = [(engine, length)]
        if length and plain is not None:
            sides.insert(0, (plain, 0))
        seconds: dict[int, list[float]] = {n: [] for _, n in sides}
        for block in range(self.grid.blocks):
            for side, n in sides if block % 2 == 0 else reversed(sides):
                seconds[n] += self._block(side, point, n)
        for n, values in seconds.items():
            if len(values) < FEWEST_STEPS:
                raise ProfileError(
                    f"Only {len(values)} of the steps with N={n} had {point.batch} requests with "
                    f"{n} drafts each; {FEWEST_STEPS} are needed."
                )
        ledger.add_steps(
            [
                timing_cell(
                    Phase.ROUND if n else Phase.DECODE,
                    point.batch,
                    n + 1,
                    point.context,
                    values,
                    graphs=self.graphs,
                )
                for n, values in seconds.items()
            ]
        )

    def _block(self, engine: RunningEngine, point: StepsPoint, length: int) -> list[float]:
        """Return the seconds of one block of steps of a full batch."""
        steps = self._steps_of_a_block()
        lookup = self.method in LOOKUPS
        prompts = self._timing_prompts(
            point.batch,
            max(1, point.context - self.grid.steps_per_block),
            period=PERIOD_TOKENS if lookup else None,
        )
        load = Load(
            prompts,
            point.batch,
            max_tokens=(steps + 2) * (length + 1),
            ignore_eos=True,
            max_steps=steps,
        )
        served = engine.serve(load).steps
        kept = (
            full_rounds(served, point.batch, length, lookup=lookup)
            if length
            else full_steps(served, point.batch)
        )
        settled = kept[WARMUP_STEPS - 1 :] if len(kept) > self.grid.steps_per_block else kept
        return [step.seconds for step in settled]

    def _steps_of_a_block(self) -> int:
        return self.grid.steps_per_block + WARMUP_STEPS

    def _text(
        self,
        point: TextPoint,
        plain: RunningEngine | None,
        engine: RunningEngine,
        ledger: Ledger,
    ) -> None:
        """Write every prompt with and without speculation, and enter what that shows."""
        theirs: list[ServedLoad] = []
        ours: list[ServedLoad] = []
        for number, part in enumerate(self._parts()):
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
            self.text_batch,
            {**about, "task": ALL_TASKS, "num_speculative_tokens": length},
        )
        if rounds is not None:
            ledger.put_rounds(rounds)
        if length == self.longest:
            for task, requests in self._by_task(texts.served).items():
                cell, arrays = acceptance_cell(
                    requests,
                    {
                        **about,
                        "task": task,
                        "max_num_speculative_tokens": length,
                        "prompts_sha256": self.prompts_sha256,
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
            again = [plain.serve(self._load(part, temperature, seed)) for part in self._parts()]
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
            plain.serve(self._load(part, temperature, self.seed)) for part in self._parts()
        )

    def score_waiting(self, plain: RunningEngine, ledger: Ledger) -> None:
        """Compare what was written while the plain engine could not run."""
        while self.unscored:
            self._compare(plain, self.unscored[0], ledger)
            self.unscored.pop(0)

    def _synthetic(
        self,
        point: SyntheticPoint,
        plain: RunningEngine | None,
        engine: RunningEngine,
        ledger: Ledger,
    ) -> None:
        """Run rounds whose acceptance is set; their text is worthless and thrown away."""
        if plain is not None:
            self.write_plain(plain, 0.0)
        ours = [engine.serve(self._load(part, 0.0, self.seed)) for part in self._parts()]
        cell = rounds_cell(
            self.plain_texts.get(0.0, ()),
            ours,
            self.text_batch,
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

    @property
    def text_batch(self) -> int:
        """Requests at once while text is written."""
        return min(self.grid.text_batch, min(map(len, self._parts())))

    def _load(self, prompts: Sequence[TokenIds], temperature: float, seed: int) -> Load:
        return Load(prompts, self.text_batch, self.grid.max_tokens, temperature, seed=seed)

    def _parts(self) -> list[list[TokenIds]]:
        """Return all prompts, tasks mixed, in equal parts."""
        everything = [ids for prompts in self.prompt_ids.values() for ids in prompts]
        count = SLICES if len(everything) >= SLICES * self.grid.text_batch else 1
        return [everything[start::count] for start in range(count)]

    def _by_task(self, served: Sequence[ServedLoad]) -> dict[str, list[Served]]:
        """Return the requests of each task."""
        finished = {one.generation.prompt_ids: one for load in served for one in load.requests}
        return {
            task: [finished[ids] for ids in prompts if ids in finished]
            for task, prompts in self.prompt_ids.items()
        }

    def _timing_prompts(
        self, count: int, tokens: int, period: int | None = None
    ) -> list[TokenIds]:
        """Return prompts of one length, cut from the real ones put end to end."""
        text = [token for prompts in self.prompt_ids.values() for ids in prompts for token in ids]
        made = []
        for number in range(count):
            start = number * STRIDE_TOKENS % len(text)
            turned = text[start:] + text[:start]
            passage = turned[:period] if period else turned
            made.append(tuple(islice(cycle(passage), tokens)))
        return made


def _scored(plain: RunningEngine, served: Sequence[ServedLoad]) -> LogProbs:
    return plain.score([one.generation for load in served for one in load.requests])


def measured_points(profile: Profile) -> set[EnginePoint]:
    """Return the points that a profile holds."""
    points: set[EnginePoint] = set()
    for timing in profile.timing:
        if timing.phase is Phase.PREFILL:
            points.add(PrefillPoint(timing.tokens_per_sequence))
        else:
            points.add(StepsPoint(timing.tokens_per_sequence - 1, timing.batch, timing.context))
    run = {
        (c.num_speculative_tokens, c.draft_sampling, c.temperature)
        for c in profile.rounds
        if c.task == ALL_TASKS
    }
    points |= {
        TextPoint(c.num_speculative_tokens, c.draft_sampling, c.temperature)
        for c in profile.losslessness
        if (c.num_speculative_tokens, c.draft_sampling, c.temperature) in run
    }
    points |= {
        SyntheticPoint(c.num_speculative_tokens, float(c.task.split()[1]))
        for c in profile.rounds
        if c.task.startswith("synthetic ")
    }
    return points
