"""Flags that are written: all of them listed, and all of them in the package that has them."""

import re

import pytest
from hypothesis import given, settings

from roofline.cli.serve_command import Target
from roofline.interop.commands import targets
from roofline.interop.commands.pins import BENCHMARKS, PINS, Package
from roofline.interop.commands.served import ReplicaServer
from tests.cases import examples
from tests.interop.commands.packages import files_of
from tests.interop.commands.serving import servers, written_or_refused

FLAGS = {pin.target: pin.flags for pin in PINS}
CHECKED = [
    *((pin.target, pin.package, pin.flags) for pin in PINS if pin.package),
    *((each.tool, each.package, each.flags) for each in BENCHMARKS),
]


def flags_of(parts: tuple[tuple[str, ...], ...]) -> set[str]:
    return {word for part in parts for word in part if word.startswith("--")}


def test_every_target_is_pinned() -> None:
    assert [pin.target for pin in PINS] == [each for each in Target if each != Target.AUTO]
    assert set(FLAGS) == set(targets.WRITERS)
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", pin.checked) and pin.how for pin in PINS)


@settings(max_examples=examples(200), deadline=None)
@given(served=servers())
def test_every_flag_that_is_written_is_listed(served: ReplicaServer) -> None:
    written = written_or_refused(served.engine, served)
    if written is None:
        return
    assert flags_of(written.parts) <= set(FLAGS[served.engine])
    known = {tool.tool.split()[0]: set(tool.flags) for tool in BENCHMARKS}
    program = " ".join(written.benchmark[0])
    for tool, flags in known.items():
        if tool in program and program.split()[0] in (tool, "python3"):
            assert flags_of(written.benchmark) <= flags


def is_in(flag: str, source: str) -> bool:
    """True where a source spells a flag, or has the field that it is made of."""
    name = flag.removeprefix("--no-").removeprefix("--")
    spelled = rf"[\"'](?:--no-|--)?{re.escape(name)}[\"']"
    field = rf"(?m)^    {re.escape(name.replace('-', '_'))}: "
    return bool(re.search(spelled, source) or re.search(field, source))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "flags"),
    [pytest.param(package, flags, id=name) for name, package, flags in CHECKED],
)
def test_every_flag_is_in_the_package_of_its_engine(
    package: Package, flags: tuple[str, ...]
) -> None:
    source = "\n".join(files_of(package).values())
    assert source, package
    assert [flag for flag in flags if not is_in(flag, source)] == []
    assert not is_in("--no-such-flag-at-all", source)
