"""Names of parameters become the options that the command line has."""

import pytest

import roofline
from roofline import cli
from roofline.api import parameters
from roofline.api.question import Question, parameters_of
from roofline.cli.flags import flags, in_flags
from roofline.cli.options import IN_PYTHON, SPLIT
from roofline.errors import RooflineError
from roofline.records import replace
from roofline.table import Derivation, Result, table

RECORDS: dict[str, type[Question]] = {
    "analyze": parameters.Analysis,
    "compare": parameters.Comparison,
    "compare-measured": parameters.MeasuredComparison,
    "disaggregate": parameters.PoolComparison,
    "layouts": parameters.LayoutComparison,
    "paging": parameters.Paging,
    "plan": parameters.Planning,
    "serve-command": parameters.ServeCommandQuestion,
    "simulate": parameters.Simulation,
    "speculate": parameters.DraftComparison,
}


@pytest.mark.parametrize("command", RECORDS)
def test_a_name_becomes_an_option_that_the_command_takes(command: str) -> None:
    known = cli._commands(command).commands[command].params
    options = {option for each in known for option in (*each.opts, *each.secondary_opts)}
    for name, (_, parameter) in parameters_of(RECORDS[command]).items():
        if name in SPLIT:
            assert set(flags(f"`{name}`").split(" or ")) <= options
        elif not parameter.argument and name not in (*IN_PYTHON, "files"):
            assert flags(f"`{name}`") in options, name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("give `usd_per_hour`", "give --price"),
        ("`rank=static` and `gpu=static`", "--static and --gpu static"),
        ("`prefetch=False` or `kv_cache=False`", "--no-prefetch or --no-kv-cache"),
        ("`disaggregated=False`, `sequence_parallel=True`", "--aggregated, --sp"),
        ("`gpus=16` `layout=tp8`", "--gpus 16 --layout tp8"),
        ("`no_such=1`, `GPU`, ``batch`` and `roofline plan`", None),
    ],
)
def test_text_of_the_library_is_read_on_the_command_line(text: str, told: str | None) -> None:
    assert flags(text) == (told or text)


def test_all_sentences_of_an_answer_name_options() -> None:
    told = "a smaller `batch`"
    fact = Derivation("x", 1.0, "s", note=told)
    result = Result(
        "analyze",
        {"rows": table([{"x": 1.0, "why": told}, {"x": 2.0, "why": ""}], {"x": "s"})},
        derivations={"x": Derivation("y", 1.0, "s", inputs=(fact,))},
        notes=(told,),
        metadata={"summary": [told], "batch": 3},
    )
    said = in_flags(result)
    assert said.notes == ("a smaller --batch",)
    assert said.tables["rows"]["why"] == ("a smaller --batch", "")
    assert said.tables["rows"]["x"] == (1.0, 2.0)
    assert said.derivations["x"].inputs == (replace(fact, note="a smaller --batch"),)
    assert said.metadata == {"summary": ["a smaller --batch"], "batch": 3}


def test_an_error_names_the_parameter_in_python_and_the_option_on_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RooflineError) as raised:
        roofline.analyze(mask="square", usd_per_hour=3.0, convention="textbook")
    told = "`convention=textbook` does not take `usd_per_hour`, `mask=square`"
    assert raised.value.message == told
    assert cli.run(["analyze", "--mask", "square", "--price", "3", "--convention", "textbook"]) == 2
    said = "--convention textbook does not take --price, --mask square"
    assert said in capsys.readouterr().err
