"""What pydantic found, without the branches of unions that were not meant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One of pydantic's errors.

    ``raw`` is its location as pydantic has it; ``tags`` says which steps of it are no steps in the
    document but branches of unions; ``path`` is what remains.
    """

    kind: str
    path: Path
    raw: Path
    tags: tuple[int, ...]
    message: str
    context: Mapping[str, Any]

    @property
    def at_key(self) -> bool:
        """Whether a key is at fault, and not its value."""
        return self.kind == "extra_forbidden" or self.raw[-1:] == ("[key]",)


def locate(data: Any, detail: Any) -> Finding:
    """Find the value that pydantic's location means."""
    location: Path = detail["loc"]
    kind: str = detail["type"]
    context: dict[str, Any] = detail.get("ctx", {})
    path: list[str | int] = []
    tags: list[int] = []
    value = data
    for index, step in enumerate(location):
        in_mapping = isinstance(value, dict) and step in value
        in_list = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if in_mapping or in_list:
            value = value[step]
            path.append(step)
        elif kind == "missing" and index == len(location) - 1:
            path.append(step)
        else:
            tags.append(index)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        path.append(str(context["discriminator"]).strip("'"))
        kind = "missing" if kind == "union_tag_not_found" else kind
    return Finding(kind, tuple(path), location, tuple(tags), detail["msg"], context)


def miscounted(data: Any, finding: Finding) -> bool:
    """Whether a list is only called too short for its entries that are wrong, each told itself."""
    if finding.kind != "too_short":
        return False
    for step in finding.path:
        data = data[step]
    least: int = finding.context["min_length"]
    return len(data) >= least


def meant(findings: list[Finding], level: int = 0) -> list[Finding]:
    """Of each union, keep the branch that fits best; all of them if none even begins to fit."""
    kept = [finding for finding in findings if len(finding.tags) <= level]
    unions: dict[Path, dict[str | int, list[Finding]]] = {}
    for finding in findings:
        if len(finding.tags) > level:
            at = finding.tags[level]
            branches = unions.setdefault(finding.raw[:at], {})
            branches.setdefault(finding.raw[at], []).append(finding)
    for union, branches in unions.items():
        begun = [
            branch
            for branch in branches.values()
            if any(len(finding.raw) > len(union) + 1 for finding in branch)
        ]
        chosen = [min(begun, key=len)] if begun else branches.values()
        for branch in chosen:
            kept += meant(branch, level + 1)
    return kept
