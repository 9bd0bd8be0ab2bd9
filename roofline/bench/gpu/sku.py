"""Product of the catalog that a device is, by its parts and only then by its name."""

import re
from collections.abc import Iterable
from typing import Final

from roofline.bench.gpu.device import Sku
from roofline.bench.gpu.nvml import Board
from roofline.errors import UnknownNameError
from roofline.hardware.catalog import gpu, gpu_names
from roofline.hardware.machine import Gpu
from roofline.units import show

GENERATIONS: Final = {
    70: "volta",
    75: "turing",
    80: "ampere",
    86: "ampere",
    89: "ada",
    90: "hopper",
    100: "blackwell",
    103: "blackwell-ultra",
    120: "blackwell",
}
"""Names by ten times the compute capability. Source: CUDA C++ Programming Guide, capabilities."""
LEAST: Final = 0.9
MOST: Final = 1.02
"""Share of a product's memory that a driver shows: it keeps some, and ECC takes some."""
UNKNOWN: Final = "unknown"


def recognised(sku: Sku, board: Board) -> Gpu:
    """The product of the catalog that a device is.

    Raises:
        UnknownNameError: It is none of them, or could be several.
    """
    alike = candidates(sku)
    named = called(board.title, alike)
    if len(named) == 1:
        return named[0]
    has = (
        f"compute capability {sku.architecture / 10:.1f}, {sku.multiprocessors} multiprocessors "
        f"and {show(sku.memory_bytes, 'B')}"
    )
    if named:
        names = " or ".join(found.name for found in named)
        raise UnknownNameError(
            f"{board.title} with {has} could be {names}",
            hint=f"say which one: `gpu={named[0].name}`",
        )
    sliced = "MIG is on, and a slice is no product; " if board.mig == "on" else ""
    raise UnknownNameError(
        f"no GPU of the catalog is {board.title} with {has}",
        hint=f"{sliced}say whose published rates apply with `gpu=NAME`, or with `gpu=FILE.yaml` "
        "after hwspecs/README.md",
    )


def candidates(sku: Sku) -> list[Gpu]:
    """Products with that generation, those multiprocessors and that memory."""
    every = (gpu(name) for name in gpu_names())
    return [
        found
        for found in every
        if found.architecture == GENERATIONS.get(sku.architecture)
        and found.vendor == "NVIDIA"
        and found.multiprocessors == sku.multiprocessors
        and LEAST <= sku.memory_bytes / found.memory_bytes <= MOST
    ]


def called(title: str, alike: Iterable[Gpu]) -> list[Gpu]:
    """Products that a driver's title may mean; all of them where it has none.

    One whose name or alias is the title, else those that share most words with it. A title that
    does not have the product's number means another product.
    """
    alike = list(alike)
    if title == UNKNOWN:
        return alike
    plain = _plain(title)
    exact = [g for g in alike if plain in {_plain(name) for name in (g.name, g.title, *g.aliases)}]
    if exact:
        return exact
    words = _words(title)
    scored = [(_score(words, found), found) for found in alike if _number(found) & words]
    best = max((score for score, _ in scored), default=0)
    return [found for score, found in scored if score == best]


def _score(words: set[str], found: Gpu) -> int:
    """Words of the title that the product knows, less those of its name that the title lacks."""
    known = _words(" ".join((found.name, found.title, *found.aliases)))
    absent = [w for w in _words(found.name) if not any(word.startswith(w) for word in words)]
    return len(words & known) - len(absent)


def _number(found: Gpu) -> set[str]:
    """The word of a name that has a digit first: ``h100``, ``4090``."""
    return set(re.findall(r"\b[a-z]*\d+[a-z]*\b", found.name)[:1])


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def _plain(text: str) -> str:
    return re.sub(r"^nvidia|[^a-z0-9]", "", re.sub(r"[^a-z0-9]", "", text.lower()))
