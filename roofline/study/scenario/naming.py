"""Names in a scenario: each is looked up where it is read, so that an error has a place."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from roofline.content import there
from roofline.cost import layout as layouts
from roofline.errors import DocumentError, InputError, RooflineError
from roofline.hardware import catalog as hardware
from roofline.hardware.engine import engine as engine_named
from roofline.model import catalog as networks
from roofline.model import precision
from roofline.model.changes import settings
from roofline.schema import Document
from roofline.schema.document import shown
from roofline.study.scenario.files import NetworkFile
from roofline.study.scenario.scenario import AUTO, Network

ELSEWHERE: Final = {"gpu": "gpus", "batch": "batch", "tp": "layouts"}
"""Changes that are axes of a scenario, and what they are called there."""
FILES: Final = (".yaml", ".yml", ".json")


@contextmanager
def at(document: Document, *path: str | int) -> Iterator[None]:
    """Tell errors the place they come from, unless they know a better one."""
    try:
        yield
    except RooflineError as error:
        where = error.where or document.where(*path)
        raise DocumentError(error.message, hint=error.hint, where=where) from None


def each(document: Document, key: str, asked: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """Values under a key, one by one, and the path of each."""
    if not isinstance(asked, tuple):
        yield asked, (key,)
        return
    for number, value in enumerate(asked):
        yield value, (key, number)


def words(document: Document, key: str, asked: Any, check: Callable[[str], str]) -> tuple[str, ...]:
    """Names under a key as a catalog has them; DocumentError at unknown ones and repeated ones."""
    out: list[str] = []
    for value, path in each(document, key, asked):
        with at(document, *path):
            found = check(value)
            once(found, out)
            out.append(found)
    return tuple(out)


def once(name: str, before: Sequence[str]) -> None:
    """Refuse what is there already."""
    if name in before:
        raise InputError(f"{shown(name)} is there twice", hint="say it once, or name the variants")


def path_or_name(name: str, folder: Path) -> str:
    """A file from the folder of the scenario, or the name as it is."""
    beside = folder / name
    is_path = name.lower().endswith(FILES) or "/" in name
    found = there(beside) or there(beside, "folder")
    return str(beside) if is_path and not Path(name).is_absolute() and found else name


def network(asked: str | NetworkFile, folder: Path, weights: Sequence[str]) -> Network:
    """A network of a scenario in a folder, looked up and changed on trial.

    A change of formats would contradict the weights of the scenario.
    """
    if isinstance(asked, str):
        model = path_or_name(asked, folder)
        return Network(networks.architecture(model).name, model)
    model = path_or_name(asked.model, folder)
    check_changes(model, asked.changes, weights)
    found = networks.architecture(model).name
    return Network(asked.name or f"{found} {asked.changes}", model, asked.changes)


def check_changes(model: str, changes: str, weights: Sequence[str]) -> None:
    """Refuse changes that this network cannot have, or that are axes of a scenario."""
    parsed = settings.parse(changes)
    for name, _ in parsed:
        if name in ELSEWHERE:
            raise InputError(
                f"{name} is no change of a network here", hint=f"write it under {ELSEWHERE[name]}:"
            )
        if name == "weights" and tuple(weights) != (AUTO,):
            raise InputError(
                "weights are given twice, here and under weights:", hint="leave one of them out"
            )
    base = settings.setup_of(networks.architecture(model), hardware.gpu("h100-sxm"))
    settings.apply(base, parsed)


def gpu(name: str) -> str:
    """Catalog name of a GPU, or the path of its file."""
    return name if name.lower().endswith(FILES) else hardware.gpu(name).name


def node(name: str) -> str:
    """Catalog name of a node, or the path of its file."""
    return name if name.lower().endswith(FILES) else hardware.node(name).name


def number_format(name: str) -> str:
    """Name of a number format, or that it is left to the checkpoint."""
    return AUTO if name.strip().lower() == AUTO else precision.named(name).name


def engine(name: str) -> str:
    """Name of an engine."""
    return engine_named(name).name


def layout(text: str) -> str:
    """A layout as it is spelled everywhere."""
    return layouts.parse(text).spelled
