"""Command lines of the modules that make what is shipped: ``python -m MODULE FILE``."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from roofline.errors import RooflineError


def parser(module: str, about: str | None) -> ArgumentParser:
    """Parser of a module's command line; its help begins like the docstring ``about``."""
    return ArgumentParser(f"python -m {module}", description=(about or "").partition("\n")[0])


def file(text: str) -> Path:
    """File that is there, for a parser to take."""
    if not Path(text).is_file():
        raise ArgumentTypeError(f"no file {text!r}")
    return Path(text)


def folder(text: str) -> Path:
    """Folder that is there, for a parser to take."""
    if not Path(text).is_dir():
        raise ArgumentTypeError(f"no folder {text!r}")
    return Path(text)


def kind_of(known: Mapping[str, Any], *, whole: bool = False) -> Callable[[str], str]:
    """Function that takes ``KIND``, and unless whole ones are asked for ``KIND/KERNEL``."""

    def kind(text: str) -> str:
        if (text if whole else text.partition("/")[0]) not in known:
            raise ArgumentTypeError(f"no kind {text!r}; kinds: {', '.join(known)}")
        return text

    return kind


def answer(asked: ArgumentParser, main: Callable[[], object]) -> None:
    """Run a module; what the user can mend ends it in one error and its usage."""

    def refuse(message: str) -> NoReturn:
        asked.error(message)

    try:
        main()
    except RooflineError as error:
        refuse(f"{error.message}; {error.hint}")
    except FileNotFoundError as error:
        refuse(str(error))
