"""Things that a command line names: catalog entries, files, or standard input."""

import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from roofline.api.question import Question, parameters_of
from roofline.cost.moe import Routing
from roofline.errors import InputError
from roofline.model import catalog
from roofline.model.architecture import Architecture
from roofline.units import written_out

if TYPE_CHECKING:
    from roofline.study.scenario.scenario import Scenario

PRICES: Final = {"usd_per_hour": "--price", "reserved_price": "--reserved-price"}
"""Parameters with prices by GPU, and their options."""
_MOST_STDIN = 2**20 + 1  # one more than a document may have, so that its size is refused


def network(name: str) -> Architecture:
    """Network by name, hub id or path; ``-`` reads a ``config.json`` from standard input."""
    if name != "-":
        return catalog.architecture(name)
    from roofline import schema
    from roofline.model.huggingface import from_config

    text = sys.stdin.buffer.read(_MOST_STDIN)
    return from_config(schema.parse_json(schema.decode(text, "<stdin>"), "<stdin>"), "stdin")


def scenario(name: str) -> "str | Scenario":
    """Scenario by name or path, as it is; ``-`` reads YAML from standard input.

    Files that it names are looked for from where the command is run.
    """
    if name != "-":
        return name
    from roofline import schema
    from roofline.study.scenario.reading import scenario_of

    text = schema.decode(sys.stdin.buffer.read(_MOST_STDIN), "stdin")
    return scenario_of(schema.parse_yaml(text, "stdin"), Path())


def asked(context: typer.Context, record: type[Question]) -> dict[str, Any]:
    """Parameters of a question by name, as the options of a command were given."""
    options = context.params
    out: dict[str, Any] = {}
    for name, (_, parameter) in parameters_of(record).items():
        given = options.get(parameter.called or name)
        if given is not None and given != ():
            out[name] = given.value if isinstance(given, Enum) else given
    if out.get("model") == "-":
        out["model"] = network("-")
    if "routing_skew" in options:
        out["routing"] = routing(
            options["routing_skew"], options["expert_loads"], options["redundant_experts"]
        )
    if "with_" in options:
        out.setdefault("changes", ())
    if "static" in options:
        out["rank"] = "static" if options["static"] else "steady"
    for name in ("stages", "tree"):
        if name in out:
            out[name] = numbers(f"--{name}", out[name])
    for name, option in PRICES.items():
        if isinstance(out.get(name), list):
            out[name] = prices(option, out[name])
    return out


def routing(skew: float, path: Path | None, redundant: int = 0) -> Routing:
    """Routing of tokens to experts: a power law, or the loads in a file; redundant ones. [1]"""
    if path is None:
        return Routing(skew=skew, redundant=redundant)
    from roofline import schema

    class LoadsFile(schema.Strict):
        """Measured load of each expert, in any unit."""

        loads: tuple[float, ...]

    document = schema.read(path)
    loads = schema.validate(LoadsFile, document).loads
    with document.at("loads"):
        return Routing(skew=skew, loads=loads, redundant=redundant)


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them; none of an empty text."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(word.isdecimal() and len(word) < 8 for word in words):
        raise InputError(
            f"{option} {text!r:.60} is not a list of whole numbers", hint="write 20,21,20"
        )
    return tuple(int(word) for word in words)


def prices(option: str, texts: Sequence[str]) -> list[float] | dict[str, float]:
    """Prices in their order, or by the name of a GPU: ``2.50``, ``h100-sxm=2.50``. [$/h]"""
    out: list[tuple[str, float]] = []
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        try:
            out.append((name, float(written_out(value))))
        except ValueError:
            raise InputError(
                f"{option} {text!r:.40} is not a number", hint="write 2.50, or h100-sxm=2.50"
            ) from None
    names = [name for name, _ in out if name]
    if names and len(set(names)) < len(out):
        raise InputError(
            f"{option} has a price without a name, or two of one name",
            hint="write one for each GPU: h100-sxm=2.50",
        )
    return dict(out) if names else [value for _, value in out]
