"""Observations of other tools' files as a profile, with the facts of the LLM that was served."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import capplan
from capplan.api.imports import ImportedResults
from capplan.errors import CapplanError, RequestError, UnknownIdError
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.find_llm import as_name, find_llm, id_of_path, is_path
from capplan.facts.gpu_names import gpu_id_from_device_name
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import (
    Backend,
    Device,
    Draft,
    EngineDraft,
    Environment,
    ModelDraft,
    ProfiledLlm,
)
from capplan.schema.observation import Flag, Observation
from capplan.schema.pairing import Method
from capplan.schema.profile import Profile
from capplan.schema.verdict import Reason, Stability, Verdict

_ID_DIGITS = 12


def profile_of_results(
    results: ImportedResults,
    *,
    target: str = "",
    draft: str = "",
    method: Method | None = None,
    catalog: Catalog | None = None,
    now: datetime | None = None,
) -> Profile:
    """Return the observations as a profile, with the facts of their target.

    Parameters
    ----------
    results
        What was read.
    target
        Id or directory; the files' own name of the LLM by default.
    draft, method
        Of the draft; the files' own by default.
    catalog
        Facts; the shipped ones by default.
    now
        Time written into the profile; the clock by default.

    Raises
    ------
    UnknownIdError
        If nobody knows the target; names the remedy.
    RequestError
        If there is no observation, or they are of several LLMs.
    """
    if not results.observations:
        raise RequestError("Nothing was read that a profile could hold.", "Name other files.")
    catalog = catalog or load_catalog()
    spec = _target(results, target, catalog)
    drafted = _draft(results, spec, draft, method, catalog)
    several = len({_short(one.model) for one in results.observations if one.model}) > 1
    observations = tuple(_as_known(one, spec, drafted, several) for one in results.observations)
    body = "".join(one.model_dump_json() for one in observations)
    return Profile(
        id=f"import-{hashlib.sha256(body.encode()).hexdigest()[:_ID_DIGITS]}",
        created_at=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
        capplan_version=capplan.__version__,
        complete=True,
        request={"files": tuple(dict.fromkeys(one.source for one in observations))},
        environment=Environment(
            device=_device(observations), python="", libraries={}, container=False
        ),
        backend=Backend(
            name="import",
            version=capplan.__version__,
            arguments={"formats": ", ".join(sorted({one.format for one in observations}))},
        ),
        target=_profiled(spec),
        draft=drafted.profile_draft,
        observations=observations,
        verdict=_verdict(observations),
    )


def _profiled(spec: LlmSpec) -> ProfiledLlm:
    return ProfiledLlm(spec=spec, dtype=spec.dtype, quantisation=spec.quantisation)


def _target(results: ImportedResults, target: str, catalog: Catalog) -> LlmSpec:
    names = sorted({one.model for one in results.observations if one.model})
    if not target and len(names) > 1:
        raise RequestError(
            f"The files are of {len(names)} LLMs: {', '.join(names)}.",
            "Import those of one LLM at a time, or say with --target that they are one.",
        )
    name = target or (names[0] if names else "")
    if not name:
        raise UnknownIdError(
            "The files do not name the LLM that was served.",
            "Name it with --target: an id such as Qwen/Qwen3-32B, or its directory.",
        )
    try:
        return find_llm(as_name(name), catalog).spec
    except UnknownIdError as error:
        if not target and is_path(name) and (known := _named_by_path(name, catalog)) is not None:
            return known
        nearest = error.remedy.partition(" Or give a directory")[0]
        raise UnknownIdError(
            f"The LLM {name!r} of the files is not known, and a profile holds its facts. "
            f"{error.message}",
            f"Name it with --target: an id, or a directory with config.json. {nearest}".strip(),
        ) from error


def _named_by_path(path: str, catalog: Catalog) -> LlmSpec | None:
    """Return the LLM that a path of the server's machine is called after, if it is known.

    The beginning of a name will not do: what follows may be a quantisation.
    """
    name = id_of_path(path)
    try:
        found = catalog.llm(name)
    except UnknownIdError:
        return None
    return found if _short(name).endswith(_short(found.id)) else None


@dataclass(frozen=True)
class _Drafted:
    id: str
    method: Method | None
    profile_draft: Draft | None


def _draft(
    results: ImportedResults, target: LlmSpec, draft: str, method: Method | None, catalog: Catalog
) -> _Drafted:
    """Find out what drafted: by what was said, by the files, by the pairs of the catalogue."""
    named = draft or next((one.draft for one in results.observations if one.draft), "")
    said = method or next((one.method for one in results.observations if one.method), None)
    if named.lower() in {Method.NGRAM, Method.SUFFIX, Method.MTP}:
        said = said or Method(named.lower())
    pairs = [one for one in catalog.pairings if one.target == target.id]
    pair = next(
        (
            one
            for one in pairs
            if _short(named) == _short(one.draft) and (said is None or one.method is said)
        ),
        None,
    )
    if pair is None and said is Method.MTP:
        pair = next((one for one in pairs if one.method is Method.MTP), None)
    if pair is not None:
        return _of_method(pair.draft, pair.method, catalog)
    if said in {Method.NGRAM, Method.SUFFIX}:
        return _of_method(said.value, said, catalog)
    return _of_method(named, said, catalog)


def _short(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _of_method(name: str, method: Method | None, catalog: Catalog) -> _Drafted:
    spec = _spec_or_none(name, catalog) if name and method in {None, Method.DRAFT_MODEL} else None
    if spec is not None and spec.head is None:
        chosen = ModelDraft(llm=_profiled(spec))
        return _Drafted(spec.id, Method.DRAFT_MODEL, chosen)
    if spec is not None and spec.head is not None:
        name, method = spec.id, spec.head.method
    if method is None or method in {Method.NONE, Method.NGRAM, Method.DRAFT_MODEL} or not name:
        # lookup lengths, and the facts of a draft that nobody knows, are not made up
        return _Drafted(name, method, None)
    return _Drafted(name, method, EngineDraft.model_validate({"method": method.value, "id": name}))


def _spec_or_none(name: str, catalog: Catalog) -> LlmSpec | None:
    try:
        return find_llm(as_name(name), catalog).spec
    except CapplanError:
        return None


def _named_otherwise(model: str, target: str) -> Flag:
    return Flag(
        check="named_otherwise",
        text=f"the file calls the LLM {model}, others call it otherwise; --target is {target}",
        remedy="Import the files of one LLM at a time if they are of several.",
    )


def _as_known(one: Observation, target: LlmSpec, drafted: _Drafted, several: bool) -> Observation:
    update: dict[str, object] = {"model": target.id}
    if several and _short(one.model) not in {"", _short(target.id)}:
        update["flags"] = (*one.flags, _named_otherwise(one.model, target.id))
    if one.speculation is not None:
        update |= {"draft": drafted.id, "method": drafted.method}
    return one.model_copy(update=update)


def _device(observations: Sequence[Observation]) -> Device:
    names = {one.gpu for one in observations if one.gpu}
    counts = {one.gpu_count for one in observations if one.gpu_count is not None}
    return Device(
        kind="unknown",
        name=names.pop() if len(names) == 1 else "unknown",
        count=counts.pop() if len(counts) == 1 else 1,
    )


def gpu_name(gpu: str, catalog: Catalog | None = None) -> str:
    """Return the catalogue's name of a GPU, so that a plan finds it again.

    Raises
    ------
    UnknownIdError
        If no GPU goes by this name.
    """
    catalog = catalog or load_catalog()
    found = gpu_id_from_device_name(gpu, None)
    return catalog.gpu(found or gpu).name


def _verdict(observations: Sequence[Observation]) -> Verdict:
    """Judge by what contradicts itself, not by what a run was not made for."""
    broken = [one for one in observations if any(flag.check in _BROKEN for flag in one.flags)]
    if not broken:
        return Verdict(stability=Stability.STABLE)
    reason = Reason(
        check="observations_that_contradict_themselves",
        value=float(len(broken)),
        threshold=0.0,
        remedy="See the flags: capplan import prints them.",
    )
    return Verdict(stability=Stability.NOISY, reasons=(reason,))


_BROKEN = frozenset(
    {"odd_values", "impossible_latency", "end_to_end", "littles_law", "output_rate",
     "request_rate", "prompt_rate", "total_rate", "gap_over_tpot", "merged", "truncated",
     "accepted_over_drafted", "counters_contradict", "contradictory_series"}
)  # fmt: skip
