"""JSON Schema of scenario files, for editors: made of the shapes that the reader checks."""

from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from roofline.study.scenario.files import BatchFile, TrafficFile
from roofline.study.scenario.limits import FIGURES, Kind

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
IDENTITY: Final = "urn:roofline:scenario:1"
_KINDS: Final[dict[str, Kind]] = {"BatchFile": "batch", "TrafficFile": "traffic"}


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a scenario.

    What it cannot say, as that a GPU is in the catalog, is left to the reader: every scenario that
    is read fits the schema.
    """
    file: TypeAdapter[BatchFile | TrafficFile] = TypeAdapter(
        Annotated[BatchFile | TrafficFile, Field(discriminator="kind")]
    )
    out = file.json_schema()
    for name, kind in _KINDS.items():
        properties = out["$defs"][name]["properties"]
        columns = sorted(FIGURES[kind])
        properties["constraints"]["propertyNames"] = {"enum": [*columns, "memory"]}
        _objectives(properties["objectives"], columns)
    return {"$schema": DRAFT, "$id": IDENTITY, "title": "Scenario of roofline sweep", **out}


def _objectives(part: dict[str, Any], columns: list[str]) -> None:
    """Say which objectives there are, wherever the shape has its pattern."""
    every = [f"{way} {column}" for way in ("min", "max") for column in columns]
    for branch in part["anyOf"]:
        text = branch.get("items", branch)
        if text.pop("pattern", None):
            text["enum"] = every
