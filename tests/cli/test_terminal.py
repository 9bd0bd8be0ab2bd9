"""Every command in a terminal, in a pipe and in encodings that lack characters."""

import codecs
import io
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import roofline
from roofline import cli
from roofline.cli import streams
from roofline.cli.flags import ALIASES
from roofline.cli.help import COMMAND_GROUPS, COMMON, EXAMPLES, FIRST, GROUPS, example_lines
from roofline.cli.usage import told
from roofline.errors import EXIT_CODES, RooflineError
from roofline.model import catalog
from roofline.view import terminal
from tests.cli.test_values import NEEDED, values

Captured = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
SLOW = pytest.mark.slow
LINES = (
    "gpus",
    "models show deepseek-v3",
    "parse-command 'vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4'",
    "serve-command llama-3.1-70b --gpus 4",
    pytest.param("analyze llama-3.1-8b", marks=SLOW),
    pytest.param("paging llama-3.1-8b", marks=SLOW),
    pytest.param("models", marks=SLOW),
    pytest.param("analyze deepseek-v3 --gpu h200-sxm --gpus 8 --explain tpot", marks=SLOW),
    pytest.param("bench list", marks=SLOW),
    pytest.param("compare llama-3.1-8b --with weights=fp8 --with gpu=h200-sxm", marks=SLOW),
    pytest.param("disaggregate llama-3.1-70b --prefill tp4 --decode tp8 --gpus 32", marks=SLOW),
    pytest.param("doctor", marks=SLOW),
    pytest.param("gpus show h100-sxm", marks=SLOW),
    pytest.param("layouts llama-3.1-70b --gpus 8", marks=SLOW),
    pytest.param("plan llama-3.1-8b --rate 5 --requests 300 --gpus 2", marks=SLOW),
    pytest.param("simulate llama-3.1-8b --rate 5 --requests 50", marks=SLOW),
    pytest.param("speculate llama-3.1-8b --draft eagle --acceptance 0.7", marks=SLOW),
    pytest.param("sweep gpus", marks=SLOW),
)
"""A line of every command that prints tables or sentences without a file."""
ALONE = {"calibrate", "compare-measured", "report", "schema", "scoreboard", "validate"}
"""Commands that read or write files, or measure."""


@cache
def made(line: str) -> tuple[str, ...]:
    """Text that a command prints to terminals of 80 and 100 columns, and of very many."""
    texts = []
    for width in (80, 100, 400):
        with Patch.context() as patch:
            screen = Screen()
            patch.setenv("COLUMNS", str(width))
            patch.setattr(sys, "stdout", screen)
            assert cli.run(shlex.split(line)) in (0, 1)
            texts.append(re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()))
    return tuple(texts)


class Screen(io.StringIO):
    """A standard stream that is a terminal."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return True


CLASSES = {
    name
    for path in Path(roofline.__file__).parent.rglob("*.py")
    for name in re.findall(r"^class (\w*[a-z][A-Z]\w*)", path.read_text("utf-8"), re.MULTILINE)
}
"""Names of classes in several words, which are no words of a help text."""


def commands() -> list[tuple[str, ...]]:
    """Names of all commands and of those below them."""
    group = cli._commands.__wrapped__(*cli.COMMANDS)
    below = [
        (name, under)
        for name, command in group.commands.items()
        for under in getattr(command, "commands", ())
    ]
    return [(), *((name,) for name in cli.COMMANDS), *below]


def test_every_command_is_held_to_the_terminal() -> None:
    lines = [each if isinstance(each, str) else str(each.values[0]) for each in LINES]
    assert {line.split()[0] for line in lines} | ALONE == set(cli.COMMANDS)


@pytest.mark.parametrize("line", LINES)
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(line: str) -> None:
    *narrow, wide = made(line)
    words = set(wide.split())
    for width, text in zip((80, 100), narrow, strict=True):
        assert max(map(cell_len, text.splitlines())) <= width
        if line == "models":  # which leaves columns out
            continue
        for word in {*text.split()} - words:  # of a path or an identifier, or of a rule
            assert set(word) == {"─"} or any(
                word in whole and len(whole) > terminal.LONG for whole in words
            ), word


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize("line", LINES)
def test_every_character_has_a_likeness_in_every_encoding(line: str, encoding: str) -> None:
    codecs.register_error("roofline", streams._plain)
    text = made(line)[0]
    assert text.encode(encoding, "roofline").count(b"?") == text.count("?")


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("names", commands(), ids=" ".join)
def test_help_is_whole_and_as_wide_as_the_terminal(
    names: tuple[str, ...], width: int, monkeypatch: Patch, capsys: Captured
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    cli._commands.cache_clear()
    assert cli.run([*names, "--help"]) == 0
    cli._commands.cache_clear()
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "..." not in re.sub(r"\[ARGS\]\.\.\.|\w+\.\.\. <|\{\w+\}\.\.\.|\[\w+\]\.\.\.", "", text)
    assert "list[" not in text
    assert not set(text.split()) & CLASSES
    assert not [line for line in lines if re.search(r"\w-$", line)]  # no name is broken
    assert all(f"{code} {said}" in " ".join(text.split()) for code, said in EXIT_CODES.items())
    if names:
        assert "\nExamples:\n" in text


def test_every_command_stands_in_one_group_of_the_help() -> None:
    listed = [name for names in COMMAND_GROUPS.values() for name in names.split()]
    assert sorted(listed) == sorted(cli.COMMANDS)
    grouped = [name for names in GROUPS.values() for name in names.split()]
    assert len(grouped) == len(set(grouped))
    assert len(COMMON) > FIRST


@pytest.mark.parametrize("room", [40, 60, 80])
def test_an_example_in_lines_is_the_example(room: int) -> None:
    for name, examples in EXAMPLES.items():
        for each in examples:
            lines = example_lines(f"roofline {name} {each}", room)
            joined = " ".join(line.removesuffix("\\").strip() for line in lines)
            assert joined == f"roofline {name} {each}".strip()
            assert all(line.endswith(" \\") for line in lines[:-1])


ALIASED = [
    (name, option.opts[0], alias)
    for name, command in cli._commands.__wrapped__(*cli.COMMANDS).commands.items()
    for option in command.params
    for alias in ALIASES.get(option.name, ())
    if alias.removeprefix("--") not in {other.name for other in command.params}
]


@pytest.mark.parametrize(("name", "own", "alias"), ALIASED)
def test_an_option_is_taken_by_the_name_that_engines_have(
    name: str, own: str, alias: str, monkeypatch: Patch
) -> None:
    value = "fp8" if own in ("--kv", "--weights") else "1"
    before = NEEDED.get(name, [])
    given = values(name, [*before, own, value], monkeypatch, plain=True)
    assert ": " in given[0]
    assert values(name, [*before, alias, value], monkeypatch, plain=True) == given


def test_all_names_that_the_field_has_are_taken_somewhere() -> None:
    names = (
        "isl osl concurrency max-num-seqs max-num-batched-tokens tensor-parallel-size "
        "pipeline-parallel-size num-prompts request-rate max-concurrency gpu-memory-utilization "
        "kv-cache-dtype quantization"
    )
    assert {f"--{name}" for name in names.split()} <= {alias for _, _, alias in ALIASED}


PYDANTIC = re.compile("Input should|Value error|unable to|pydantic|Invalid value|greater than or")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_no_option_speaks_of_its_parser(name: str) -> None:
    command = cli._commands(name).commands[name]
    for option in command.params:
        if option.param_type_name != "option" or option.nargs != 1:
            continue
        for value in ("zz", "-99999"):
            words = [*NEEDED.get(name, []), f"{option.opts[-1]}={value}"]
            context = cli._commands(name).make_context("roofline", [name], obj=[name, *words])
            try:
                command.make_context(name, words, parent=context)
            except RooflineError as error:
                said = f"{error.message} {error.hint}"
            except Exception as error:
                said = " ".join(told(error, [name, *words]))
            else:
                continue
            assert not PYDANTIC.search(said), said
            assert option.opts[-1] in said


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("analyze lama-3.1-8b", "no network 'lama-3.1-8b'", "did you mean llama-3.1-8b"),
        ("analyze --gpus 3 --tp 2", "3 GPUs cannot be divided", "multiple"),
        ("analyze --prompt 200k", "200,000 + 256 tokens are 200,256", "to 131,072 together"),
        ("analyze --concurrency 4x", "--concurrency '4x' is not a whole number", "4k (4,000)"),
        ("analyze --memory-utilization 90%", "'90%' is not a number", "write 0.9"),
        ("analyze --objective Cost", "'Cost' is none of its values", "did you mean cost?"),
        ("analyze --reprot x", "there is no option --reprot", "did you mean --report?"),
        ("analyze --json", "there is no option --json", "--format json"),
        ("analyze --model x", "there is no option --model", "roofline analyze MODEL"),
        ("analyze --gpu", "--gpu has no value", "roofline analyze --help"),
        ("analyze --kv-cache=3", "--kv-cache takes no value", "behind the ="),
        ("analyze llama-3.1-8b x", "'x' is one word too many", "roofline analyze --help"),
        ("analyse", "there is no command 'analyse'", "did you mean analyze?"),
        ("models llama-3.1-8b", "there is no command", "roofline models show llama-3.1-8b"),
        ("models show", "roofline models show needs NAME", "roofline models show --help"),
        ("validate x.csv", "roofline validate needs --kind", "--help"),
        ("validate x.csv --kind gem", "--kind 'gem' is none of its values", "did you mean gemm?"),
        ("validate x.csv --kind gemm", "x.csv: cannot be read as measurements: no such", "CSV"),
        ("layouts --top -1", "--top '-1' is out of range", "give a number from 0"),
        ("compare-measured x --isl 0", "--isl '0' is out of range", "give a number from 1"),
        ("analyze --engine vlm", "no engine 'vlm'", "did you mean vllm?"),
        ("simulate --rate -3", "rate is -3", "above 0"),
        ("simulate --rate 5 --concurrency 5", "--rate and --concurrency", "or clients"),
        ("simulate --rate 5 --slo ttft=500", "'ttft=500': has no unit", "write ttft=500ms"),
        ("simulate --rate 5 --slo ttft=5mb", "'5mb' is no time", "write ttft=500ms"),
        ("simulate --rate 5 --slo tfft=5ms", "'tfft=5ms' is no objective", "did you mean ttft?"),
        ("simulate --trace nowhere.csv", "nowhere.csv does not exist", "spelling"),
        ("analyze --gpu ./missing.yaml", "missing.yaml does not exist", "spelling"),
        ("analyze mixtral-8x7b --tp 8 --two-batch", "a layout of tp8, whose tokens", "leave out"),
        ("analyze mixtral-8x7b --tp 8 --redundant-experts 8", "not take --redundant-experts", ""),
        ("analyze --redundant-experts 8", "llama-3.1-8b does not take --redundant-experts", ""),
        ("analyze --routing-skew 1", "does not take --routing-skew or --expert-loads", ""),
        (
            "simulate --rate 5 --gpus 2 --tp 1 --router prefix --no-prefix-caching",
            "--router prefix does not take --no-prefix-caching",
            "leave out",
        ),
        ("analyze --report /nowhere/x.html", "there is no folder /nowhere", "create the folder"),
    ],
)
def test_a_mistake_is_told_in_two_lines(line: str, said: str, hint: str, capsys: Captured) -> None:
    assert cli.run(line.split()) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ")
    assert said in first
    assert second.startswith("hint: ")
    assert hint in second


@pytest.mark.parametrize(
    ("given", "digits"), [("1k", "1000"), ("32K", "32768"), ("1M", "1048576"), ("4,096", "4096"),
                          ("131,072", "131072"), ("1e3", "1000"), ("1.5k", "1500")]
)  # fmt: skip
def test_numbers_are_taken_as_people_write_them(
    given: str, digits: str, monkeypatch: Patch
) -> None:
    taken = values("analyze", ["--isl", given], monkeypatch, plain=True)
    assert taken == values("analyze", ["--prompt", digits], monkeypatch, plain=True)


def test_a_name_is_found_in_a_pipe(capsys: Captured) -> None:
    assert cli.run(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line.partition(" ")[0] for line in lines]
    for name in catalog.names():
        assert first.count(name) == 1
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert catalog.architecture(name).model_type in line


def test_long_names_stay_whole_in_a_pipe() -> None:
    name = "-".join(["longname"] * 8)
    rows = [[name, "some words " * 20, "1.0 ms"]]
    shown = terminal.aligned(rows, ["Name", "What", "Time"], "", [False, False, True], [True])
    assert shown.splitlines()[2].startswith(name)


def test_a_mistake_takes_the_line_of_progress_away(monkeypatch: Patch) -> None:
    from roofline.cli.progress import print_progress

    screen = Screen()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", screen)
    print_progress("12 of 300 " * 20)
    assert cli.fail("no such thing", "look again", 2) == 2
    before, _, after = screen.getvalue().partition("error: ")
    assert before.endswith("\x1b[2K")
    assert after == "no such thing\nhint: look again\n"
    drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\n", before)
    assert max(map(cell_len, drawn.splitlines())) <= 80


def test_an_error_is_broken_at_the_width_of_its_terminal(monkeypatch: Patch) -> None:
    screen = Screen()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stderr", screen)
    cli.fail("word-with-hyphens " * 12, "do this " * 20, 2)
    text = screen.getvalue()
    assert max(map(len, text.splitlines())) <= 60
    assert {*text.split()} == {"error:", "hint:", "word-with-hyphens", "do", "this"}


def test_what_is_interrupted_while_it_loads_ends_in_two_lines(
    monkeypatch: Patch, capsys: Captured
) -> None:
    from roofline.__main__ import main

    class Loading:
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "roofline.cli", Loading())
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "error: interrupted\nhint: run the command again\n"
