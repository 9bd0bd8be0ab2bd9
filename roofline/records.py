"""Copies of records with other values, and mappings and sentences made when they are read."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from msgspec import Struct, structs

Record = TypeVar("Record")
Entry = TypeVar("Entry")

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


class OnDemand(Mapping[str, Entry]):
    """Mapping that is made when it is first read, and its entries when they are asked for.

    Entries are given as they are, or as functions that make them, each of which runs once (or once
    in each thread that asks at the same time). Copies for other processes have all entries made.

    >>> rows = OnDemand(lambda: {"seen": 1, "costly": lambda: 6 * 7})
    >>> list(rows), rows["costly"]
    (['seen', 'costly'], 42)
    """

    def __init__(self, make: Callable[[], Mapping[str, Entry | Callable[[], Entry]]]) -> None:
        self._make = make

    @cached_property
    def _entries(self) -> dict[str, Any]:
        return dict(self._make())

    def __getitem__(self, name: str) -> Entry:
        found: Any = self._entries[name]
        if callable(found):
            found = self._entries[name] = found()
        entry: Entry = found
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # without making it

    def get(self, name: str, default: Any = None) -> Any:
        """Entry of a name; an error of what makes it is not taken for a name that is missing."""
        if name not in self:
            return default
        return self[name]

    def __repr__(self) -> str:
        return repr(dict(self))

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**other, **self}

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class PlainOnDemand(OnDemand[Entry], dict[str, Entry]):  # type: ignore[misc]  # reads as the first
    """The same as a dict, which `json.dumps` and others ask for; names are there at once.

    >>> import json
    >>> json.dumps(PlainOnDemand(lambda: {"seen": 1, "costly": lambda: 6 * 7}))
    '{"seen": 1, "costly": 42}'
    """

    def __init__(self, make: Callable[[], Mapping[str, Entry | Callable[[], Entry]]]) -> None:
        made = make()
        super().__init__(lambda: made)
        self.update(cast("Mapping[str, Entry]", made))


class Sentences(Sequence[str]):
    """Sentences that are made when one of them is first read, like entries of `OnDemand`."""

    def __init__(self, make: Callable[[], Iterable[str]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> tuple[str, ...]:
        return tuple(self._make())

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        return self._made[place]

    def __len__(self) -> int:
        return len(self._made)

    def __repr__(self) -> str:
        return repr(self._made)

    def __add__(self, other: Iterable[str]) -> tuple[str, ...]:
        return (*self, *other)

    def __radd__(self, other: Iterable[str]) -> tuple[str, ...]:
        return (*other, *self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._made == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as lists have none

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._made,)
