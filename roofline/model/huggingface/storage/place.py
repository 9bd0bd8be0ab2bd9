"""A mapping inside a config, and refusals that name the place of what is in it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from roofline.errors import UnsupportedModelError

if TYPE_CHECKING:
    from roofline.schema import Document


@dataclass(frozen=True, slots=True)
class Place:
    """A value in a document, meant to be a mapping."""

    document: "Document"
    path: tuple[str | int, ...]
    """Where it is."""

    @property
    def name(self) -> str:
        """Its key, or the name of the file if it is the whole of it."""
        return str(self.path[-1]) if self.path else self.document.source

    @property
    def value(self) -> Any:
        """Whatever is there; None where there is no such place."""
        value = self.document.data
        for step in self.path:
            inside = step in value if isinstance(value, dict) else isinstance(value, list)
            if not inside or (isinstance(value, list) and not isinstance(step, int)):
                return None
            value = value[step]
        return value

    @property
    def data(self) -> dict[str, Any]:
        """The mapping.

        Raises:
            UnsupportedModelError: Something else is there.
        """
        value = self.value
        if not isinstance(value, dict):
            self.refuse(f"{self.name} is not a mapping", hint="give it as the checkpoint has it")
        return value

    def at(self, *keys: str | int) -> "Place":
        """Something inside."""
        return Place(self.document, (*self.path, *keys))

    def get(self, *keys: str) -> Any:
        """Value of the first key that is there and not null."""
        return next((self.data[key] for key in keys if self.data.get(key) is not None), None)

    def words(self, *keys: str) -> Iterator[tuple["Place", str]]:
        """Texts in the list under the first key that is there, with their places.

        Raises:
            UnsupportedModelError: It is neither a text nor a list of texts.
        """
        key = next((key for key in keys if self.data.get(key) is not None), None)
        if key is None:
            return
        listed = self.at(key)
        entries = listed.value if isinstance(listed.value, list) else [listed.value]
        for index, word in enumerate(entries):
            here = listed.at(index) if isinstance(listed.value, list) else listed
            if not isinstance(word, str) or not word:
                here.refuse(f"{key} has something that is not the name of a module")
            yield here, word

    def where(self) -> str:
        """``file:line:column``."""
        return self.document.where(*self.path)

    def refuse(
        self, problem: str, *, hint: str = "give --weights for one format of all linear layers"
    ) -> NoReturn:
        """Give up on the network because of what is here.

        Raises:
            UnsupportedModelError: Always.
        """
        raise UnsupportedModelError(problem, hint=hint, where=self.where())
