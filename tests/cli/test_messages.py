"""Messages on what was mistyped: they name the option that is meant, and what to write."""

from typing import Any

import pytest

from tests.cli.test_cli import ask


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        (
            "plan llama-3.1-8b --rate 1 --encoder-pools",
            "pools for pictures, and prompts without any",
            "give --images or --recordings, or leave out --encoder-pools",
        ),
        (
            "plan llama-3.1-8b --job 5M --within abc",
            "--within: 'abc' is no time",
            "write it like 90s, 5min, 9h or 9:30",
        ),
        ("plan --job abc --within 1h", "--job 'abc' is no number of tokens", "write 15T"),
        (
            "simulate --rate-curve abc",
            "no workload 'abc' with a rate curve",
            "write when each rate begins",
        ),
        (
            "disaggregate llama-3.1-8b --gpus 1",
            "1 GPU does not hold a prefill instance of 1 and a decode instance of 1",
            "give --gpus 2 or more, or smaller layouts",
        ),
        (
            "compare bert-base-uncased --with mqa",
            "a prompt of 2,048 tokens, bert-base-uncased is made for 512",
            "shorten --prompt to 512",
        ),
        (
            "compare llama-3.1-8b --with tp=64",
            "--with tp=64: llama-3.1-8b: query heads 32 cannot be divided by a degree of 64",
            "degrees that divide 32: 1, 2, 4, 8, 16, 32; `roofline layouts` lists others",
        ),
    ],
)
def test_a_message_names_what_is_meant(capsys: Any, line: str, message: str, hint: str) -> None:
    code, _, err = ask(capsys, *line.split())
    assert code == 2
    assert f"error: {message}\n" in err
    assert f"hint: {hint}" in err
