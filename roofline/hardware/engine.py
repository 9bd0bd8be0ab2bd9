"""Catalog of the serving engines, one YAML file for each.

``hwspecs/engines/`` has the engines that users choose from; its folder ``unlisted/`` has older
releases and other engines that published measurements were made with.
"""

from functools import cache
from pathlib import Path
from typing import Final

from roofline import content
from roofline.errors import UnknownNameError, did_you_mean
from roofline.hardware.serving_engine import UNKNOWN, Engine
from roofline.kept import kept
from roofline.records import replace

_UNLISTED: Final = "unlisted"
ROCM: Final = "rocm"
"""Profile of constants of engines made for CUDA where they run on AMD's devices."""
PORTED: Final = frozenset({"sglang", "vllm"})
"""Families of engines made for CUDA that run there."""
CDNA: Final = frozenset({"cdna3", "cdna4"})
"""Generations of AMD's devices that were measured end to end."""


def _folder() -> Path:
    return content.shipped("hwspecs") / "engines"


def engine_names(*, unlisted: bool = False) -> list[str]:
    """Engines of the catalog that users choose from, by name.

    Args:
        unlisted: True to name older releases and engines of published measurements too.
    """
    folders = (_folder(), _folder() / _UNLISTED) if unlisted else (_folder(),)
    return sorted(path.stem for folder in folders for path in folder.glob("*.yaml"))


@cache
def engine(name: str) -> Engine:
    """Read an engine of the catalog, listed or not.

    Raises:
        UnknownNameError: There is no such engine.
        DocumentError: Its file has a mistake.
    """
    plain = name.lower()
    if plain.replace(".", "") in engine_names():
        plain = plain.replace(".", "")  # llama.cpp
    if plain not in engine_names(unlisted=True):
        known = engine_names()
        close = did_you_mean(plain, known)
        raise UnknownNameError(f"no engine {name!r}", hint=f"{close}engines: {', '.join(known)}")
    path = _folder() / f"{plain}.yaml"
    if not path.is_file():
        path = _folder() / _UNLISTED / f"{plain}.yaml"

    def read() -> Engine:
        from roofline.hardware.engine_file import read_engine

        return read_engine(path)

    return kept(read, "engine", [path])


@cache
def engine_on(name: str, generation: str) -> Engine:
    """Engine of the catalog with the constants that were fitted to it on such devices.

    AMD's devices run other libraries of kernels, with longer gaps between them.

    Args:
        name: As of `engine`.
        generation: Of the device that it runs on: `Gpu.architecture`.

    Raises:
        UnknownNameError: There is no such engine.
    """
    known = engine(name)
    if generation in CDNA and (known.family or known.name) in PORTED:
        return replace(known, profile=ROCM, family=ROCM)
    return known


def engine_of(name: str, version: str = "") -> Engine:
    """Engine of the catalog that a source of measurements means, the unknown one where none is.

    A version decides; without one the spelling does, for sources of 2024 write "vLLM".

    Examples:
        >>> engine_of("vLLM", "0.15.1").name, engine_of("vLLM").name, engine_of("mlc").name
        ('vllm', 'vllm-2024', 'unknown')
    """
    plain = name.lower().replace("-", "").replace("tensorrtllm", "trtllm")
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
    families, called = _registers()
    if plain in families and len(numbers) == 2:
        return next(each for each in families[plain] if numbers >= each.since)
    return called.get(name) or called.get(plain) or engine(UNKNOWN)


@cache
def _registers() -> tuple[dict[str, list[Engine]], dict[str, Engine]]:
    """Engines by family, latest release first, and by the names that sources give them."""
    every = [engine(name) for name in engine_names(unlisted=True)]
    families: dict[str, list[Engine]] = {}
    for each in sorted(every, key=lambda found: found.since, reverse=True):
        if each.family:
            families.setdefault(each.family, []).append(each)
    return families, {alias: each for each in every for alias in each.aliases}
