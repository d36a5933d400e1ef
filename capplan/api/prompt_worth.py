"""Prompts side by side: acceptance of each set, and what it is worth in dollars on a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from capplan.api.comparing import By, range_tables
from capplan.api.plans import plan_inputs
from capplan.api.standing import check_target, planned_option
from capplan.errors import ProfileError, RequestError
from capplan.estimate.acceptance_changes import TracedTask, task_contrast, traced_tasks
from capplan.estimate.comparison import changes, ratio_error
from capplan.estimate.curves import AcceptanceCurve
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.student import student_quantile
from capplan.planning.inputs import PlanInputs
from capplan.planning.reevaluation import reevaluate
from capplan.profiles.store import StoredProfile, load_profile
from capplan.reporting.plan_file import load_plan
from capplan.reporting.prompts_text import prompts_verdict
from capplan.schema.cells import DraftSampling
from capplan.schema.difference import Interval, PromptComparison, PromptFigure, PromptWorth
from capplan.schema.plan import Plan, PlanOption, PlanRequest
from capplan.schema.quantity import Quantity

DEFAULT_LENGTH = 3
_ERROR = 0.05


@dataclass(frozen=True)
class PromptWishes:
    """What to compare.

    Attributes
    ----------
    temperature
        The nearest that was traced; the plan's by default, else the coldest.
    num_speculative_tokens
        N; the plan's by default, else 3 (or the largest that was traced).
    by
        Also show acceptance by context or by hour.
    """

    temperature: float | None = None
    num_speculative_tokens: int | None = None
    by: tuple[By, ...] = ()


def compare_prompts(
    profile: StoredProfile | Path | str,
    plan: Plan | Path | str | None = None,
    wishes: PromptWishes | None = None,
) -> PromptComparison:
    """Set the prompts of a profile side by side: files, categories or tasks.

    Parameters
    ----------
    profile
        A profile with acceptance traces; ``--prompts`` given several times makes one a file.
    plan
        A plan of the same target: its recommended option is evaluated at each acceptance.
    wishes
        Temperature, N and further tables.

    Raises
    ------
    ProfileError
        If the profile traced nothing.
    RequestError
        If the plan has no option, does not speculate, or serves another LLM; if N is larger than
        what was traced.
    """
    wishes = wishes or PromptWishes()
    stored = profile if isinstance(profile, StoredProfile) else load_profile(profile)
    if plan is not None and not isinstance(plan, Plan):
        plan = load_plan(Path(plan))
    tasks = _chosen(stored, plan, wishes)
    n = _length(tasks, plan, wishes)
    notes: list[str] = []
    worth = _Worth.of(plan, stored, n) if plan is not None else None
    if worth is not None and worth.note:
        notes.append(worth.note)
    figures = sorted(
        (_figure(task, n, worth) for task in tasks), key=lambda one: -one.tokens_per_round.mid
    )
    order = {figure.task: place for place, figure in enumerate(figures)}
    pairs = combinations(sorted(tasks, key=lambda task: order[task.task]), 2)
    rows = changes(
        [[task_contrast(one, two, n, f"{one.task} -> {two.task}") for one, two in pairs]]
    )
    key = tasks[0].key
    found = PromptComparison(
        profile=stored.profile.id,
        target=stored.profile.target.spec.id,
        draft=_draft_name(stored),
        temperature=key.temperature,
        draft_sampling=key.draft_sampling.value if key.draft_sampling else "",
        num_speculative_tokens=n,
        figures=tuple(figures),
        differences=rows,
        plan_option=planned_option(plan).id if plan is not None else "",
        verdict="",
        ranges=tuple(range_tables([stored], n, wishes.by)),
        notes=tuple(notes),
    )
    return found.model_copy(update={"verdict": prompts_verdict(found)})


def _draft_name(stored: StoredProfile) -> str:
    draft = stored.profile.draft
    if draft is None:
        return "none"
    if hasattr(draft, "llm"):
        return draft.llm.spec.id
    return getattr(draft, "id", draft.method.value)


def _chosen(stored: StoredProfile, plan: Plan | None, wishes: PromptWishes) -> list[TracedTask]:
    """Return the tasks at one temperature and one way to draft."""
    tasks = traced_tasks(stored.profile, stored.arrays)
    tasks = [task for task in tasks if np.isfinite(task.tokens_per_round(1).value)]
    if not tasks:
        raise ProfileError(
            f"Profile {stored.profile.id} holds no acceptance trace: there are no prompts to "
            "compare.",
            "Profile with a draft and real weights: capplan profile ... --prompts A --prompts B",
        )
    wanted = wishes.temperature
    if wanted is None:
        wanted = plan.request.workload.temperature if plan is not None else 0.0
    nearest = min((task.key for task in tasks), key=lambda key: abs(key.temperature - wanted))
    return [task for task in tasks if task.key == nearest]


def _length(tasks: Sequence[TracedTask], plan: Plan | None, wishes: PromptWishes) -> int:
    longest = min(task.longest for task in tasks)
    n = wishes.num_speculative_tokens
    if n is None and plan is not None:
        n = planned_option(plan).num_speculative_tokens
        if n == 0:
            raise RequestError(
                "The plan recommends no speculation: acceptance is worth nothing on it.",
                "Leave --plan out, or plan with --method and --draft.",
            )
    if n is None:
        return min(DEFAULT_LENGTH, longest)
    if not 1 <= n <= longest:
        raise RequestError(
            f"N = {n} was asked for, the profile can answer 1 to {longest}.",
            "Profile with that length (--length), or choose another.",
        )
    return n


def _figure(task: TracedTask, n: int, worth: _Worth | None) -> PromptFigure:
    tokens = task.tokens_per_round(n)
    error, degrees = ratio_error(tokens.parts)
    relative = error / tokens.value
    value, why = worth.at(task.task, tokens.value, relative, degrees) if worth else (None, "")
    return PromptFigure(
        task=task.task,
        requests=task.requests,
        tokens_per_round=_spread(tokens.value, _reach(relative, degrees), n),
        acceptance_rate=task.acceptance_rate(n).value,
        worth=value,
        worth_missing=why,
    )


def _reach(relative_error: float, degrees: float) -> float:
    """Return how far a 95 % interval reaches, as a logarithm."""
    return student_quantile(_ERROR, degrees) * relative_error if degrees > 0 else float("inf")


def _spread(mid: float, reach: float, n: int) -> Quantity:
    """Return an interval within what a round can emit: 1 to N + 1 tokens."""
    factor = float(np.exp(min(reach, 50.0)))
    return Quantity(low=max(mid / factor, min(mid, 1.0)), mid=mid, high=min(mid * factor, n + 1.0))


@dataclass(frozen=True)
class _Worth:
    """A plan's option, ready to be evaluated at other acceptance."""

    inputs: PlanInputs
    request: PlanRequest
    option: PlanOption
    evidence: ProfileEvidence
    temperature: float
    n: int
    together_usd: float
    """Unrounded dollars a month at the acceptance of all prompts together."""
    note: str

    @classmethod
    def of(cls, plan: Plan, stored: StoredProfile, n: int) -> _Worth:
        check_target(plan, stored)
        temperature = plan.request.workload.temperature
        option = planned_option(plan).model_copy(update={"num_speculative_tokens": n})
        request, inputs = plan_inputs(plan.request, [stored])
        evidence = evidence_from_profile(stored.profile, stored.arrays)
        together = _curve(evidence, temperature, None)
        now = reevaluate(inputs, request, option, together)
        planned = planned_option(plan).usd_per_month.mid
        note = f"at the acceptance of all prompts together: {now.why_not}" if now.why_not else ""
        if now.option is not None and now.option.usd_per_month.mid != planned:
            note = (
                f"the plan's file says {planned:,.0f} USD a month; with this profile's acceptance "
                f"of all prompts together the same option costs "
                f"{now.option.usd_per_month.mid:,.0f}"
            )
        usd = now.unrounded_usd_per_month
        return cls(inputs, request, option, evidence, temperature, n, usd, note)

    def at(
        self, task: str, tokens: float, relative_error: float, degrees: float
    ) -> tuple[PromptWorth | None, str]:
        """Return the option's bill at a task's acceptance, or why there is none."""
        curve = _curve(self.evidence, self.temperature, task)
        if curve is None:
            return None, "no acceptance curve"
        mid = reevaluate(self.inputs, self.request, self.option, curve)
        if mid.option is None:
            return None, mid.why_not
        reach = _reach(relative_error, degrees)
        ends = _spread(tokens, reach, self.n)
        usd = mid.unrounded_usd_per_month
        moved = [self._unrounded(curve, end / tokens) for end in (ends.low, ends.high)]
        known = [usd, *(end for end in moved if np.isfinite(end))]
        dearest, cheapest = max(known), min(known)
        short = "" if len(known) == 3 else "an end of the interval breaks the plan's limits"
        return PromptWorth(
            usd_per_month=mid.option.usd_per_month,
            usd_per_month_unrounded=usd,
            saved_usd_per_month=Interval(
                low=self.together_usd - dearest,
                mid=self.together_usd - usd,
                high=self.together_usd - cheapest,
            ),
            speedup=mid.option.speedup,
            replicas=mid.option.replicas,
        ), short

    def _unrounded(self, curve: AcceptanceCurve, factor: float) -> float:
        """Return the dollars at an end of the interval; NaN where the limits break there."""
        most = np.arange(len(curve.tokens_per_round)) + 1.0
        tokens = np.clip(curve.tokens_per_round * factor, 1.0, most)
        moved = replace(curve, tokens_per_round=tokens)
        found = reevaluate(self.inputs, self.request, self.option, moved)
        return found.unrounded_usd_per_month


def _curve(
    evidence: ProfileEvidence, temperature: float, task: str | None
) -> AcceptanceCurve | None:
    for mode in DraftSampling:
        curve = evidence.curve(temperature, task, mode)
        if curve is not None:
            return curve
    return None
