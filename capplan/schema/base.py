"""Base of every value: frozen, closed, finite."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

_set = object.__setattr__


@cache
def _names(cls: type[BaseModel]) -> set[str]:
    return set(cls.model_fields)


class Value(BaseModel):
    """An immutable value; unknown fields and NaN are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @classmethod
    def of_checked(cls, rows: Iterable[dict[str, Any]]) -> list[Self]:
        """Return values whose fields were checked before, as columns are: all at once.

        Parameters
        ----------
        rows
            Of each value every field, none left to its default, each of its final type. Kept, not
            copied.
        """
        new, names = cls.__new__, _names(cls)
        made = []
        for fields in rows:
            value = new(cls)
            _set(value, "__dict__", fields)
            # one set for all: a frozen value never adds to it, and a copy has its own
            _set(value, "__pydantic_fields_set__", names)
            _set(value, "__pydantic_extra__", None)
            _set(value, "__pydantic_private__", None)
            made.append(value)
        return made
