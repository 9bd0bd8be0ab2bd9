"""Limits, objectives and prices of a scenario, each read at its place."""

from collections.abc import Iterator

from roofline.errors import DocumentError, InputError, UnknownNameError
from roofline.schema import Document
from roofline.schema.document import shown
from roofline.study.scenario import naming
from roofline.study.scenario.files import BatchFile, TrafficFile
from roofline.study.scenario.limits import STATIC, USUAL, Limit, Objective, limit, objective
from roofline.study.scenario.naming import at, each
from roofline.study.scenario.variants import figure


def limits_of(document: Document, file: BatchFile | TrafficFile) -> Iterator[Limit]:
    """Limits in the order in which they are written; that it fits is one always."""
    for column, asked in file.constraints.items():
        if column == "memory":
            if asked != "fits":
                raise DocumentError(
                    "memory can only be asked to fit",
                    hint="write 'memory: fits', or a limit of memory_bytes or free_bytes",
                    where=document.where("constraints", column),
                )
            continue
        try:
            yield limit(file.kind, column, asked)
        except UnknownNameError as error:
            where = document.where_key("constraints", column)
            raise DocumentError(error.message, hint=error.hint, where=where) from None
        except InputError as error:
            where = document.where("constraints", column)
            raise DocumentError(error.message, hint=error.hint, where=where) from None


def objectives_of(document: Document, file: BatchFile | TrafficFile) -> Iterator[Objective]:
    """Objectives in their order, the usual ones where none are written."""
    before: list[str] = []
    usual = STATIC if file.kind == "batch" and file.rank == "static" else USUAL[file.kind]
    asked = usual if file.objectives is None else file.objectives
    for text, path in each(document, "objectives", asked):
        with at(document, *path):
            found = objective(file.kind, text)
            naming.once(found.column, before)
        before.append(found.column)
        yield found


def prices_of(
    document: Document, file: BatchFile | TrafficFile, machines: tuple[str, ...]
) -> dict[str, float]:
    """Prices by machine. [$/h]"""
    out = {}
    for name, asked in file.prices.items():
        with at(document, "prices", name):
            found = naming.node(name) if file.nodes is not None else naming.gpu(name)
            if found not in machines:
                raise InputError(
                    f"{shown(name)} is not in this scenario",
                    hint=f"prices are of {', '.join(machines)}",
                )
            out[found] = figure("price", asked)
    return out
