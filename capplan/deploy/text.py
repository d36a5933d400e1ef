"""One launch in one form, with what it is made of."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from capplan.deploy.command import render_command
from capplan.deploy.kubernetes import render_kubernetes
from capplan.deploy.names import check_names
from capplan.deploy.notes import launch_notes
from capplan.deploy.python_text import render_python
from capplan.deploy.settings import Settings
from capplan.deploy.versions import EngineVersion
from capplan.schema.base import Value
from capplan.schema.llm import LlmSpec
from capplan.schema.pairing import DraftSampleMethod


class Form(StrEnum):
    """What to write a launch as."""

    COMMAND = "command"
    PYTHON = "python"
    KUBERNETES = "kubernetes"


class LaunchText(Value):
    """A launch, ready to run."""

    schema_version: Literal[1] = 1
    engine: str
    """Engine and version: ``vllm==0.33.0``."""
    form: Form
    option: str
    """Id of the plan's option."""
    services: str = ""
    """Those that it serves; empty for a plan of one service."""
    settings: Settings
    notes: tuple[str, ...]
    """What to mind; also on comment lines of the text."""
    text: str


def write_launch(
    settings: Settings,
    version: EngineVersion,
    form: Form,
    *,
    option: str,
    temperature: float = 0.0,
    target: LlmSpec | None = None,
    counted: DraftSampleMethod | None = None,
    services: str = "",
) -> LaunchText:
    """Return the launch in a form.

    Parameters
    ----------
    settings, version, form
        What is run, on what, and how it is written.
    option
        Id of the plan's option.
    temperature
        Of most requests.
    target
        Facts of the target, where they are known.
    counted
        How the drafts of the plan's acceptance were drawn; None where nobody says.
    services
        Those that it serves, of several: they label the text and name what it makes.

    Raises
    ------
    RequestError
        For a name that no quoting makes harmless.
    """
    check_names(settings)
    notes = launch_notes(settings, version, temperature, target, counted)
    if services:
        notes = (f"Serves {services}.", *notes)
    if form is Form.PYTHON:
        text = render_python(settings, version, notes, temperature=temperature)
    elif form is Form.KUBERNETES:
        text = render_kubernetes(settings, version, notes, services)
    else:
        text = render_command(settings, version, notes) + "\n"
    return LaunchText(
        engine=f"vllm=={version.full}",
        form=form,
        option=option,
        services=services,
        settings=settings,
        notes=notes,
        text=text,
    )
