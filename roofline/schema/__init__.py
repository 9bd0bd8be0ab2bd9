"""Strict reading of YAML and JSON: every refusal says where, what is wrong and what to do."""

from roofline.schema.document import Document, Mark
from roofline.schema.files import decode, read
from roofline.schema.json_reader import parse_json
from roofline.schema.validation import (
    SourcedFigure,
    SourceEntry,
    Strict,
    check_sources,
    quantity,
    validate,
)
from roofline.schema.yaml_reader import parse_yaml

__all__ = [
    "Document",
    "Mark",
    "SourceEntry",
    "SourcedFigure",
    "Strict",
    "check_sources",
    "decode",
    "parse_json",
    "parse_yaml",
    "quantity",
    "read",
    "validate",
]
