"""A name that means something to a shell, to YAML or to Kubernetes is only a name."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError, RooflineError
from roofline.interop.commands import targets
from roofline.interop.commands.command import ServeCommand, commented, shell
from roofline.interop.commands.kubernetes import label
from roofline.interop.commands.served import DraftSettings, ReplicaServer
from roofline.interop.commands.words import split
from roofline.records import replace
from tests.cases import examples
from tests.interop.commands.serving import SITE, names

HOSTILE = (
    "$(touch pwned)",
    "`touch pwned`",
    "a; touch pwned",
    "a' ; touch pwned ; '",
    'a" && touch pwned "',
    "$HOME/*",
    "~",
    "!!",
    "#x",
    "$$(HOSTNAME)$",
    "EOF",
    "on",
    "1e3",
    "0o14",
    "null",
    "&a *a",
    "a: b # c",
    "{{ x }}",
    "ünïcödé",
)


def asked(engine: str, name: str) -> ReplicaServer:
    return ReplicaServer(engine, name, speculation=DraftSettings("eagle", 2, name))


def run(script: str, folder: Path) -> bytes:
    """Words that a real shell makes of a script."""
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": "/h"}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, check=True
    ).stdout


def arguments(output: bytes) -> tuple[str, ...]:
    return tuple(output.decode().split("\0")[:-1])


@pytest.mark.parametrize("engine", targets.ENGINES)
def test_a_shell_hands_names_on_as_they_are(tmp_path: Path, engine: str) -> None:
    commands = [
        parts
        for name in HOSTILE
        for written in [targets.write(engine, asked(engine, name), SITE)]
        for parts in (written.parts, written.benchmark)
    ]
    # One shell for all: each command's words, and an empty one after them.
    script = "".join(f"printf '%s\\0' {shell(parts)} ''\n" for parts in commands)
    wanted = [word for parts in commands for part in parts for word in part]
    assert [word for word in arguments(run(script, tmp_path)) if word] == wanted
    for name, parts in zip(HOSTILE, commands[::2], strict=True):
        assert any(name in word for part in parts for word in part)
    assert not list(tmp_path.iterdir())


@settings(max_examples=examples(40), deadline=None)
@given(name=names)
def test_our_words_are_those_of_a_shell(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    line = targets.write("vllm", asked("vllm", name), SITE).line
    real = arguments(run(f"printf '%s\\0' {line}", tmp_path_factory.getbasetemp()))
    assert tuple(word.text for word in split(line).words) == real


@pytest.mark.parametrize("name", HOSTILE)
def test_a_script_writes_the_file_that_the_server_reads(tmp_path: Path, name: str) -> None:
    written = targets.write("trtllm", asked("trtllm", name), SITE)
    server = tmp_path / "trtllm-serve"
    server.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n", encoding="utf-8")
    server.chmod(0o755)
    assert arguments(run(written.script, tmp_path)) == written.words[1:]
    (file,) = written.files
    assert {path.name for path in tmp_path.iterdir()} == {"trtllm-serve", file}
    read = yaml.safe_load((tmp_path / file).read_text("utf-8"))
    assert read["speculative_config"]["speculative_model"] == name


def test_a_file_cannot_end_its_own_heredoc(tmp_path: Path) -> None:
    content = "a\nEOF\nEOF_\ntouch pwned\n"
    written = ServeCommand("", (("true",),), files={"f": content})
    run(written.script, tmp_path)
    assert (tmp_path / "f").read_text("utf-8") == content
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("target", ["k8s", "ray-serve"])
def test_a_name_stays_text_in_yaml(name: str, target: str) -> None:
    written = targets.write(target, asked("vllm", name), SITE)
    (text,) = written.files.values()
    assert text.isascii()
    documents = list(yaml.safe_load_all(text))
    if target == "ray-serve":
        config = documents[0]["applications"][0]["args"]["llm_configs"][0]
        assert config["model_loading_config"] == {"model_id": name, "model_source": name}
        return
    command = documents[0]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert all(isinstance(word, str) for word in command)
    assert expanded(command[2], {"HOSTNAME": "pwned", "touch pwned": "pwned"}) == name


def expanded(word: str, variables: dict[str, str]) -> str:
    """Argument as the kubelet expands it: ``$$`` is a dollar, ``$(NAME)`` a variable."""
    out, at = "", 0
    while at < len(word):
        if word.startswith("$$", at):
            out, at = out + "$", at + 2
        elif word.startswith("$(", at) and ")" in word[at:]:
            end = word.index(")", at)
            out, at = out + variables.get(word[at + 2 : end], word[at : end + 1]), end + 1
        else:
            out, at = out + word[at], at + 1
    return out


@pytest.mark.slow
@given(name=st.text(max_size=80))
def test_any_name_makes_a_label_that_kubernetes_takes(name: str) -> None:
    made = label(name)
    assert 0 < len(made) <= 63
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert made[0].isalpha()  # a Service's name is one of RFC 1035
    assert made[-1] != "-"


@pytest.mark.parametrize(
    "name", ["-rf", "--trust-remote-code", "", "a\0b", "a\ntouch pwned", "\x1b[31m", "\u202eab"]
)
def test_a_name_that_is_a_flag_or_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="name"):
        ReplicaServer("vllm", name)
    if name:
        with pytest.raises(InputError, match="name"):
            DraftSettings("eagle", 1, name)


def test_a_comment_stays_one_whatever_it_has() -> None:
    assert all(line.startswith("#") for line in commented("a\nb\r\nc\u2028d").splitlines())


@pytest.mark.parametrize("word", ["$(HOSTNAME)", "x$(A)y", "$$$(A)"])
def test_a_variable_in_a_manifest_is_not_guessed(word: str) -> None:
    written = targets.write("k8s", ReplicaServer("vllm", "org/model"), SITE)
    (text,) = written.files.values()
    with pytest.raises(RooflineError, match="variable"):
        targets.read(replace_word(text, word), lambda name: pytest.fail(name))


def replace_word(text: str, word: str) -> str:
    assert text.count('"org/model"') == 1
    return text.replace('"org/model"', f'"{word}"')


def test_the_replicas_of_a_pod_do_not_reach_its_command() -> None:
    served = replace(ReplicaServer("vllm", "org/model"), replicas=3)
    written = targets.write("k8s", served, SITE)
    assert "replicas: 3" in next(iter(written.files.values()))
    assert "replicas" not in written.lost
