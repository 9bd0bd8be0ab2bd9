"""Shipped calibrations: an index of all fits, and an archive for each device and provider.

``hwspecs/calibrations/index.csv`` has a row for each fit with its errors on families of shapes left
out; ``<device>/<provider>.zip`` has the fits, ``<kind>/<variant>``: constants and facts in JSON,
then tables as floats. Facts of all and tables of several, such as the shapes that kernels were
measured at, are in one member, ``common``. A fit is read when an operator asks for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from io import BytesIO
from itertools import starmap
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from roofline.content import shipped
from roofline.cost.calibration.kernel import FitLabel, FittedKernel
from roofline.cost.kernels.catalog import FORMS, name_of
from roofline.cost.kernels.form import FittedForm
from roofline.cost.kernels.residual import FINEST, DecisionTrees, Hull, Residual, StepTable
from roofline.cost.work import Array
from roofline.errors import DocumentError
from roofline.files import text_output
from roofline.kept import fingerprint, kept

if TYPE_CHECKING:
    from zipfile import ZipFile

FOLDER: Final = "calibrations"
"""Folder of calibrations, those shipped and the user's own alike."""
INDEX: Final = "index.csv"
COMMON: Final = "common"
"""Member of an archive that has what its fits have in common."""
LENGTH_BYTES: Final = 4
"""Bytes of the length of what JSON says. [B]"""
LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
"""Time of every member: the same fits make the same bytes."""
DIGITS: Final = 6
"""Significant digits of stored constants and spreads: far finer than any time was measured."""
STORED: Final = np.dtype("<f4")
ROUGH: Final = np.dtype("<f2")
"""Type of stored jumps and waves, whose last digits no time depends on."""
PLACES: Final = np.dtype("u1")
"""Type of stored places of columns and of bounds, and of leaves that are few steps from 0."""
ZERO: Final = 128.0
"""Place of a leaf of 0, in steps."""
STEPS: Final = (FINEST, FINEST / 2.0)
"""Steps of leaves: as trees are made, and of the mean of two. [1]"""
TYPES: Final = {kind.itemsize: kind for kind in (STORED, ROUGH, PLACES)}
ROUNDING: Final = 4e-6
"""Most that rounding moves a stored shape. [octave]"""


class IndexEntry(Struct, frozen=True):
    """Row of the index: a fit's label, its kernel and its errors."""

    device: str
    provider: str
    kind: str
    variant: str
    """Parts of the fit's label."""
    kernel: str
    version: str
    """Name of the measured kernel in its source, and the release it belongs to."""
    rows: int
    """Number of measurements that the fit was made from. [1]"""
    median: float
    mean: float
    p90: float
    """Absolute errors on families of shapes left out, as shares of the measured time. [1]"""
    inside: float
    """Share of those rows within their central 80 % interval. [1]"""
    datasheet: float
    """Median error of the roofline at published rates. [1]"""

    @property
    def label(self) -> FitLabel:
        """Label of the fit."""
        return FitLabel(self.device, self.provider, self.kind, self.variant)


WORDS: Final = ("device", "provider", "kind", "variant", "kernel", "version")
FIGURES: Final = ("median", "mean", "p90", "inside", "datasheet")
"""Columns of the index beside ``rows``."""


def folder() -> Path:
    """Folder of the shipped calibrations."""
    return shipped("hwspecs") / FOLDER


def path_of(label: FitLabel) -> Path:
    """Archive that a fit is in."""
    return folder() / label.device / f"{label.provider}.zip"


@cache
def entries() -> Mapping[FitLabel, IndexEntry]:
    """The index, by label.

    Raises:
        DocumentError: It is damaged.
    """
    found = {}
    with _index() as rows:
        names = next(rows)
        for values in rows:
            row = dict(zip(names, values, strict=True))
            device, provider, kind, variant, kernel, version = (row[name] for name in WORDS)
            figures = [float(row[name]) for name in FIGURES]
            entry = IndexEntry(
                device, provider, kind, variant, kernel, version, int(row["rows"]), *figures
            )
            found[entry.label] = entry
    return found


@cache
def labels() -> tuple[FitLabel, ...]:
    """Labels of all shipped fits, from the index alone: no archive is opened.

    Raises:
        DocumentError: The index is damaged.
    """

    def read() -> list[tuple[str, ...]]:
        with _index() as rows:
            places = map(next(rows).index, WORDS[:4])
            return list(map(itemgetter(*places), rows))

    return tuple(starmap(FitLabel, kept(read, "labels of fits", [folder() / INDEX])))


@contextmanager
def _index() -> Iterator[Iterator[list[str]]]:
    """Rows of the index, the names of its columns first."""
    import csv

    path = folder() / INDEX
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield csv.reader(file)
    except (IndexError, KeyError, StopIteration, TypeError, ValueError) as error:
        raise DocumentError(
            f"the index of calibrations is damaged: {error}",
            hint="install roofline again",
            where=str(path),
        ) from error


@cache
def fit_of(label: FitLabel) -> FittedKernel:
    """A shipped fit.

    Raises:
        DocumentError: Its archive is damaged.
    """
    path = path_of(label)
    try:
        member = f"{label.kind}/{label.variant}"
        parts = kept(lambda: split(stored(label)), f"fit {member}", [path], _fingerprint(path))
        return made_of(label, *parts)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise DocumentError(
            f"the calibration {label.kind} {label.variant} cannot be read: {error}",
            hint="install roofline again",
            where=str(path),
        ) from error


@lru_cache(maxsize=64)
def _fingerprint(path: Path) -> bytes:
    """Fingerprint of an archive, which does not change while the program runs."""
    return fingerprint([path])


def stored(label: FitLabel) -> bytes:
    """A shipped fit as `pack` made it.

    Raises:
        OSError, KeyError, ValueError: The archive is not there, has no such fit or is damaged.
    """
    from zipfile import BadZipFile

    member = f"{label.kind}/{label.variant}"
    try:
        archive = _archive(path_of(label))
        own = BytesIO(archive.members.read(member))
    except BadZipFile as error:
        raise ValueError(str(error)) from error
    head = archive.heads[member]
    lengths = _lengths(_told(head)[0])
    tables = zip(archive.tables[member], lengths, strict=True)
    return head + b"".join(table or own.read(length) for table, length in tables)


class _Archive(NamedTuple):
    """Archive in memory, as `write` makes it."""

    members: "ZipFile"
    heads: Mapping[str, bytes]
    """Facts of each fit in JSON, from the common member."""
    tables: Mapping[str, list[bytes | None]]
    """Tables of each fit that are in that member; None for those of its own."""


@lru_cache(maxsize=8)
def _archive(path: Path) -> _Archive:
    """An archive in memory: to read where its members are takes as long as to read one.

    Raises:
        OSError, KeyError, ValueError, BadZipFile: It is not there or damaged.
    """
    from zipfile import ZipFile

    members = ZipFile(BytesIO(path.read_bytes()))
    common = members.read(COMMON)
    told, start = _told(common)
    stream = BytesIO(common[start:])
    pieces = dict(enumerate(map(stream.read, told["lengths"])))
    places = told["places"].items()
    return _Archive(
        members,
        {name: pieces[head] for name, (head, *_) in places},
        {name: [*map(pieces.get, tables)] for name, (_, *tables) in places},
    )


def write(fits: Iterable[tuple[IndexEntry, bytes]], into: Path) -> None:
    """Write an index and its archives; the same fits make the same bytes.

    Args:
        fits: All of them, packed.
        into: Folder, as `folder` is.
    """
    import csv
    import zipfile

    ordered = sorted(fits, key=lambda fit: fit[0].label)
    archives: dict[tuple[str, str], dict[str, bytes]] = {}
    for entry, packed in ordered:
        inside = archives.setdefault((entry.device, entry.provider), {})
        inside[f"{entry.kind}/{entry.variant}"] = packed
    for old in into.glob("*/*.zip"):
        old.unlink()
    for (device, provider), inside in archives.items():
        (into / device).mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(into / device / f"{provider}.zip", "w") as archive:
            for name, content in _members(inside).items():
                member = zipfile.ZipInfo(name, LONG_AGO)
                archive.writestr(member, content, zipfile.ZIP_LZMA)
    with text_output(into / INDEX) as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(IndexEntry.__struct_fields__)
        for entry, _ in ordered:
            values = (getattr(entry, name) for name in IndexEntry.__struct_fields__)
            table.writerow(f"{v:.4g}" if isinstance(v, float) else v for v in values)


def _members(fits: Mapping[str, bytes]) -> dict[str, bytes]:
    """Members of an archive of packed fits, by name: what they have in common, then each one."""
    pieces = {name: list(_pieces(packed)) for name, packed in fits.items()}
    tables = Counter(table for _, *each in pieces.values() for table in each)
    heads = [head for head, *_ in pieces.values()]
    common = [*heads, *(table for table, many in tables.items() if many > 1)]
    place = {piece: number for number, piece in enumerate(common)}
    told = {
        "lengths": [*map(len, common)],
        "places": {name: [*map(place.get, each)] for name, each in pieces.items()},
    }
    own = {
        name: b"".join(piece for piece in each if piece not in place)
        for name, each in pieces.items()
    }
    return {COMMON: _with_length(told) + b"".join(common), **own}


def _pieces(packed: bytes) -> Iterator[bytes]:
    """Facts of a packed fit in JSON, and each of its tables."""
    head, start = _told(packed)
    stream = BytesIO(packed)
    yield from map(stream.read, [start, *_lengths(head)])


def _lengths(head: Mapping[str, Any]) -> list[int]:
    """Bytes of each table of a packed fit. [B]"""
    return [prod(shape) * width for *shape, width in head["shapes"]]


def _with_length(told: Mapping[str, Any]) -> bytes:
    """JSON, behind the number of its bytes."""
    import json

    text = json.dumps(told, separators=(",", ":")).encode()
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _told(content: bytes) -> tuple[dict[str, Any], int]:
    """Content of JSON that `_with_length` wrote, and where it ends.

    Raises:
        ValueError: It is damaged.
    """
    import json

    end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    found: dict[str, Any] = json.loads(content[LENGTH_BYTES:end])
    return found, end


def pack(kernel: FittedKernel) -> bytes:
    """Bytes of a fit, as `unpack` reads them."""
    model = kernel.model
    hull, residual = model.hull, model.residual
    steps = None if residual is None else residual.steps
    arrays: list[tuple[NDArray[Any], np.dtype[Any]]] = [(hull.points, STORED)]
    if residual is not None:
        arrays.append((residual.weights, STORED))
        if steps is not None:
            arrays += [(steps.nodes, STORED), (steps.families, STORED), (steps.weights, ROUGH)]
        if residual.waves is not None:
            arrays.append((residual.waves, ROUGH))
        if (branches := residual.branches) is not None:
            arrays += _stored(branches)
    head = {
        "form": name_of(model.form),
        "arithmetic": kernel.arithmetic,
        "kernel": kernel.name,
        "constants": {name: _rounded(value) for name, value in model.constants.items()},
        "spread": _rounded(model.spread),
        "spreads": {str(regime): _rounded(value) for regime, value in model.spreads.items()},
        "rows": model.rows,
        "source": model.source,
        "low": hull.low.tolist(),
        "high": hull.high.tolist(),
        "radius": hull.radius + ROUNDING,
        "reach": None if residual is None else residual.reach,
        "steps_reach": None if residual is None or steps is None else residual.steps_reach,
        "waves": residual is not None and residual.waves is not None,
        "branches": residual is not None and residual.branches is not None,
        "shapes": [(*array.shape, kind.itemsize) for array, kind in arrays],
    }
    # Column by column: values of a column are alike, and alike is what compresses.
    tables = b"".join(array.astype(kind).tobytes(order="F") for array, kind in arrays)
    return _with_length(head) + tables


def unpack(label: FitLabel, stored: bytes) -> FittedKernel:
    """The fit that bytes are of.

    Raises:
        ValueError, KeyError, TypeError: They are not what `pack` made.
    """
    return made_of(label, *split(stored))


def split(stored: bytes) -> tuple[dict[str, Any], list[Array]]:
    """Constants and facts of a fit's bytes, and its tables.

    Raises:
        ValueError, KeyError, TypeError: They are not what `pack` made.
    """
    head, start = _told(stored)
    return head, list(_arrays(head["shapes"], stored[start:]))


def made_of(label: FitLabel, head: Mapping[str, Any], tables: Iterable[Array]) -> FittedKernel:
    """The fit of constants, facts and tables that `split` found.

    Raises:
        ValueError, KeyError, TypeError: They are not of a fit.
    """
    arrays = iter(tables)
    form = FORMS[head["form"]]
    points = next(arrays)
    residual = None
    if head["reach"] is not None:
        weights, steps = next(arrays), None
        if head["steps_reach"] is not None:
            steps = StepTable(next(arrays), next(arrays), next(arrays))
        waves = next(arrays) if head.get("waves") else None
        branches = None
        if head.get("branches"):
            branches = _branches(arrays)
        reach, steps_reach = head["reach"], head["steps_reach"] or 0.0
        residual = Residual(weights, reach, steps, steps_reach, waves, branches)
    model = FittedForm(
        form,
        {constant.name: float(head["constants"][constant.name]) for constant in form.constants},
        residual,
        {int(regime): value for regime, value in head["spreads"].items()},
        head["spread"],
        Hull(np.array(head["low"]), np.array(head["high"]), points, head["radius"]),
        head["rows"],
        head["source"],
    )
    return FittedKernel(label, head["arithmetic"], model, head.get("kernel", ""))


def _stored(branches: DecisionTrees) -> Iterator[tuple[NDArray[Any], np.dtype[Any]]]:
    """Tables of trees: columns, bounds by their places among those of a column, leaves.

    Leaves are whole steps: as bytes they compress to less than as floats. Those of a fit with one
    that is too many steps from 0 stay floats.
    """
    columns, bounds, values = branches
    every = [np.unique(bounds[columns == column]) for column in range(columns.max() + 1)]
    known, places = np.zeros((len(every), max(map(len, every)))), np.zeros_like(columns)
    for column, of in enumerate(every):
        known[column, : len(of)] = of
        mine = columns == column
        places[mine] = np.searchsorted(of, bounds[mine])
    yield from ((columns, PLACES), (known, STORED), (places, PLACES))
    step = next((each for each in STEPS if not (values % each).any()), 0.0)
    steps = values / step + ZERO if step else values
    if step and steps.min() >= 0.0 and steps.max() <= np.iinfo(PLACES).max:
        # Tree by tree: leaves of a tree are alike.
        yield from ((np.array([step]), STORED), (steps.T, PLACES))
    else:
        yield from ((np.array([0.0]), STORED), (values, ROUGH))


def _branches(arrays: Iterator[Array]) -> DecisionTrees:
    """The trees that `_stored` made tables of."""
    columns, known, places = next(arrays).astype(np.intp), next(arrays), next(arrays)
    (step,), leaves = next(arrays), next(arrays)
    values = np.ascontiguousarray(leaves.T - ZERO) * step if step else leaves
    return DecisionTrees(columns, known[columns, places.astype(np.intp)], values)


def _arrays(shapes: list[list[int]], stored: bytes) -> Iterator[Array]:
    start = 0
    for *shape, width in shapes:
        count = prod(shape)
        kind = TYPES[width]
        table = np.frombuffer(stored, dtype=kind, count=count, offset=start)
        yield table.reshape(shape, order="F").astype(np.float64, order="C")
        start += count * width


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
