"""What a model type is to the importer: a function from its fields to an architecture."""

from collections.abc import Callable
from typing import TypeAlias

from roofline.model.architecture import Architecture
from roofline.model.huggingface.fields import Fields

Builder: TypeAlias = Callable[[Fields], Architecture]
"""Reads the fields it understands; whatever it leaves unread is checked afterwards."""
