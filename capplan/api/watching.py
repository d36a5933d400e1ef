"""Watching a live server: poll its metrics, compare with what was expected, advise."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from capplan.advice.serving_rules import notices_for
from capplan.advice.speculation_rules import FEW_DRAFTS
from capplan.api.expecting import Expectation
from capplan.errors import CapplanError, MetricsError, ServerError
from capplan.profiles.counter_checks import speculation_of
from capplan.profiles.engine_counters import EngineWindow, added, difference
from capplan.profiles.engine_reading import read_scrape
from capplan.profiles.engine_scrape import Scrape
from capplan.profiles.server_http import ServerAddress, get_metrics
from capplan.schema.watching import Notice, ServedFigures, State, WatchPoll

WINDOW_S = 60.0
"""Figures are of the last minute: long enough for hundreds of rounds, short enough to see now."""
_EARLIER_WINDOWS = 3
"""As many windows must lie behind before a fall is called one."""

Fetch = Callable[[ServerAddress], str]
MoreNotices = Callable[[ServedFigures], tuple[Notice, ...]]


@dataclass
class Watcher:
    """Polls one server; survives that it goes away or restarts.

    Parameters
    ----------
    address
        The server.
    expect
        What to expect at a load, from a profile or a plan.
    fetch
        How the metrics are fetched.
    window_s
        Length of the window that figures are taken over.
    clock
        Seconds that never go back.
    also
        A further rule, such as a comparison with an earlier profile.
    """

    address: ServerAddress
    expect: Expectation | None = None
    fetch: Fetch = get_metrics
    window_s: float = WINDOW_S
    clock: Callable[[], float] = time.monotonic
    also: MoreNotices | None = None
    _scrapes: deque[tuple[float, Scrape]] = field(default_factory=deque)
    _past: dict[str, list[ServedFigures]] = field(default_factory=dict)
    _kept_s: dict[str, float] = field(default_factory=dict)

    def poll(self) -> WatchPoll:
        """Ask the server once and say what was seen; never raises because the server fails."""
        try:
            # A whole answer is not cut, whether or not it ends in a line feed.
            scrape = read_scrape(self.fetch(self.address) + "\n")
        except (ServerError, MetricsError) as error:
            return self._said("gone", _in_one_line(error))
        now_s = self.clock()
        if not self._scrapes:
            self._scrapes.append((now_s, scrape))
            return self._said("starting", "first look; figures follow with the next")
        seen = difference(self._scrapes[-1][1], scrape)
        if seen.restarted or seen.missing:
            self._begin_again(now_s, scrape)
            what = "; ".join((*seen.restarted, *(f"{name} came or went" for name in seen.missing)))
            return self._said("restarted", f"{what}: counting begins anew")
        return self._window(now_s, scrape)

    def _window(self, now_s: float, scrape: Scrape) -> WatchPoll:
        while len(self._scrapes) > 1 and now_s - self._scrapes[1][0] >= self.window_s:
            self._scrapes.popleft()
        began_s, first = self._scrapes[0]
        self._scrapes.append((now_s, scrape))
        windows = _of_models(difference(first, scrape).windows)
        figures = tuple(
            self._completed(window, max(now_s - began_s, 1e-9), now_s) for window in windows
        )
        # TensorRT-LLM counts requests, and neither tokens nor drafts unless told to
        works = any(one.output_tokens or one.drafts or one.requests_per_s for one in figures)
        notices = tuple(notice for one in figures for notice in self._notices(one) if works)
        return self._said("up" if works else "idle", " ".join(scrape.notes), figures, notices)

    def _completed(self, window: EngineWindow, length_s: float, now_s: float) -> ServedFigures:
        """Return a window's figures with what was before and what was expected."""
        figures = figures_of(window, length_s)
        past = self._past.setdefault(figures.model, [])
        if len(past) >= _EARLIER_WINDOWS:
            figures = figures.model_copy(
                update={
                    "earlier_tokens_per_round": _median(one.tokens_per_round for one in past),
                    "earlier_prefix_hit_rate": _median(one.prefix_hit_rate for one in past),
                }
            )
        since_s = now_s - self._kept_s.get(figures.model, -self.window_s)
        if since_s >= self.window_s and (figures.drafts or 0) >= FEW_DRAFTS:
            past.append(figures)
            self._kept_s[figures.model] = now_s
        return with_expectation(figures, self.expect)

    def _notices(self, figures: ServedFigures) -> tuple[Notice, ...]:
        more = self.also(figures) if self.also is not None else ()
        return (*more, *notices_for(figures))

    def _begin_again(self, now_s: float, scrape: Scrape) -> None:
        self._scrapes.clear()
        self._scrapes.append((now_s, scrape))

    def _said(
        self,
        state: State,
        message: str = "",
        figures: tuple[ServedFigures, ...] = (),
        notices: tuple[Notice, ...] = (),
    ) -> WatchPoll:
        return WatchPoll(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            url=str(self.address),
            state=state,
            message=message,
            figures=figures,
            notices=notices,
        )


def figures_of(window: EngineWindow, length_s: float) -> ServedFigures:
    """Return one window's figures."""
    counts, _ = speculation_of(window)
    gauges, engines = window.gauges, len(window.engines)
    completed = window.counters.get("completed")
    step_total_s = window.sums.get("step")
    speculation = {}
    if counts is not None:
        speculation = {
            "num_speculative_tokens": counts.num_speculative_tokens,
            "acceptance_rate": counts.acceptance_rate,
            "position_rates": counts.cumulative_rates,
            "tokens_per_draft_round": counts.tokens_per_draft_round,
            "draft_share": min(counts.drafts / counts.rounds, 1.0) if counts.rounds else None,
        }
    hit_rate = window.prefix_hit_rate
    return ServedFigures(
        software=window.software,
        model=window.model,
        engines=engines,
        window_s=length_s,
        output_tokens=window.output_tokens,
        output_tokens_per_s=_over(window.output_tokens, length_s),
        requests_per_s=_over(completed, length_s),
        running=gauges.get("running"),
        waiting=gauges.get("waiting"),
        batch=None if step_total_s is None else step_total_s / length_s / engines,
        kv_usage=gauges.get("kv_usage"),
        prefix_hit_rate=None if hit_rate is None else min(hit_rate, 1.0),
        preemptions=window.counters.get("preemptions"),
        drafts=window.counters.get("drafts", counts.drafts if counts is not None else None),
        tokens_per_round=window.emitted_per_round,
        step_s=window.step_s,
        time_per_token_s=window.time_per_token_s,
        ttft_s=window.ttft_s,
        context_tokens=_context(window),
        **speculation,
    )


def with_expectation(figures: ServedFigures, expect: Expectation | None) -> ServedFigures:
    """Return the figures beside what was expected at this load."""
    expected = expect(figures) if expect is not None else None
    if expected is None:
        return figures
    actual = None
    if figures.time_per_token_s:
        actual = expected.baseline_step_s / figures.time_per_token_s
    return figures.model_copy(update={"expected": expected, "actual_speedup": actual})


def _context(window: EngineWindow) -> float | None:
    """Return the tokens a request holds halfway through its output, from means over requests."""
    requests, prompts, outputs = window.first_tokens, window.prompt_tokens, window.output_tokens
    if not requests or prompts is None or outputs is None:
        return None
    return (prompts + outputs / 2) / requests


def _of_models(windows: Iterable[EngineWindow]) -> list[EngineWindow]:
    groups: dict[tuple[str, str], list[EngineWindow]] = {}
    for window in windows:
        groups.setdefault((window.software, window.model), []).append(window)
    return [
        added([one for one in group if one.counters or one.counts] or group)
        for group in groups.values()
    ]


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _over(amount: float | None, length_s: float) -> float | None:
    return None if amount is None else amount / length_s


def _in_one_line(error: CapplanError) -> str:
    return " ".join(part for part in (error.message, error.remedy) if part)
