"""Lines of a vLLM server's log beside those of acceptance: its settings, its throughput, V0.

The first engine (V0) prints totals since its start; of throughput every version prints means of
intervals of one length, ten seconds unless told otherwise.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from capplan.profiles.first_engine import of_rounds
from capplan.profiles.importers.fields import as_number
from capplan.profiles.importers.reading import Reading, Stated
from capplan.schema.observation import Flag, Load, Observation
from capplan.schema.pairing import Method

FORMAT = "vllm-log"
_THROUGHPUT = re.compile(
    r"(?:Engine (?P<engine>\d{1,9}): )?Avg prompt throughput: [\d.]+ tokens/s, "
    r"Avg generation throughput: (?P<tokens>[\d.]+) tokens/s, Running: (?P<running>\d{1,9}) reqs"
)
_TOTALS = re.compile(
    r"Number of speculative tokens: (?P<length>\d{1,3}), Number of accepted tokens: \d{1,15}, "
    r"Number of draft tokens: (?P<drafted>\d{1,15}), "
    r"Number of emitted tokens: (?P<emitted>\d{1,15})"
)
_MODEL = re.compile(r"with config: model='(?P<model>[^']{1,300})'")
_VERSION = re.compile(r"LLM engine \(v(?P<version>[\w.+-]{1,60})\)")
_DRAFTING = re.compile(
    r"speculative_config=SpeculativeConfig\(method='(?P<method>\w{1,40})', "
    r"model=(?:None|'(?P<draft>[^']{1,300})')"
)
_GPUS = re.compile(r"tensor_parallel_size=(\d{1,4}), pipeline_parallel_size=(\d{1,4})")


@dataclass(frozen=True)
class Settings:
    """What an engine prints of its configuration when it starts."""

    model: str = ""
    draft: str = ""
    method: Method | None = None
    engine_version: str = ""
    gpu_count: int | None = None


@dataclass
class OtherLines:
    """What was found of them, without the lines themselves."""

    settings: list[Settings] = field(default_factory=list)
    throughput: dict[str, list[tuple[float, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Tokens a second and running requests of each interval, engine by engine."""
    totals: list[tuple[int, float, float]] = field(default_factory=list)
    """N, drafted and emitted tokens as the first engine printed them last, a run each."""

    def take(self, line: str) -> bool:
        """Read a line; False if it is none of these."""
        if match := _THROUGHPUT.search(line):
            tokens_per_s = as_number(match["tokens"].rstrip("."))
            if tokens_per_s is not None:
                engine = match["engine"] or ""
                self.throughput[engine].append((tokens_per_s, int(match["running"])))
        elif match := _TOTALS.search(line):
            self._take_totals(int(match["length"]), float(match["drafted"]), match["emitted"])
        elif match := _MODEL.search(line):
            self.settings.append(_settings(match["model"], line))
        else:
            return False
        return True

    def _take_totals(self, length: int, drafted: float, emitted: str) -> None:
        if self.totals and self.totals[-1][0] == length and self.totals[-1][1] <= drafted:
            self.totals.pop()
        if length and drafted:
            self.totals.append((length, drafted, float(emitted)))

    def known(self) -> dict[str, object]:
        """Return the settings as fields of an observation; empty if there were several."""
        if len(set(self.settings)) != 1:
            return {}
        only = self.settings[0]
        found = {
            "model": only.model,
            "draft": only.draft,
            "method": only.method,
            "engine_version": only.engine_version,
            "gpu_count": only.gpu_count,
        }
        return {name: value for name, value in found.items() if value}

    def readings(self, source: str) -> Iterator[Reading]:
        """Yield a reading for each run of the first engine, else for each engine's throughput."""
        if self.totals:
            for length, drafted, emitted in self.totals:
                yield _of_totals(length, drafted, emitted, source)
            return
        for engine, intervals in sorted(self.throughput.items()):
            busy = [one for one in intervals if one[0] > 0]
            if busy:
                yield _of_throughput(engine, busy, source)


def _settings(model: str, line: str) -> Settings:
    drafting, version, gpus = _DRAFTING.search(line), _VERSION.search(line), _GPUS.search(line)
    return Settings(
        model=model,
        draft=(drafting["draft"] or "") if drafting else "",
        method=_method(drafting["method"]) if drafting else None,
        engine_version=version["version"] if version else "",
        gpu_count=int(gpus[1]) * int(gpus[2]) or None if gpus else None,
    )


def _method(name: str) -> Method | None:
    """Return a method by vLLM's name; it has one of its own for each LLM's MTP."""
    if name.endswith("mtp"):
        return Method.MTP
    return Method(name) if name in set(Method) else None


def _of_totals(length: int, drafted: float, emitted: float, source: str) -> Reading:
    counts, flags = of_rounds(drafted, emitted, length)
    observation = Observation(source=source, format=FORMAT, engine="vllm", speculation=counts)
    since_start = Flag(
        check="since_start",
        text="totals since the engine's start, not of a window: warm-up and other loads are in",
        remedy="Restart the server before the benchmark.",
    )
    return Reading(observation, Stated(flags=(since_start, *flags)))


def _of_throughput(engine: str, busy: Sequence[tuple[float, int]], source: str) -> Reading:
    observation = Observation(
        source=source,
        format=FORMAT,
        part=f"Engine {engine}" if engine else "",
        engine="vllm",
        load=Load(
            mean_concurrency=sum(running for _, running in busy) / len(busy),
            peak_concurrency=float(max(running for _, running in busy)),
        ),
        output_tokens_per_s=sum(tokens for tokens, _ in busy) / len(busy),
    )
    means = Flag(
        check="printed_means",
        text=f"{len(busy)} lines print means of their intervals; those without a token are left "
        "out, and requests are counted at the end of each",
        remedy="Save /metrics before and after, or take the benchmark client's own result.",
    )
    return Reading(observation, Stated(flags=(means,)))
