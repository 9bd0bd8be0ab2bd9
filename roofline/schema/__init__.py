"""Strict reading of YAML and JSON: every refusal says where, what is wrong and what to do.

Each name is imported where it is first used: a record that was kept needs no parser.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofline.schema.document import Document, Mark
    from roofline.schema.files import decode, read
    from roofline.schema.json_reader import parse_json
    from roofline.schema.models import Sourced, SourceEntry, Strict, check_sources, quantity
    from roofline.schema.validation import validate
    from roofline.schema.yaml_reader import parse_yaml

__all__ = [
    "Document",
    "Mark",
    "SourceEntry",
    "Sourced",
    "Strict",
    "check_sources",
    "decode",
    "parse_json",
    "parse_yaml",
    "quantity",
    "read",
    "validate",
]

_WHERE: Final = {
    "Document": "document",
    "Mark": "document",
    "SourceEntry": "models",
    "Sourced": "models",
    "Strict": "models",
    "check_sources": "models",
    "decode": "files",
    "parse_json": "json_reader",
    "parse_yaml": "yaml_reader",
    "quantity": "models",
    "read": "files",
    "validate": "validation",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = found
    return found
