"""A probe: one file in ``microbench/`` that says what it runs and the work that one run does.

The same definition runs on any array module (NumPy, CuPy): the engine hands it the module and
arrays, the probe launches. Probes are loaded by path, since ``microbench/`` is no package.
"""

import hashlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct
from numpy.typing import NDArray

from roofline.content import label, shipped
from roofline.cost.work import Kind, Work
from roofline.errors import DocumentError, UnknownNameError

Shape: TypeAlias = Mapping[str, int]
"""Values of the axes at one point, by name: ``{"m": 16, "n": 2048, "k": 2048}``."""
KINDS: Final = (
    *get_args(Kind),
    *("latent-decode", "latent-prefill", "latent-heads", "linear-attention"),
)
"""Kinds that a probe can be of: of operators, and of kernels that some of them ask for."""
State: TypeAlias = Literal["warm", "near", "cold"]
"""Place of the streamed arguments of a run: as the run before left them, in the last-level cache
that cores share, or in memory."""

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,63}")


class Maker(Protocol):
    """Makes arrays of a probe's arguments on the device.

    ``of`` is a number type, a key of `roofline.bench.elements.STORED`.
    """

    def normal(self, *shape: int, of: str = "fp32") -> Any:
        """Normal random numbers. A launch must not write to them."""

    def empty(self, *shape: int, of: str = "fp32") -> Any:
        """Room for what a launch writes."""

    def constant(self, build: Callable[..., NDArray[Any]], *arguments: int) -> Any:
        """The array that a function makes of some numbers, such as the pages of a cache."""


def only_kernels(xp: Any, **arguments: Any) -> None:
    """Launch of a probe that an array module cannot run."""
    raise AssertionError("it has only kernels of a GPU")


class Probe(Struct, frozen=True):
    """One run of some kernels, the arguments that it takes and the work that it does."""

    name: str
    version: int
    """Name of the file; version, raised whenever what is measured changes, so that older records
    stop applying."""
    kind: str
    """Kind of operator, as in `roofline.cost.work.Op`, or of a kernel that is part of one."""
    axes: Mapping[str, Sequence[Any]]
    """Values by name; a name of several words binds as many values at once: ``"n k"``."""
    arguments: Callable[[Maker, Shape], Mapping[str, Any]]
    """Makes the arrays of one run at a point, by the names that ``launch`` takes."""
    work: Callable[[Shape], Work]
    """Work of one run."""
    launch: Callable[..., object] = only_kernels
    """One run: array module, then the arguments by name. Allocates nothing that it can avoid.
    Left out where there are only ``kernels``."""
    streamed: tuple[str, ...] = ()
    """Arguments of which a near or cold run gets a copy from there; the others stay."""
    states: tuple[State, ...] = ("warm",)
    """Warm, near, cold."""
    regime: Callable[[Shape], str] = lambda at: ""
    """Side of a change of behaviour that a point is on; every regime is covered by a plan."""
    arithmetic: str = ""
    """Type of the matrix arithmetic; empty where there is none."""
    provider: str = ""
    """Provider of the kernels; empty for those of the backend."""
    backends: tuple[str, ...] = ("numpy", "cupy")
    """Backends that can run it."""
    kernels: Callable[..., Sequence[Any]] | None = None
    """One run on a GPU as data, where it is not that of an array module: kernels of
    ``microbench/cuda``, products, collectives, steps of other libraries
    (`roofline.bench.gpu.launch`). Takes the
    device's `roofline.bench.gpu.device.Sku`, then the arguments by name."""
    needs: tuple[str, ...] = ()
    """Packages besides those of the backend; where one is missing the probe is left out."""
    architecture: int = 0
    """Oldest GPU that has its instructions, as ten times the compute capability."""
    devices: Callable[[Shape], int] = lambda at: 1
    """GPUs that a point takes."""
    busy_s: float = 0.0
    """Time that the device is kept at work before the first sample: its clock has settled at what
    the power limit allows. [s]"""
    build_s: float = 0.0
    """Time in which a library compiles or tunes its kernels for the first of some points. [s]"""
    builds: Callable[[Shape], Hashable] = lambda at: None
    """Points that agree in it run the same kernels, which are compiled and tuned once."""
    form: str = ""
    """Name of the form that is fitted on a GPU, where it is not the usual one of the kind."""


class LoadedProbe(Struct, frozen=True):
    """A probe, the file it is from and a digest of that file."""

    probe: Probe
    path: Path
    code: str


class ProbePoint(Struct, frozen=True):
    """One place in the axes of a probe."""

    probe: Probe
    """Probe that is run there."""
    at: Shape
    """Values of the axes."""
    state: State
    """Warm, near or cold."""

    @property
    def name(self) -> str:
        """Name that no other point has: ``"gemm m=1 n=2048 k=2048 cold"``."""
        return " ".join(
            [self.probe.name, *(f"{name}={value}" for name, value in self.at.items()), self.state]
        )

    @property
    def regime(self) -> str:
        """Side of a change of behaviour that it is on, each state by itself."""
        return f"{self.probe.regime(self.at)} {self.state}".strip()

    @property
    def build(self) -> tuple[str, Hashable]:
        """Kernels that have to be compiled and tuned before it."""
        return self.probe.name, self.probe.builds(self.at)


def points(probe: Probe) -> Iterator[ProbePoint]:
    """Every point of a probe, the last axis fastest.

    Examples:
        >>> [point.name for point in points(find("call").probe)]
        ['call calls=1 warm', 'call calls=4 warm', 'call calls=16 warm']
    """
    names = [name.split() for name in probe.axes]
    for values in product(*probe.axes.values()):
        at: dict[str, int] = {}
        for words, value in zip(names, values, strict=True):
            at.update(zip(words, value if len(words) > 1 else (value,), strict=True))
        for state in probe.states:
            yield ProbePoint(probe, at, state)


def probes(folder: Path | None = None) -> list[LoadedProbe]:
    """Every probe of a folder, by file name; of those shipped if none is named.

    Raises:
        DocumentError: A file is broken, at the line that is.
    """
    return [load(path) for path in sorted((folder or shipped("microbench")).glob("*.py"))]


RETIRED: Final = frozenset(
    {
        "experts-bf16",
        "gemm-fp16",
        "gemm-fp32",
        "gemm-tf32",
        "launch",
        "naive-attention",
        "replay",
        "softmax-logits",
    }
)
"""Probes of earlier versions, which priced nothing: scripts that name them still run."""


def find(name: str) -> LoadedProbe:
    """A shipped probe by name, or one by the path of its file.

    Raises:
        UnknownNameError: There is none of that name.
        DocumentError: Its file is broken.
    """
    if name.endswith(".py"):
        return load(Path(name))
    folder = shipped("microbench")
    path = folder / f"{name}.py"
    if not _NAME.fullmatch(name) or not path.is_file():
        known = ", ".join(file.stem for file in sorted(folder.glob("*.py")))
        raise UnknownNameError(f"there is no probe {name!r}", hint=f"there are {known}")
    return load(path)


def load(path: Path) -> LoadedProbe:
    """Run the file of a probe and check what it declares.

    Raises:
        DocumentError: It cannot be read or run, or declares no probe that makes sense.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DocumentError(
            f"{label(path)} cannot be read: {error.strerror}", hint="check the path"
        ) from None
    probe = getattr(_run(path), "PROBE", None)
    if not isinstance(probe, Probe):
        raise _refusal(path, 1, "it declares no probe", "end it with PROBE = Probe(...)")
    _check(probe, path)
    return LoadedProbe(probe, path, hashlib.sha256(content).hexdigest()[:16])


def _run(path: Path) -> Any:
    """Module of a file, under a name that no package has."""
    name = f"_roofline_probe_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look the module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _refusal(path, _line(path, error), _said(error), "mend that line") from error
    return module


def _check(probe: Probe, path: Path) -> None:
    """Refuse a probe that could not be measured or fitted."""
    lines = path.read_text(encoding="utf-8").splitlines()
    where = next((i for i, line in enumerate(lines, 1) if line.startswith("PROBE")), 1)

    def refuse(message: str, hint: str) -> DocumentError:
        return _refusal(path, where, message, hint)

    if probe.name != path.stem:
        raise refuse(f"the probe is called {probe.name!r}", f"call it {path.stem!r}, as its file")
    if probe.kind not in KINDS:
        raise refuse(f"there is no kind {probe.kind!r}", f"use one of {', '.join(KINDS)}")
    if probe.launch is only_kernels and probe.kernels is None:
        raise refuse("it launches nothing", "give it a launch, or kernels for a GPU")
    if probe.launch is only_kernels and "numpy" in probe.backends:
        raise refuse("NumPy has nothing to launch", 'give it a launch, or backends=("cupy",)')
    if {"near", "cold"}.intersection(probe.states) and not probe.streamed:
        raise refuse(
            "it can be near or cold but streams nothing", "name arguments in streamed=(...)"
        )
    try:
        first = next(points(probe))
        work = probe.work(first.at)
        assert isinstance(first.regime, str), "its regime is no text"
        assert isinstance(work, Work), f"its work is a {type(work).__name__}, not a Work"
    except StopIteration:
        raise refuse("an axis has no values", "give every axis at least one") from None
    except Exception as error:
        line = _line(path, error)
        raise _refusal(path, line if line > 1 else where, _said(error), "mend it") from error


def _refusal(path: Path, line: int, message: str, hint: str) -> DocumentError:
    return DocumentError(message, hint=hint, where=f"{label(path)}:{line}:1")


def _said(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, SyntaxError):
        return f"it is not Python: {error.msg}"
    text = " ".join(str(error).split())
    return text if isinstance(error, AssertionError) and text else f"{type(error).__name__}: {text}"


def _line(path: Path, error: Exception) -> int:
    """Last line of the file that an error went through."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 1 for f in reversed(frames) if f.filename == str(path)), 1)
