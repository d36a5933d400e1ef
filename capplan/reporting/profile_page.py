"""A profile as one HTML page: verdict, what was measured, and every table of the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from capplan.errors import CapplanError
from capplan.estimate.engine_rounds import is_engine_profile
from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.reporting import formatting as fmt
from capplan.reporting.appendix import point_views, summary_of
from capplan.reporting.observation_table import HEADERS, observation_rows
from capplan.reporting.page import render_page, source
from capplan.reporting.profile_figures import acceptance_figure, step_figure
from capplan.reporting.profile_rounds import (
    SHOWN_LENGTHS,
    acceptance_rows,
    round_rows,
    task_rows,
)
from capplan.reporting.profile_steps import engine_steps, pass_rows
from capplan.reporting.profile_text import draft_name
from capplan.reporting.request_view import moment
from capplan.reporting.tables import Section, Table
from capplan.schema.audit import GuidePoint, GuideTopic
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability
from capplan.units import BYTES_PER_GB

_STYLES = {Stability.STABLE: "measured", Stability.NOISY: "", Stability.INVALID: "assumed"}


def render_profile_page(
    profile: Profile,
    arrays: Mapping[str, NDArray[np.generic]],
    checklist: Sequence[GuidePoint] = (),
    same_text: Sequence[str] = (),
) -> str:
    """Return the page; figures are recomputed from raw values.

    Parameters
    ----------
    profile, arrays
        A profile and its raw arrays.
    checklist
        The guide's points applied to it.
    same_text
        What its check of the text says, a sentence a comparison.
    """
    sections, unusable = _sections(profile, arrays)
    if same_text:
        sections.append(Section("text", "Text unchanged by speculation", tuple(same_text)))
    sections += _closing(profile)
    return render_page(
        "profile.html.j2",
        scripts=(source("copy.js"),),
        data={"profile": profile.model_dump_json()},
        profile=profile,
        verdict=profile.verdict.stability.value,
        style_of_verdict=_STYLES[profile.verdict.stability],
        reasons=_reasons(profile),
        unusable=unusable,
        created=moment(profile.created_at),
        facts=_facts(profile),
        sections=sections,
        checklist=point_views(checklist, GuideTopic.CHECKLIST),
        troubleshooting=point_views(checklist, GuideTopic.TROUBLESHOOTING),
        checklist_summary=summary_of(checklist),
        next_command="capplan recommend --budget USD --profile FILE -o report.html",
    )


def _facts(profile: Profile) -> tuple[tuple[str, str], ...]:
    device, backend = profile.environment.device, profile.backend
    target = profile.target
    return (
        ("Target", f"{target.spec.id} ({target.dtype}, {target.weights} weights)"),
        ("Drafts", "none" if profile.draft is None else draft_name(profile.draft)),
        ("Machine", f"{device.count} x {device.name}{_memory_text(device.memory_bytes)}"),
        ("Engine", f"{backend.name} {backend.version}"),
        ("Complete", "yes" if profile.complete else "no: go on with --resume"),
        ("Profile", profile.id),
    )


def _memory_text(memory_bytes: float | None) -> str:
    return "" if memory_bytes is None else f", {fmt.gigabytes(memory_bytes)}"


def _reasons(profile: Profile) -> tuple[str, ...]:
    return tuple(
        f"{one.check}: {one.value:.3g} (limit {one.threshold:g}). {one.remedy}"
        for one in profile.verdict.reasons
    )


def _sections(
    profile: Profile, arrays: Mapping[str, NDArray[np.generic]]
) -> tuple[list[Section], str]:
    """Return what the raw values say, and why not where they cannot be used."""
    try:
        evidence = evidence_from_profile(profile, arrays)
    except CapplanError as error:
        return [], str(error)
    found = [_steps(evidence)]
    if evidence.traces:
        found.append(_acceptance(evidence))
    if profile.rounds:
        found.append(_rounds(evidence))
    return found, ""


def _steps(evidence: ProfileEvidence) -> Section:
    picture = step_figure(evidence)
    says: tuple[str, ...]
    error = f"Held-out error {evidence.target_step.relative_se:.1%}."
    if is_engine_profile(evidence.profile):
        found = engine_steps(evidence)
        table = Table(
            "Engine steps by batch",
            ("Requests at once", "Plain step, ms", *(f"Round N = {n}" for n in found.lengths)),
            tuple(
                (str(row.batch), f"{row.plain_ms:.2f}", *(f"{one:.2f}x" for one in row.rounds))
                for row in found.rows
            ),
        )
        lead = f"At a context of {found.context:,.0f} tokens, fit of {found.points} points."
        pays = "A round pays if it emits more tokens than it takes plain steps."
        says = (f"{lead} {error}", pays)
    else:
        rows = pass_rows(evidence)
        table = Table(
            "Passes by batch",
            ("Requests at once", "Decode, ms", "Verify 5 tokens / decode", "Cost ratio"),
            tuple(
                (
                    str(row.batch),
                    f"{row.decode_ms:.2f}",
                    f"{row.verification:.2f}",
                    "0 (lookup)" if row.cost_ratio is None else f"{row.cost_ratio:.3f}",
                )
                for row in rows
            ),
        )
        says = (f"Fit of the grid. {error}",)
    return Section("steps", "Step time", says, (picture,) if picture else (), (table,))


def _acceptance(evidence: ProfileEvidence) -> Section:
    rows = acceptance_rows(evidence)
    table = Table(
        "Tokens a round by temperature",
        ("Temperature", "Drafts", *(f"N = {n}" for n in SHOWN_LENGTHS)),
        tuple(
            (
                f"{row.temperature:g}",
                row.mode,
                *(f"{one.mid:.3f} ± {one.half:.3f}" if one else "-" for one in row.tokens),
            )
            for row in rows
        ),
        words=2,
    )
    coldest, length, tasks = task_rows(evidence)
    by_task = Table(
        f"By task at temperature {coldest:g}, N = {length}",
        ("Task", "Tokens a round", "Acceptance rate"),
        tuple(
            (
                one.task,
                f"{one.tokens.mid:.3f} ± {one.tokens.half:.3f}",
                f"{one.acceptance_rate:.1%}",
            )
            for one in tasks
        ),
    )
    picture = acceptance_figure(
        [
            (
                f"temperature {row.temperature:g}, {row.mode}",
                [
                    trace
                    for trace in evidence.traces
                    if trace.temperature == row.temperature
                    and (trace.draft_sampling.value if trace.draft_sampling else "lookup")
                    == row.mode
                ],
            )
            for row in rows
        ]
    )
    says = ("Emitted tokens a target pass, bonus included; 95 % intervals clustered by request.",)
    figures = (picture,) if picture else ()
    return Section("acceptance", "Acceptance", says, figures, (table, by_task))


def _rounds(evidence: ProfileEvidence) -> Section:
    head = (
        *("Temperature", "N", "Acceptance", "Accepted a round", "Tokens a round"),
        *("Guide's", "Projected", "Actual", "Same text"),
    )
    rows = tuple(
        (
            f"{row.cell.temperature:g}",
            str(row.cell.num_speculative_tokens),
            f"{row.acceptance_rate:.1%}",
            f"{row.accepted_per_round:.3f}",
            f"{row.tokens_per_round:.3f}",
            fmt.factor(row.guide),
            "-" if row.projected is None else fmt.factor(row.projected),
            fmt.factor(row.actual),
            row.same_text,
        )
        for row in round_rows(evidence)
    )
    says = ("Beside plain decoding of the same requests, interleaved in the same run.",)
    table = Table("Speculation really run", head, rows)
    return Section("rounds", "Speculation really run", says, (), (table,))


def _closing(profile: Profile) -> Iterator[Section]:
    if profile.observations:
        table = Table("Observations", HEADERS, observation_rows(profile.observations), words=3)
        yield Section("observations", "A served load, observed", (), (), (table,))
    if profile.memory:
        rows = tuple(
            (
                one.role.value,
                f"{one.weight_bytes / BYTES_PER_GB:.2f} GB",
                f"{one.kv_bytes_per_token:,.0f} bytes",
                "" if one.peak_bytes is None else f"{one.peak_bytes / BYTES_PER_GB:.2f} GB",
            )
            for one in profile.memory
        )
        table = Table("Memory as taken", ("", "Weights", "KV a token", "Peak"), rows)
        yield Section("memory", "Memory", (), (), (table,))
    if profile.skipped:
        skipped = Table(
            "Not measured",
            ("What", "Why"),
            tuple((one.what, one.reason) for one in profile.skipped),
            words=2,
        )
        yield Section("skipped", "Asked for and not measured", (), (), (skipped,))
