"""From a document to a model; the first thing that does not fit is told at its place."""

import json
from difflib import get_close_matches
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError

from roofline.errors import DocumentError, RooflineError
from roofline.schema.building import collector_paused
from roofline.schema.document import Document
from roofline.schema.findings import Finding, Path, locate, meant, miscounted
from roofline.schema.wording import sentences, short

Model = TypeVar("Model", bound=BaseModel)

_MAX_FINDINGS: Final = 100


def validate(model: type[Model], document: Document) -> Model:
    """Make a model of a document, taking values as they are written.

    Args:
        model: What the document should be. Numbers in quotes are text, whole numbers are numbers
            too, lists are good for tuples, and text for literals and enumerations.
        document: What was read.

    Raises:
        DocumentError: At the first value, in the order of the document, that does not fit.
    """
    # JSON rules: Python's would refuse a list for a tuple, and text for an enumeration.
    try:
        with collector_paused():
            return model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        raise _refusal(model, document, error) from None
    except RooflineError as error:
        # From a validator of the model: pydantic locates only ValueError.
        where = error.where or document.where()
        raise DocumentError(error.message, hint=error.hint, where=where) from None


def _refusal(model: type[BaseModel], document: Document, error: ValidationError) -> DocumentError:
    details = error.errors(include_url=False, include_input=False)[:_MAX_FINDINGS]
    groups: dict[Path, list[Finding]] = {}
    located = [locate(document.data, detail) for detail in details]
    for finding in meant([each for each in located if not miscounted(document.data, each)]):
        groups.setdefault(finding.path, []).append(finding)
    order = sorted(groups, key=lambda path: document.offset(*path))
    missing = {path for path in order if groups[path][0].kind == "missing"}
    # A misspelt key is also a missing one: say it once, where it is written.
    for path in order:
        if groups[path][0].kind == "extra_forbidden":
            names = {gone[-1]: gone for gone in missing if gone[:-1] == path[:-1]}
            for name in get_close_matches(short(path[-1]), map(str, names), 1):
                missing.discard(names[name])
                del groups[names[name]]
    first = next(path for path in order if path in groups)
    more = len(groups) - 1
    message, hint = sentences(model, document, groups[first])
    if more:
        several = "one more problem" if more == 1 else f"{more:,} more problems"
        hint = f"{hint} ({several} in this file)"
    where = document.where_key(*first) if groups[first][0].at_key else document.where(*first)
    return DocumentError(message, hint=hint, where=where)
