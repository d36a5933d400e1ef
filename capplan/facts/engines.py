"""Engine constants from models_db."""

from __future__ import annotations

from functools import cache

from pydantic import ValidationError

from capplan.errors import FactsError, UnknownIdError, UnreadableFileError
from capplan.inputs.limits import ENGINE
from capplan.inputs.names import is_bare_name
from capplan.inputs.yaml_text import read_yaml
from capplan.resources import models_db_dir
from capplan.schema.engine import EngineConstants


@cache
def load_engine(engine_id: str) -> EngineConstants:
    """Return the constants of one engine.

    Raises
    ------
    UnknownIdError
        If models_db has no such engine.
    FactsError
        If its file is not valid.
    """
    folder = models_db_dir() / "engines"
    path = folder / f"{engine_id}.yaml"
    if not is_bare_name(path.name) or path.parent != folder or not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.yaml")))
        raise UnknownIdError(f"No engine {engine_id!r} in models_db.", f"Known engines: {known}.")
    try:
        return EngineConstants.model_validate(read_yaml(path, ENGINE))
    except (UnreadableFileError, ValidationError) as error:
        why = error.reason if isinstance(error, UnreadableFileError) else str(error)
        raise FactsError(
            f"{path.name}: {why}", "Mend the file; see models_db/README.md."
        ) from error
