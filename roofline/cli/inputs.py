"""What a command line names: catalog entries, files, or standard input."""

import sys

from roofline import schema
from roofline.model import catalog
from roofline.model.architecture import Architecture
from roofline.model.huggingface import from_config

_MOST_STDIN = 2**20 + 1  # one more than a document may have, so that its size is refused


def network(name: str) -> Architecture:
    """Network by name, hub id or path; ``-`` reads a ``config.json`` from standard input."""
    if name != "-":
        return catalog.architecture(name)
    text = sys.stdin.buffer.read(_MOST_STDIN)
    return from_config(schema.parse_json(schema.decode(text, "<stdin>"), "<stdin>"), "stdin")
