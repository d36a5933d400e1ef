"""Profiling a live server: under a load of our own, or only watching the load it has.

Everything that is asked goes to the address given and nowhere else, and every loop ends: by a
count, by a time, or because the server is gone.
"""

from __future__ import annotations

from capplan.errors import Interrupted
from capplan.profiles.store import StoredProfile
from capplan.schema.profile import Skipped
from profiler.backends.live_facts import ask_facts
from profiler.backends.live_ledger import ServerLedger
from profiler.prompts import PromptSet, embedded_prompts, load_prompts
from profiler.request import clear_leftovers, held_output, profile_to_resume
from profiler.schedule import Progress
from profiler.server_load import ServerLoad
from profiler.server_request import ServerRequest
from profiler.server_run import OnProgress, ServerRun
from profiler.server_watch import watch_server

__all__ = ["ServerRequest", "ask_facts", "run_server_session"]


def run_server_session(request: ServerRequest, *, on_progress: OnProgress) -> StoredProfile:
    """Profile a live server and write it, window by window.

    Raises
    ------
    CapplanError
        With a remedy; every finished window is on disk.
    """
    prompts = load_prompts(request.prompts) if request.prompts else embedded_prompts()
    earlier = _earlier(request, prompts)
    is_done = earlier is not None and earlier.profile.complete
    if earlier is not None and is_done and request.observe_minutes is None:
        clear_leftovers(request.output)
        return earlier
    with held_output(request.output):
        return _held_run(request, prompts, on_progress)


def _held_run(
    request: ServerRequest, prompts: PromptSet, on_progress: OnProgress
) -> StoredProfile:
    earlier = _earlier(request, prompts)  # as it is now that nobody else writes it
    on_progress(Progress(0, 0, f"asking {request.address}", None))
    facts = ask_facts(
        request.address,
        api_key=request.api_key,
        served_model=request.served_model,
        timeout_s=request.answer_timeout_s,
    )
    begun = earlier.profile if earlier is not None else request.begun(prompts, facts)
    ledger = ServerLedger(request.output, begun, earlier.arrays if earlier is not None else None)
    if prompts.left_out and earlier is None and request.observe_minutes is None:
        ledger.skip([Skipped(what="prompts", reason=prompts.left_out_text)])
    run = ServerRun(request, prompts, facts, ledger, on_progress)
    try:
        if request.observe_minutes is not None:
            return watch_server(run, request.observe_minutes)
        return ServerLoad(run).run_all()
    except KeyboardInterrupt:
        ledger.save(complete=False)
        raise Interrupted(
            "Interrupted.", f"What was finished is in {request.output}; go on with --resume."
        ) from None


def _earlier(request: ServerRequest, prompts: PromptSet) -> StoredProfile | None:
    return profile_to_resume(
        request.output, request.identity(prompts), resume=request.resume, force=request.force
    )
