"""Options take plain values as Typer's converters would."""

import pytest

from roofline import cli

NEEDED = {
    "compare-measured": ["row.json"],
    "parse-command": ["vllm serve"],
    "report": ["result.json"],
    "sweep": ["scenario.yaml"],
    "validate": ["rows.csv", "--kind", "gemm"],
}
"""Arguments of commands that need some."""


def values(
    name: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, *, plain: bool
) -> list[str]:
    """What a command is called with, or why it is not."""
    if not plain:
        monkeypatch.setattr(cli, "take_plain", lambda command: None)
    commands = cli._commands.__wrapped__(name)
    context = commands.make_context("roofline", [name])
    try:
        found = commands.commands[name].make_context(name, list(arguments), parent=context)
    except Exception as error:
        return [str(error)]
    finally:
        monkeypatch.undo()
    return [f"{key}: {value!r}" for key, value in found.params.items()]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_defaults_are_what_a_converter_makes_of_them(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = NEEDED.get(name, [])
    given = values(name, line, monkeypatch, plain=True)
    assert given == values(name, line, monkeypatch, plain=False)
    assert not given[0].startswith("Missing")


@pytest.mark.parametrize(
    "line",
    [
        "--batch 8 --prompt 1000 --overlap 0.25 --price -1.5",
        "--batch 0 --prompt -3 --overlap 1 --offload-kv 12345678901234.125",
        "--batch 1_000 --overlap 1e-1 --price .5 --offload-kv nan",
        "--batch 008 --overlap 1. --output 64.0",
        "--batch +4",
        "--batch 8.5",
        "--batch 99999999999999999999 --kv-cache",
        "--objective cost --attention naive --format json",
        "--objective Cost",
        "--gpu h100-sxm --weights fp8 --explain µ --no-prefetch --sp --report page.html",
    ],
)
def test_values_are_what_a_converter_makes_of_them(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = values("analyze", line.split(), monkeypatch, plain=True)
    assert plain == values("analyze", line.split(), monkeypatch, plain=False)
