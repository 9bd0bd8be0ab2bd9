"""Copies of records with other values: of `msgspec.Struct`s and of dataclasses."""

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, structs

Record = TypeVar("Record")

if TYPE_CHECKING:
    # Type checkers know the fields of both by this one.
    from dataclasses import replace as replace
else:

    def replace(record: Record, /, **changes: Any) -> Record:
        """The record with some fields changed; TypeError for one that it does not have.

        >>> from roofline.part import Part
        >>> replace(Part("weights", 1.0), value=2.0).value
        2.0
        """
        alter = structs.replace if isinstance(record, Struct) else dataclasses.replace
        return alter(record, **changes)
