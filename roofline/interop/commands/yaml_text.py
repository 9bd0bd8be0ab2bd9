"""YAML in which text stays text, whoever reads it."""

from typing import Any

import yaml


class Quoted(str):
    """Text that is written in double quotes: no reader takes it for a number or a truth value."""

    __slots__ = ()


class Block(str):
    """Text of several lines that is written as it is, or in double quotes where it cannot be."""

    __slots__ = ()


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Lists stand further in than their key."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """What stands twice is written twice: anchors are for machines."""
        return True


_Dumper.add_representer(
    Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), '"')
)
_Dumper.add_representer(
    Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), "|")
)


def dump(*documents: Any) -> str:
    """Write documents, keys in their order, one after another.

    >>> print(dump({"model": Quoted("1e3"), "n": 2}), end="")
    model: "1e3"
    n: 2
    """
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=2**16,
        explicit_start=len(documents) > 1,
    )
