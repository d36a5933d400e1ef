"""Any point of an engine's plan, measured and entered."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.engine import RunningEngine
from profiler.engine_measures.steps import StepTimer
from profiler.engine_measures.texts import TextWriter
from profiler.engine_plan import EnginePoint, PrefillPoint, StepsPoint, TextPoint
from profiler.ledger import Ledger


@dataclass(frozen=True)
class EngineBench:
    """What times an engine and what lets it write."""

    timer: StepTimer
    texts: TextWriter

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
            self.timer.time_prompts(point, engine, ledger)
        elif isinstance(point, StepsPoint):
            self.timer.time_steps(point, plain, engine, ledger)
        elif isinstance(point, TextPoint):
            self.texts.write(point, plain, engine, ledger)
        else:
            self.texts.run_synthetic(point, plain, engine, ledger)
