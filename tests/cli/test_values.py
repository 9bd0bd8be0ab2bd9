"""Options take plain values as Typer's converters would."""

import re
import shlex
from typing import Any

import pytest

from roofline import cli
from roofline.cli.help import COMMON, EXAMPLES, GROUPS, OTHERS

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
    """Arguments that a command is called with, or the reason why it is not."""
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
        "--batch 99999999999999999999 --kv-cache",
        "--objective cost --attention naive --format json",
        "--gpu h100-sxm --weights fp8 --explain µ --no-prefetch --sp --report page.html",
    ],
)
def test_values_are_what_a_converter_makes_of_them(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = values("analyze", line.split(), monkeypatch, plain=True)
    assert plain == values("analyze", line.split(), monkeypatch, plain=False)


def test_options_have_the_names_of_engines_and_benchmarks_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = "--prompt 4000 --output 1024 --batch 32 --gpus 2 --tp 2 --kv fp8 --weights fp8"
    theirs = (
        "--isl 4k --osl 1K --concurrency 32 --gpus 2 --tensor-parallel-size 2 "
        "--kv-cache-dtype fp8 --quantization fp8"
    )
    given = values("analyze", ours.split(), monkeypatch, plain=True)
    assert given == values("analyze", theirs.split(), monkeypatch, plain=True)
    ours = "--prompt 1500 --rate 2 --requests 50 --concurrency 8 --max-sequences 64"
    theirs = "--isl 1.5k --request-rate 2 --num-prompts 50 --max-concurrency 8 --max-num-seqs 64"
    made = [values("simulate", line.split(), monkeypatch, plain=True) for line in (ours, theirs)]
    assert [line.replace("1.5k", "1500") for line in made[1]] == made[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("analyze --batch x", "--batch 'x' is not a whole number"),
        ("analyze --concurrency 8.5", "--concurrency '8.5' is not a whole number"),
        ("analyze --batch 1.0001k", "--batch '1.0001k' is not a whole number"),
        ("analyze --overlap abc", "--overlap 'abc' is not a number"),
        ("plan --price abc", "--price 'abc' is not a number"),
        ("analyze --layout auto --objective Cost", "--objective 'Cost' is none of its values"),
    ],
)
def test_what_an_option_does_not_take_is_told_in_our_words(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(line.split()) == 2
    assert f"error: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "line"), [(name, line) for name, lines in EXAMPLES.items() for line in lines]
)
def test_an_example_of_the_help_is_taken_as_it_stands(
    name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(re.sub(r"[<>|] ?.*", "", line))  # what the shell does not take itself
    top, *below = name.split()
    given = values(top, [*below, *words], monkeypatch, plain=True)
    assert not given or ": " in given[0], given


def test_options_stand_in_groups_and_none_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["simulate", "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 120
    groups = [f"\n{group}:\n" for group in ("Common", *GROUPS, OTHERS, "Examples", "Exit codes")]
    places = [shown.index(group) for group in groups if group in shown]
    assert places == sorted(places)
    assert len(places) > 8
    command = cli._commands.__wrapped__("simulate").commands["simulate"]
    for option in (each for each in command.params if each.param_type_name == "option"):
        assert option.opts[0] in shown
    known = {each.name for each in every_option()}
    assert {name for names in GROUPS.values() for name in names.split()} | {*COMMON} <= known


def every_option() -> list[Any]:
    """Options of all commands."""
    commands = cli._commands.__wrapped__(*cli.COMMANDS).commands.values()
    return [each for command in commands for each in command.params]
