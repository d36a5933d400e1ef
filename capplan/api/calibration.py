"""From profiles to a calibration: which GPU and engine they are of, what was timed, the fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

import capplan
from capplan.errors import CalibrationError, ProfileInvalidError, UnknownIdError
from capplan.estimate.engine_fit import Bench, fit_prefill, fit_step
from capplan.estimate.evidence import NOISY_FACTOR
from capplan.estimate.kvcache import kv_known
from capplan.estimate.pass_timings import PassTimings
from capplan.facts.catalog import Catalog, load_catalog
from capplan.facts.engines import load_engine
from capplan.facts.gpu_names import gpu_id_from_device_name
from capplan.profiles.store import StoredProfile
from capplan.schema.calibration import Calibration, CalibrationFit
from capplan.schema.cells import Phase, Role, TimingCell
from capplan.schema.engine import EngineConstants
from capplan.schema.gpu import GpuSpec
from capplan.schema.llm import LlmSpec
from capplan.schema.measured_setup import Device, ModelDraft
from capplan.schema.plan import PlanRequest
from capplan.schema.profile import Profile
from capplan.schema.verdict import Stability
from capplan.units import BYTES_PER_MIB

_DEFAULT_ENGINE = PlanRequest.model_fields["engine"].default
_LLMS_TO_LEAVE_OUT = 3
"""With one of two left out, the other alone cannot tell bandwidth from launch times."""
_STEP_PHASES = frozenset({Phase.DECODE, Phase.VERIFY})
_PREFILL_PHASES = frozenset({Phase.PREFILL})


def calibrate(
    profiles: Sequence[StoredProfile],
    catalog: Catalog | None = None,
    now: datetime | None = None,
) -> Calibration:
    """Fit the data-sheet constants of one engine on one GPU to what profiles timed.

    Parameters
    ----------
    profiles
        Of the same engine, version and GPU; several LLMs of different size tell bandwidth from
        launch times.
    catalog
        Facts; the shipped ones by default.
    now
        Time written into the calibration; the clock by default.

    Raises
    ------
    CalibrationError
        If the profiles do not belong together, the device has no data sheet, there is too little
        to fit and check, or passes left out are predicted no better than by the shipped constants.
    ProfileInvalidError
        If a profile judged itself invalid.
    """
    read = [stored.profile for stored in profiles]
    _check_trusted(read)
    _check_same(read)
    catalog = catalog if catalog is not None else load_catalog()
    now = now if now is not None else datetime.now(UTC)
    backend, device = read[0].backend, read[0].environment.device
    bench = Bench(_gpu(device, catalog), _shipped(backend.name))
    widen = NOISY_FACTOR if any(p.verdict.stability is Stability.NOISY for p in read) else 1.0
    timed = _timings(read, _STEP_PHASES)
    llms = tuple(dict.fromkeys(t.llm.id for t in timed))
    by_llm = len(llms) >= _LLMS_TO_LEAVE_OUT
    prefill, why = _prefill(_timings(read, _PREFILL_PHASES), bench, by_llm)
    return Calibration(
        created_at=now.isoformat(timespec="seconds"),
        capplan_version=capplan.__version__,
        engine=backend.name,
        engine_version=backend.version,
        cuda_graphs=backend.cuda_graphs,
        gpu=bench.gpu.id,
        device=device.name,
        tensor_parallel=tuple(sorted({t.tensor_parallel for t in timed})),
        llms=llms,
        profiles=tuple(profile.id for profile in read),
        held_out_by="llm" if by_llm else "point",
        step=_widened(fit_step(timed, bench, by_llm), widen),
        prefill=prefill,
        prefill_note=why,
    )


def _prefill(
    timed: Sequence[PassTimings], bench: Bench, by_llm: bool
) -> tuple[CalibrationFit | None, str]:
    """Fit prompts; a refusal leaves them on the shipped constants, with its reason."""
    try:
        return fit_prefill(timed, bench, by_llm), ""
    except CalibrationError as error:
        return None, error.message


def _widened(fit: CalibrationFit, factor: float) -> CalibrationFit:
    """Widen what a noisy profile claims, as plans widen its own fit."""
    error = fit.held_out_error * factor
    if error >= fit.datasheet_error:
        raise CalibrationError(
            f"Passes left out were predicted {fit.held_out_error:.1%} off, {error:.1%} as the "
            f"profile is noisy, and {fit.datasheet_error:.1%} off by the shipped constants.",
            "Profile again on an idle GPU.",
        )
    return fit.model_copy(update={"held_out_error": error})


def _check_trusted(profiles: Sequence[Profile]) -> None:
    for profile in profiles:
        if profile.verdict.stability is Stability.INVALID:
            reasons = profile.verdict.reasons
            raise ProfileInvalidError(
                f"Profile {profile.id} judged itself invalid: "
                f"{', '.join(reason.check for reason in reasons) or 'no reason given'}.",
                reasons[0].remedy if reasons else "Measure again.",
            )


_MUST_AGREE: Mapping[str, Callable[[Profile], object]] = {
    "engine": lambda p: p.backend.name,
    "engine version": lambda p: p.backend.version,
    "CUDA graphs": lambda p: p.backend.cuda_graphs,
    "device": lambda p: p.environment.device.name,
}


def _check_same(profiles: Sequence[Profile]) -> None:
    if not profiles:
        raise CalibrationError("No profile was given.", "capplan calibrate PROFILE...")
    ids = [profile.id for profile in profiles]
    if len(set(ids)) < len(ids):
        raise CalibrationError(
            f"The same profile was given twice: {', '.join(ids)}.",
            "Give each profile once: a copy adds no evidence.",
        )
    for what, of in _MUST_AGREE.items():
        found = list(dict.fromkeys(str(of(profile)) for profile in profiles))
        if len(found) > 1:
            raise CalibrationError(
                f"The profiles differ in {what}: {', '.join(found)}.",
                "Efficiencies belong to one engine on one GPU: calibrate each by itself.",
            )


def _gpu(device: Device, catalog: Catalog) -> GpuSpec:
    if device.kind == "cpu":
        raise CalibrationError(
            f"The profile was taken on a CPU ({device.name}): it has no data-sheet bandwidth and "
            "peak rate that an efficiency could be a share of.",
            "Use the profile itself: capplan recommend --profile FILE --gpu-price profile=USD.",
        )
    if device.mig:
        raise CalibrationError(
            f"{device.name} ran with MIG on: a part of a GPU has not the whole one's rates.",
            "Use the profile itself: capplan recommend --profile FILE --gpu-price profile=USD.",
        )
    mib = device.memory_bytes / BYTES_PER_MIB if device.memory_bytes is not None else None
    gpu_id = gpu_id_from_device_name(device.name, mib)
    try:
        gpu = catalog.gpu(gpu_id) if gpu_id is not None else None
    except UnknownIdError:
        gpu = None
    if gpu is None:
        raise CalibrationError(
            f"{device.name!r} is no GPU of the catalogue: without data-sheet rates there is "
            "nothing that its efficiencies could be a share of.",
            "Known GPUs: capplan facts gpus; or use the profile itself: capplan recommend "
            "--profile FILE --gpu-price profile=USD.",
        )
    if gpu.not_planned_because:
        raise CalibrationError(
            f"{gpu.name} is not planned from its data sheet: {gpu.not_planned_because}.",
            "Use the profile itself: capplan recommend --profile FILE --gpu-price profile=USD.",
        )
    return gpu


def _shipped(engine_id: str) -> EngineConstants:
    """Return an engine's shipped constants; those of the default engine where it has none."""
    try:
        return load_engine(engine_id)
    except UnknownIdError:
        return load_engine(_DEFAULT_ENGINE)


def _timings(profiles: Sequence[Profile], phases: frozenset[Phase]) -> list[PassTimings]:
    found = []
    for profile in profiles:
        for role, llm in _llms(profile):
            cells = [c for c in profile.timing if _usable(c, role, phases)]
            if cells:
                found.append(_timed(llm, profile.environment.device.count, cells))
    return found


def _llms(profile: Profile) -> list[tuple[Role, LlmSpec]]:
    """Return what was timed: a draft LLM runs passes like any other."""
    llms = [(Role.TARGET, profile.target.spec)]
    if isinstance(profile.draft, ModelDraft):
        llms.append((Role.DRAFT, profile.draft.llm.spec))
    for role, llm in llms:
        timed = any(cell.role is role for cell in profile.timing)
        if timed and not kv_known(llm):
            raise CalibrationError(
                f"What {llm.id} keeps of a request is not known, so its reads cannot be counted.",
                "Calibrate from profiles of LLMs that capplan facts models lists with KV bytes.",
            )
    return llms


def _usable(cell: TimingCell, role: Role, phases: frozenset[Phase]) -> bool:
    trusted = cell.verdict.stability is not Stability.INVALID
    return cell.role is role and cell.phase in phases and trusted and min(cell.seconds) > 0


def _timed(llm: LlmSpec, tensor_parallel: int, cells: Sequence[TimingCell]) -> PassTimings:
    def column(
        of: Callable[[TimingCell], float],
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.array([of(cell) for cell in cells], dtype=float)

    return PassTimings(
        llm=llm,
        tensor_parallel=tensor_parallel,
        batch=column(lambda c: c.batch),
        tokens=column(lambda c: c.tokens_per_sequence),
        context=column(lambda c: c.context),
        seconds=column(lambda c: float(np.median(c.seconds))),
    )
