"""One job of a batch: runs a command and writes how it ended into ``outcome.json``.

Started by the executors in the job's folder: ``python -m capplan.cli.batch_job COMMAND ...``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from capplan.cli.main import cli
from capplan.cli.terminal import guarded, say_error
from capplan.errors import CapplanError
from capplan.files import write_atomic
from capplan.inputs.documents import read_json
from capplan.inputs.limits import PLAN, PROFILE
from capplan.jobs.job import Ending, Outcome
from capplan.jobs.protocol import OUTCOME_FILE

_INFEASIBLE = 3
_MISUSE = 2


def main() -> None:
    """Run the command of the arguments; a defect ends in a traceback and without the file."""
    with guarded():
        outcome = _run(sys.argv[1:])
        write_atomic(Path(OUTCOME_FILE), outcome.model_dump_json(exclude_defaults=True))
        if outcome.reason:
            say_error(f"Error: {outcome.reason}", outcome.remedy)
    sys.exit(outcome.exit_code)


def _run(arguments: list[str]) -> Outcome:
    try:
        code = cli.main(arguments, prog_name="capplan", standalone_mode=False)
    except CapplanError as error:
        return _failed(error.message, error.remedy, type(error).__name__, error.exit_code)
    except click.UsageError as error:
        return _failed(error.format_message(), "", "UsageError", _MISUSE)
    code = code if isinstance(code, int) else 0
    if code not in (0, _INFEASIBLE):
        return _failed(f"the command ended with exit code {code}", "", "", code)
    read = {"profile": _of_profile, "recommend": _of_plan}.get(arguments[0])
    return Outcome(ending=Ending.ANSWERED, exit_code=code, **(read() if read else {}))


def _failed(message: str, remedy: str, error: str, exit_code: int) -> Outcome:
    return Outcome(
        ending=Ending.FAILED, reason=message, remedy=remedy, error=error, exit_code=exit_code
    )


def _of_profile() -> dict[str, Any]:
    document = read_json(Path("profile.json"), PROFILE)
    cells = sum(len(document.get(kind, ())) for kind in ("timing", "acceptance", "rounds"))
    name = document["target"]["spec"]["id"]
    device = document["environment"]["device"]["name"]
    stability = document["verdict"]["stability"]
    answer = f"{name} on {device}: {cells} cells, {stability}"
    return {"complete": document["complete"], "answer": answer}


def _of_plan() -> dict[str, Any]:
    document = read_json(Path("plan.json"), PLAN)
    return {"answer": document["verdict"]["sentence"]}


if __name__ == "__main__":
    main()
