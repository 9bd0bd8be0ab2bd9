"""Targets that commands are written for, and commands in texts of any of them."""

import re
from bisect import bisect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Final

from roofline.errors import InputError, not_one_of
from roofline.interop.commands import (
    compose,
    dynamo,
    kubernetes,
    llamacpp,
    llmd,
    lmdeploy,
    ollama,
    ray_serve,
    sglang,
    tgi,
    trtllm,
    vllm,
)
from roofline.interop.commands.command import ServeCommand
from roofline.interop.commands.reading import Files, ParsedCommand, placed
from roofline.interop.commands.served import PrefillServers, ReplicaServer, Site
from roofline.interop.commands.words import commands
from roofline.schema import Document, parse_yaml

ENGINES: Final = kubernetes.ENGINES
WRITERS: Final[Mapping[str, Callable[[ReplicaServer, Site], ServeCommand]]] = {
    **{name: module.write for name, module in ENGINES.items()},
    kubernetes.NAME: kubernetes.write,
    ray_serve.NAME: ray_serve.write,
    dynamo.NAME: dynamo.write,
    llmd.NAME: llmd.write,
}
SPLIT: Final = {dynamo.NAME: dynamo.write, llmd.NAME: llmd.write}
"""Targets that have servers of prefill beside those of decode."""
READERS: Final[Mapping[str, ModuleType]] = {
    **ENGINES,
    **{module.NAME: module for module in (tgi, lmdeploy, ollama)},
}
"""Engines whose commands are read; those of the last are not written."""
_HEREDOC: Final = re.compile(r"cat > (?P<name>[\w./-]+) <<'(?P<end>\w+)'")
PRICED_AS: Final[Mapping[str, str]] = {
    vllm.NAME: "vllm",
    sglang.NAME: "sglang",
    trtllm.NAME: "trtllm",
    llamacpp.NAME: "llamacpp",
    lmdeploy.NAME: "lmdeploy",
    tgi.NAME: "ideal",
    ollama.NAME: "llamacpp",
}
"""Engine whose memory policy and kernels stand for an engine's; some have none of their own."""
STANDS_IN: Final[Mapping[str, str]] = {
    tgi.NAME: f"{tgi.TITLE} is priced as an ideal engine: its own costs are not known",
    ollama.NAME: f"{ollama.TITLE} is priced as llama.cpp, on whose kernels it runs",
}
"""Notes on engines that another one stands for."""
SHARELESS: Final = frozenset({llamacpp.NAME, tgi.NAME, ollama.NAME})
"""Engines that are told no share of memory unless somebody says one: they take what is there."""


def engine_of(target: str, engine: str | None) -> str:
    """Engine of a target: itself, or the one that is asked for inside of it.

    InputError where there is no such target or engine, or they contradict each other.
    """
    if target not in WRITERS:
        raise not_one_of("target", target, WRITERS)
    if engine is not None and engine not in ENGINES:
        raise not_one_of("engine", engine, ENGINES)
    if target in ENGINES:
        if engine not in (None, target):
            raise InputError(
                f"the command is for {target}, the engine is {engine}",
                hint="say one of them; k8s takes any engine",
            )
        return target
    return engine or vllm.NAME


def write(
    target: str, served: ReplicaServer, site: Site, prefill: PrefillServers | None = None
) -> ServeCommand:
    """A command for a target; InputError where there is no such target, or it cannot run that."""
    if prefill is None:
        return WRITERS[target](served, site)
    if target not in SPLIT:
        raise InputError(
            f"a pool of prefill is not written for {target}",
            hint=f"{' and '.join(SPLIT)} have one; or write a command for each pool",
        )
    return SPLIT[target](served, site, prefill)


def _apart(text: str) -> tuple[str, dict[str, str]]:
    """A script without the files that it writes, whose lines are blank, and those files by name."""
    lines, written = text.split("\n"), dict[str, str]()
    where: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        where.setdefault(line, []).append(number)
    at = 0
    while at < len(lines):
        if begun := _HEREDOC.fullmatch(lines[at]):
            ends = where.get(begun["end"], [])
            after = bisect(ends, at)
            if after < len(ends):
                written[begun["name"]] = "\n".join(lines[at + 1 : ends[after]])
                lines[at : ends[after] + 1] = [""] * (ends[after] + 1 - at)
                at = ends[after]
        at += 1
    return "\n".join(lines), written


def read(text: str, files: Files, source: str = "command") -> ParsedCommand:
    """Read a command, a script with one, or a file of Kubernetes, llm-d, Ray Serve or Compose.

    InputError or DocumentError where it is none of them, or contradicts itself.
    """
    if kubernetes.is_manifest(text):
        return kubernetes.read(text, source, files)
    if llmd.is_config(text):
        return llmd.read(text, source, files)
    if ray_serve.is_config(text):
        return ray_serve.read(text, source, files)
    if compose.is_config(text):
        return compose.read(text, source, files, READERS)
    script, written = _apart(text)

    def named(name: str) -> Document:
        return parse_yaml(written[name], name) if name in written else files(name)

    for line in commands(script, source):
        for module in READERS.values():
            if module.starts(line) is not None:
                with placed(line.source.where(line.words[0].at)):
                    found: ParsedCommand = module.read(line, named)
                return found
    raise InputError(
        f"{text.strip()!r:.60} starts no engine that is known",
        hint="commands are read of vllm serve, sglang serve, trtllm-serve, llama-server, "
        "text-generation-launcher, lmdeploy serve api_server and ollama run",
        where=f"{source}:1:1",
    )
