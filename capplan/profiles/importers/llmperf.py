"""llmperf (ray-project): a summary, and the list of its single responses.

Its ``inter_token_latency_s`` is end to end over output tokens: the first token is in it. TPOT
without it follows from the means of end to end and first token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capplan.profiles.importers.document import Document
from capplan.profiles.importers.fields import Fields, spread, spread_of
from capplan.profiles.importers.reading import Reading, Stated
from capplan.schema.observation import Load, Observation, Spread

FORMAT = "llmperf"
_PER_MINUTE = 60.0
_ONE = "inter_token_latency_s"


def detect(document: Document) -> bool:
    """Whether the file is a summary or a list of responses."""
    value = document.value
    if isinstance(value, list):
        first = value[0] if value else None
        return isinstance(first, dict) and _ONE in first and "end_to_end_latency_s" in first
    return isinstance(value, dict) and any(
        str(key).startswith("results_inter_token_latency_s") for key in value
    )


def read(document: Document) -> Iterator[Reading]:
    """Yield the one run of the file."""
    value = document.value
    if isinstance(value, list):
        yield _responses([Fields(one) for one in value if isinstance(one, dict)], document.name)
    else:
        yield _summary(Fields(value), document.name)


def _summary(fields: Fields, source: str) -> Reading:
    per_minute = fields.positive("results_num_completed_requests_per_min")
    completed = fields.count("results_num_completed_requests")
    rate = per_minute / _PER_MINUTE if per_minute is not None else None
    prompt, output = (
        fields.count(f"results_number_{side}_tokens_mean") for side in ("input", "output")
    )
    ttft, e2e = _spread(fields, "ttft_s"), _spread(fields, "end_to_end_latency_s")
    observation = Observation(
        source=source,
        format=FORMAT,
        model=fields.text("model"),
        started_at=str(fields.raw("timestamp") or ""),
        # rates are printed, not the time they were taken over
        duration_s=completed / rate if completed and rate else None,
        load=Load(
            arrival="closed_loop",
            achieved_rate_per_s=rate,
            max_concurrency=fields.whole("num_concurrent_requests"),
            temperature=fields.count("additional_sampling_params_temperature"),
        ),
        completed=completed,
        failed=fields.count("results_number_errors"),
        prompt_tokens=prompt * completed if prompt is not None and completed else None,
        output_tokens=output * completed if output is not None and completed else None,
        output_tokens_per_s=fields.count("results_mean_output_throughput_token_per_s"),
        ttft_s=ttft,
        tpot_s=_without_first(ttft, e2e, output),
        e2e_s=e2e,
    )
    with_first = _spread(fields, _ONE)
    stated = Stated(
        requests_sent=fields.count("results_num_requests_started"),
        mean_prompt_tokens=prompt,
        asked_prompt_tokens=fields.positive("mean_input_tokens"),
        mean_output_tokens=output,
        tpot_with_first_s=with_first.mean if with_first is not None else None,
        latency_unit="s",
        prompt_text="synthetic text",  # lines of a sonnet, shuffled to a length
        odd=tuple(fields.odd),
    )
    return Reading(observation, stated)


def _spread(fields: Fields, name: str) -> Spread | None:
    parts: Mapping[str, Sequence[str]] = {
        "mean": (f"results_{name}_mean",),
        **{f"p{q}": (f"results_{name}_quantiles_p{q}",) for q in (50, 90, 95, 99)},
    }
    return spread(fields, parts, 1.0)


def _without_first(ttft: Spread | None, e2e: Spread | None, tokens: float | None) -> Spread | None:
    if ttft is None or e2e is None or ttft.mean is None or e2e.mean is None:
        return None
    if tokens is None or tokens <= 1 or e2e.mean < ttft.mean:
        return None
    return Spread(mean=(e2e.mean - ttft.mean) / (tokens - 1))


def _responses(rows: list[Fields], source: str) -> Reading:
    finished = [row for row in rows if row.raw("error_code") is None]
    columns = {name: _column(finished, name) for name in _COLUMNS}
    tokens = columns["number_output_tokens"]
    tpot = [
        (e2e - first) / (n - 1)
        for e2e, first, n in zip(
            columns["end_to_end_latency_s"], columns["ttft_s"], tokens, strict=False
        )
        if n > 1 and e2e >= first
    ]
    prompt = columns["number_input_tokens"]
    observation = Observation(
        source=source,
        format=FORMAT,
        part="responses",
        completed=float(len(finished)),
        failed=float(len(rows) - len(finished)),
        prompt_tokens=sum(prompt) if len(prompt) == len(finished) else None,
        output_tokens=sum(tokens) if len(tokens) == len(finished) else None,
        ttft_s=spread_of(columns["ttft_s"]),
        tpot_s=spread_of(tpot),
        e2e_s=spread_of(columns["end_to_end_latency_s"]),
    )
    count = max(len(finished), 1)
    stated = Stated(
        total_tokens=sum(columns["number_total_tokens"]) or None,
        mean_output_tokens=sum(tokens) / count if tokens else None,
        tpot_with_first_s=sum(columns[_ONE]) / count if columns[_ONE] else None,
        latency_unit="s",
        prompt_text="synthetic text",
        odd=tuple(place for row in finished for place in row.odd)[:20],
    )
    return Reading(observation, stated)


_COLUMNS = (
    "ttft_s",
    "end_to_end_latency_s",
    "number_output_tokens",
    "number_input_tokens",
    "number_total_tokens",
    _ONE,
)


def _column(rows: list[Fields], name: str) -> list[float]:
    return [value for row in rows if (value := row.count(name)) is not None]
