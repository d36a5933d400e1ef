"""Responses of an engine that hold the speculation of their own request.

vLLM (``--per-request-spec-decode-metrics summary|detailed``) puts under
``metrics.speculative_decoding`` how many steps accepted 0, 1 .. N tokens. Responses of one N are
added up; each request stays a cluster of its own, so that an interval can be drawn from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields
from capplan.profiles.importers.reading import Reading, Stated, contradiction
from capplan.schema.observation import Flag, Observation, SpeculationCounts

FORMAT = "vllm-request-metrics"
_HISTOGRAM = "acceptance_histogram"
_STEPS = "num_spec_steps"
_PLACES = (
    ("metrics", "speculative_decoding"),
    ("response", "body", "metrics", "speculative_decoding"),
    ("speculative_decoding",),
    ("spec_decode_metrics",),
    (),
)
_DEEPEST = 3
_LONGEST = 1 + 255
"""Entries of a histogram: a step that accepts more tokens is none."""


@dataclass(frozen=True)
class _Request:
    histogram: tuple[float, ...]
    counts: Fields
    output_tokens: float | None
    model: str

    @property
    def steps(self) -> float:
        return sum(self.histogram)

    @property
    def accepted(self) -> float:
        return sum(accepted * steps for accepted, steps in enumerate(self.histogram))


def detect(document: Document) -> bool:
    """Whether the first value holds such metrics."""
    return any(_metrics(value) is not None for value in _responses(document)[:_DEEPEST])


def read(document: Document) -> Iterator[Reading]:
    """Yield one reading for each N among the responses."""
    requests: dict[int, list[_Request]] = {}
    odd: list[str] = []
    for value in _responses(document):
        metrics = _metrics(value)
        if metrics is not None:
            one = _request(Fields(value), metrics)
            odd += metrics.odd
            if 1 < len(one.histogram) <= _LONGEST:
                requests.setdefault(len(one.histogram) - 1, []).append(one)
    for n, group in sorted(requests.items()):
        yield _reading(n, group, document.name, len(requests) > 1, odd)


def _responses(document: Document) -> list[object]:
    values: list[object] = []
    for value in document.values:
        values += value if isinstance(value, list) else [value]
    return values


def _metrics(value: object) -> Fields | None:
    for path in _PLACES:
        found = Fields(value).section(*path)
        if _HISTOGRAM in found:
            return found
    return None


def _request(response: Fields, metrics: Fields) -> _Request:
    usage = response.first("usage", "response.body.usage")
    return _Request(
        histogram=metrics.counts(_HISTOGRAM),
        counts=metrics,
        output_tokens=usage.count("completion_tokens"),
        model=response.text("model"),
    )


def _reading(
    n: int, group: Sequence[_Request], source: str, several: bool, odd: Sequence[str]
) -> Reading:
    steps = sum(one.steps for one in group)
    accepted = sum(one.accepted for one in group)
    drafted = sum(_drafted(one, n) for one in group)
    tokens = [one.output_tokens for one in group]
    known = [count for count in tokens if count is not None]
    counts = None
    if steps and accepted <= drafted:
        counts = SpeculationCounts(
            num_speculative_tokens=n,
            drafts=steps,
            drafted=drafted,
            accepted=accepted,
            accepted_per_position=tuple(
                sum(sum(one.histogram[position:]) for one in group) for position in range(1, n + 1)
            ),
            by_request=tuple((one.steps, one.accepted) for one in group),
        )
    observation = Observation(
        source=source,
        format=FORMAT,
        part=f"N={n}" if several else "",
        model=next((one.model for one in group if one.model), ""),
        engine="vllm",
        completed=float(len(group)),
        output_tokens=sum(known) if len(known) == len(tokens) else None,
        speculation=counts,
    )
    flags = [flag for one in group for flag in _checks(one, n)]
    return Reading(observation, Stated(flags=_grouped(flags), odd=tuple(odd)[:20]))


def _drafted(one: _Request, n: int) -> float:
    stated = one.counts.count("num_draft_tokens")
    return stated if stated is not None else one.steps * n


def _checks(one: _Request, n: int) -> Iterator[Flag]:
    """Compare what the request states beside its histogram."""
    steps, drafted = one.steps, _drafted(one, n)
    if not steps:
        return
    pairs = (
        ("num_spec_steps", one.counts.count(_STEPS), steps),
        ("num_accepted_draft_tokens", one.counts.count("num_accepted_draft_tokens"), one.accepted),
        ("num_spec_tokens", one.counts.count("num_spec_tokens"), float(n)),
        ("mean_acceptance_length", one.counts.count("mean_acceptance_length"), _length(one)),
        ("draft_acceptance_rate", one.counts.count("draft_acceptance_rate"), _rate(one, drafted)),
    )
    for name, stated, counted in pairs:
        if stated is not None and abs(stated - counted) > _ROUNDED * max(counted, 1e-9):
            text = f"{name} is {stated:g}, the histogram gives {counted:g}"
            yield contradiction("histogram_contradicts", text)
    if drafted > steps * n * (1 + _ROUNDED):
        text = f"{drafted:g} tokens drafted in {steps:g} steps of at most {n}"
        yield contradiction("drafted_over_limit", text)
    yield from _cut(one, n)


_ROUNDED = 0.002


def _length(one: _Request) -> float:
    return 1.0 + one.accepted / one.steps


def _rate(one: _Request, drafted: float) -> float:
    return one.accepted / drafted if drafted else 0.0


def _cut(one: _Request, n: int) -> Iterator[Flag]:
    """Compare emitted tokens: the last step of a request yields more than there is room for."""
    if one.output_tokens is None:
        return
    excess = one.steps + one.accepted - one.output_tokens
    if -1.0 <= excess <= n:
        if excess > 0:
            yield Flag(
                check="cut_at_the_end",
                text=f"rounds yielded {excess:g} more tokens than the answer holds: its last "
                "round was cut",
            )
        return
    text = f"steps and accepted tokens make {one.steps + one.accepted:g}, the answer has "
    yield contradiction("tokens_differ", f"{text}{one.output_tokens:g} tokens")


def _grouped(flags: Sequence[Flag]) -> tuple[Flag, ...]:
    """Keep one flag a check, and say how many requests it is of."""
    by_check: dict[str, list[Flag]] = {}
    for flag in flags:
        by_check.setdefault(flag.check, []).append(flag)
    return tuple(
        found[0]
        if len(found) == 1
        else found[0].model_copy(update={"text": f"{found[0].text} (and {len(found) - 1} more)"})
        for found in by_check.values()
    )
