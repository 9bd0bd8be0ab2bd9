"""A Docker Compose file whose service starts an engine: read.

Fields: the Compose Specification (github.com/compose-spec/compose-spec), ``05-services.md`` and
``deploy.md``: ``command`` and ``entrypoint`` are text, split as a shell does, or lists;
``environment`` is a mapping or a list of ``NAME=VALUE``; devices are
``deploy.resources.reservations.devices``. ``$$`` is a dollar, ``${NAME:-default}`` the default
where nobody sets the variable; another variable is asked for.
"""

import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

from roofline.errors import InputError
from roofline.interop.commands import looking
from roofline.interop.commands.reading import Files, ParsedCommand, placed
from roofline.interop.commands.served import ReplicaServer
from roofline.interop.commands.words import CommandLine, Word, split
from roofline.records import replace
from roofline.schema import parse_yaml
from roofline.schema.document import Document, Text

TITLE: Final = "Docker Compose"
_SERVICES: Final = re.compile(r"(?m)^services:[^\S\n]*$")
_VARIABLE: Final = re.compile(r"\$(?:\$|\{\w+:?-([^}]*)\}|\{?\w+[^}\s]*\}?)")
_DEVICES: Final = ("deploy", "resources", "reservations", "devices")


def is_config(text: str) -> bool:
    """True for the text of a Compose file."""
    return bool(_SERVICES.search(text)) and "applications:" not in text


def read(text: str, source: str, files: Files, engines: Mapping[str, ModuleType]) -> ParsedCommand:
    """Settings of the first service that starts an engine.

    InputError or DocumentError without one, or where it contradicts itself.
    """
    document = parse_yaml(text, source)
    for name in looking.mapping(document, "services"):
        where = ("services", str(name))
        place = Text(document.text, document.source)
        line = CommandLine(
            tuple(_words(document, where)), place, tuple(_environment(document, where))
        )
        for engine in engines.values():
            if engine.starts(line) is None:
                continue
            with placed(document.where(*where)):
                found: ParsedCommand = engine.read(line, files)
            replicas = looking.count(document, *where, "deploy", "replicas")
            served = replace(found.served, replicas=found.served.replicas * replicas)
            _check_devices(document, (*where, *_DEVICES), served)
            return replace(found, served=served)
    raise InputError(
        f"{source} has no service that starts a known engine",
        hint=f"known: {', '.join(engines)}; say its command in full",
    )


def _words(document: Document, where: looking.Path) -> Iterator[Word]:
    """Words of a service: its image stands for the program where there is no entry point."""
    service = looking.mapping(document, *where)
    keys = ("command",) if "entrypoint" not in service else ("entrypoint", "command")
    if "entrypoint" not in service and "image" in service:
        at = document.offset(*where, "image")
        yield Word(_expanded(document, (*where, "image")), at)
    for key in keys:
        path = (*where, key)
        if isinstance(service.get(key), list):
            for place in range(len(looking.items(document, *path))):
                yield Word(_expanded(document, (*path, place)), document.offset(*path, place))
        elif key in service:
            inside = split(_expanded(document, path), document.where(*path))
            yield from (Word(word.text, document.offset(*path)) for word in inside.words)


def _environment(document: Document, where: looking.Path) -> Iterator[tuple[str, Word]]:
    path = (*where, "environment")
    value = looking.mapping(document, *where).get("environment")
    if isinstance(value, list):
        for place in range(len(value)):
            name, equals, text = _expanded(document, (*path, place)).partition("=")
            if equals:
                yield name, Word(text, document.offset(*path, place))
    elif value is not None:
        for name in looking.mapping(document, *path):
            if value[name] is not None:
                text = _expanded(document, (*path, name))
                yield str(name), Word(text, document.offset(*path, name))


def _expanded(document: Document, path: looking.Path) -> str:
    """Text with dollars and defaults in place of what stands for them."""

    def put(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        if found[1] is None:
            hint = "write its value, or ${NAME:-value}"
            raise looking.fault(document, path, f"{found[0]:.40} is a variable", hint)
        return found[1]

    return _VARIABLE.sub(put, looking.text(document, *path))


def _check_devices(document: Document, path: looking.Path, served: ReplicaServer) -> None:
    """Refuse a number of devices that is not the layout's, where the service says one."""
    needed = int(served.layout.devices)
    for place in range(len(looking.items(document, *path))):
        device = looking.mapping(document, *path, place)
        listed = device.get("device_ids")
        key = "count" if listed is None else "device_ids"
        said = len(listed) if isinstance(listed, list) else device.get("count")
        if isinstance(said, int) and said != needed:
            raise looking.fault(
                document,
                (*path, place, key),
                f"{said} devices, but {served.layout} takes {needed}",
                "give as many as the layout takes",
            )
