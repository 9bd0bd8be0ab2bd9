"""Networks from the ``config.json`` they are published with.

A family of networks is a module here whose builders say by `common.family` which model types they
read; a new one is known by being here.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from roofline.errors import UnsupportedModelError, did_you_mean
from roofline.model.architecture import Architecture
from roofline.model.huggingface.common import BUILDERS
from roofline.model.huggingface.fields import Fields, refuse_infinity
from roofline.model.huggingface.storage import formatted
from roofline.records import replace

if TYPE_CHECKING:
    from roofline.schema import Document


__all__ = ["BUILDERS", "from_config"]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def from_config(
    document: "Document",
    name: str = "",
    path: tuple[str | int, ...] = (),
    sibling: "Document | None" = None,
) -> Architecture:
    """Read a network from its published config.

    Args:
        document: The config.
        name: What to call the network; its model type if empty.
        path: Where in the document the config is, if not at its top.
        sibling: The ``hf_quant_config.json`` beside it, if there is one.

    Raises:
        UnsupportedModelError: The model type is not known, a number is missing or absurd, or a
            field that may change the cost is not understood. The message names the place.
    """
    config = document.data
    for step in path:
        config = config[step]
    if not isinstance(config, dict):
        raise UnsupportedModelError(
            "a network's config is a mapping of fields",
            hint="give the config.json the network was published with",
            where=document.where(*path),
        )
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise UnsupportedModelError(
            "the config does not say its model_type",
            hint="add the model_type that the network's published config.json has",
            where=document.where(*path, "model_type") if model_type else document.where(*path),
        )
    builder = BUILDERS.get(model_type)
    if builder is None:
        raise UnsupportedModelError(
            f"model_type {model_type!r:.60} is not understood",
            hint=f"{did_you_mean(model_type, BUILDERS)}understood: {', '.join(sorted(BUILDERS))}",
            where=document.where(*path, "model_type"),
        )
    fields = Fields(document, path, model_type, name or model_type)
    refuse_infinity(fields)
    architecture = builder(fields)
    fields.finish()
    architecture = formatted(fields, architecture, sibling)
    return replace(architecture, provenance=fields.provenance, notes=tuple(fields.notes))
