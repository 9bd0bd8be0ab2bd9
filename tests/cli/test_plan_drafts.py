"""``roofline plan --draft``: what drafts is planned for, simulated, started, refused."""

import json
import shlex
from typing import Any

import pytest

from roofline.cli import run
from tests.cli.planned import SMALL, limited, rows


@pytest.mark.slow
def test_what_is_planned_with_a_draft_is_what_is_simulated_with_it(
    cli: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"{SMALL} --rate 40 --gpus 4 --aggregated --draft eagle --acceptance 0.7 --format json"
    result = cli(line).result
    asked = shlex.split(result["simulation"])[1:]
    assert run([*asked, "--no-intervals", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)["result"]
    assert limited(again["objectives"]) == limited(rows(result, "objectives"))
    assert {row["what"] for row in rows(result, "sensitivity")} >= {"acceptance", "traffic"}
    assert result["draft_length"] == 4
    assert "an EAGLE head" in " ".join(result["summary"])
    # A head has a checkpoint, which nobody named.
    assert "--draft" not in result["commands"][0]


@pytest.mark.slow
def test_the_command_of_a_plan_starts_what_drafts(
    cli: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"{SMALL} --rate 20 --gpus 2 --aggregated --draft ngram --draft-length 5"
    result = cli(f"{line} --acceptance 0.4 --format json").result
    (command,) = result["commands"]
    assert "--draft ngram --draft-tokens 5" in command
    assert run(shlex.split(command)[1:]) == 0
    assert '"num_speculative_tokens": 5' in capsys.readouterr().out


@pytest.mark.slow
def test_a_network_that_drafts_is_named_as_engines_find_it(
    cli: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"{SMALL} --rate 10 --gpus 1 --draft llama-3.2-1b --acceptance 0.7 --draft-length 3"
    result = cli(f"{line} --format json").result
    (command,) = result["commands"]
    assert "--draft model --draft-tokens 3 --draft-model llama-3.2-1b" in command
    assert run(shlex.split(command)[1:]) == 0
    assert '"model": "meta-llama/Llama-3.2-1B"' in capsys.readouterr().out


def test_a_plan_without_a_draft_knows_none(cli: Any) -> None:
    result = cli(f"{SMALL} --rate 20 --gpus 2 --aggregated --format json").result
    assert not {"draft", "draft_length", "acceptance", "tokens_per_round"} & set(result)
    assert "acceptance" not in {row["what"] for row in rows(result, "sensitivity")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--acceptance 0.7", "--acceptance"),
        ("--draft-length 3", "--draft-length"),
        ("--draft eagle", "no acceptance rate is right"),
        ("--draft mtp --acceptance 0.7", "no layer that predicts further tokens"),
        ("--draft eagle --acceptance 0.7,0.6", "acceptance is known of 2 positions"),
        ("--draft llama-9000 --acceptance 0.7", "draft: "),
    ],
)
def test_drafts_that_make_no_sense_are_refused(cli: Any, options: str, said: str) -> None:
    ran = cli(f"{SMALL} --rate 20 --gpus 2 {options}")
    assert ran.code == 2
    assert said in ran.err
