"""Table of named columns with units, and a result made of tables, which all rooms share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    import pandas
    import plotly.graph_objects

BASES = ("measured", "interpolated", "extrapolated", "transferred", "datasheet", "assumed")
"""Bases of figures, from best to worst; a figure built from others has the worst of theirs."""

USUAL_KERNELS = "usual kernels"
"""Name of what prices a device that no kernels were measured on."""


def worst(bases: Iterable[str]) -> str:
    """Basis of a figure built from others: the worst one wins.

    >>> worst(["measured", "assumed", "datasheet"])
    'assumed'
    """
    known = [BASES.index(basis) for basis in bases if basis]
    return BASES[max(known)] if known else ""


class Notebook(Protocol):
    """Writer of results for a notebook; it is in a room that this one does not see."""

    def html(self, shown: "Result | Table | Derivation") -> str:
        """Fragment of HTML, without scripts."""
        ...

    def plot(self, result: "Result", name: str) -> "plotly.graph_objects.Figure":
        """Figure of a result."""
        ...

    def page(self, result: "Result", height: int) -> "Page":
        """Report of a result, to be shown inline."""
        ...


class Page(Protocol):
    """Object that a notebook shows by its HTML."""

    def _repr_html_(self) -> str: ...


class Terminal(Protocol):
    """Writer of results as text; it is in a room that this one does not see."""

    def shown_text(self, shown: "Result | Table | Derivation", whole: bool) -> str:
        """Text of all of it, or of as much as a screen has room for."""
        ...


_writers: list[tuple[Callable[[], Notebook], Callable[[], Terminal]]] = []


def shown_by(notebook: Callable[[], Notebook], terminal: Callable[[], Terminal]) -> None:
    """Say what shows results.

    Args:
        notebook, terminal: Give it; called when something is shown, as writing takes libraries
            that the rest does not.
    """
    _writers[:] = [(notebook, terminal)]


def _notebook() -> Notebook:
    assert _writers, "the package says what shows results"
    return _writers[0][0]()


def _text(shown: "Result | Table | Derivation", whole: bool) -> str:
    assert _writers, "the package says what shows results"
    return _writers[0][1]().shown_text(shown, whole)


class Estimate(Struct, frozen=True):
    """One figure of an answer.

    Examples:
        >>> Estimate(0.25, 0.2, 0.3, "s", "interpolated").high
        0.3
    """

    value: Any
    """Median, in base units."""
    low: float | None = None
    high: float | None = None
    """Central 80 % interval, in base units; None where the question has no meaning."""
    unit: str = ""
    """Base unit: ``"s"``."""
    basis: str = ""
    """One of `BASES`."""


class Column(Struct, frozen=True):
    """One named column: its values, and what they are.

    Attributes:
        values: One per row: numbers, or text.
        unit: Base unit of every value; empty for text and plain numbers.
        basis: How the values are known, one of `BASES`; empty where the question has no meaning.
    """

    values: tuple[Any, ...]
    unit: str = ""
    basis: str = ""


class Table(Struct, frozen=True):
    """Columns of equal length; a row is an operator, a scenario or a part."""

    columns: Mapping[str, Column]

    def __post_init__(self) -> None:
        """Refuse ragged columns: they are our own mistake."""
        assert len({len(column.values) for column in self.columns.values()}) <= 1, "ragged table"

    def __len__(self) -> int:
        """Rows."""
        return len(next(iter(self.columns.values())).values) if self.columns else 0

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        """Values of one column."""
        return self.columns[name].values

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows as plain Python values."""
        names = list(self.columns)
        for values in zip(*(self.columns[name].values for name in names), strict=True):
            yield dict(zip(names, values, strict=True))

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> "Table":
        """Table of the same columns with other rows."""
        return Table(
            {
                name: Column(tuple([row[name] for row in rows]), column.unit, column.basis)
                for name, column in self.columns.items()
            }
        )

    def to_pandas(self) -> "pandas.DataFrame":
        """Table as a data frame; units and bases are in ``DataFrame.attrs``."""
        import pandas as pd

        frame = pd.DataFrame({name: list(column.values) for name, column in self.columns.items()})
        frame.attrs["units"] = {name: column.unit for name, column in self.columns.items()}
        frame.attrs["basis"] = {name: column.basis for name, column in self.columns.items()}
        return frame

    def __repr__(self) -> str:
        """First rows, in columns of text."""
        return _text(self, whole=False)

    def __str__(self) -> str:
        """All rows, in columns of text."""
        return _text(self, whole=True)

    def _repr_html_(self) -> str:
        """Table as a notebook shows it."""
        return _notebook().html(self)


ENDINGS = {
    "_tok_s": "token/s",
    "_tok_s_per_gpu": "token/s",
    "requests_per_s": "request/s",
    "usd_per_mtok": "$",
    "_bytes": "B",
    "seconds": "s",
    "_s": "s",
    "tokens": "token",
    "flops": "FLOP",
    "intensity": "FLOP/B",
}
"""Units of columns by how their names end; of two endings the first one decides."""


def units_of(names: Iterable[str]) -> dict[str, str]:
    """Base unit of each column whose name says it; an end of an interval has that of its figure.

    >>> units_of(["op", "roof_s", "tpot_s_low", "kv_bytes"])
    {'roof_s': 's', 'tpot_s_low': 's', 'kv_bytes': 'B'}
    """
    found = {}
    for name in names:
        figure = name.removesuffix("_low").removesuffix("_high")
        unit = next((unit for end, unit in ENDINGS.items() if figure.endswith(end)), "")
        if unit:
            found[name] = unit
    return found


def table(rows: Sequence[Mapping[str, Any]], units: Mapping[str, str], basis: str = "") -> Table:
    """Make a table of rows that have the same keys.

    Args:
        rows: Mappings from column to value; the first one names the columns.
        units: Base unit by column; columns that are not named have none.
        basis: How the numbers that have a unit are known.

    Examples:
        >>> table([{"op": "gemm", "seconds": 2.0}], {"seconds": "s"})["seconds"]
        (2.0,)
    """
    names = list(rows[0]) if rows else list(units)
    return Table(
        {
            name: Column(
                tuple([row[name] for row in rows]),
                unit=units.get(name, ""),
                basis=basis if name in units else "",
            )
            for name in names
        }
    )


class Derivation(Struct, frozen=True):
    """Derivation of one number: a tree that ends in facts with sources.

    Attributes:
        name, value, unit: What it is. ``value`` is in base units.
        formula: In symbols: ``"max(F / P, B / BW)"``. Empty for a fact.
        substituted: The same with the numbers put in.
        inputs: Where those numbers come from.
        source: Document and place of a fact, or the publication of a formula.
        basis: One of `BASES`.
        note: A convention or an omission worth knowing.
    """

    name: str
    value: float
    unit: str
    formula: str = ""
    substituted: str = ""
    inputs: tuple["Derivation", ...] = ()
    source: str = ""
    basis: str = ""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain nested values; empty fields are left out."""
        out: dict[str, Any] = {"name": self.name, "value": self.value, "unit": self.unit}
        for key in ("formula", "substituted", "source", "basis", "note"):
            if text := getattr(self, key):
                out[key] = text
        if self.inputs:
            out["inputs"] = [entry.to_json() for entry in self.inputs]
        return out

    def to_pandas(self) -> "pandas.DataFrame":
        """Tree as a data frame: a row for each entry, its place in the tree under ``depth``.

        Examples:
            >>> read = Derivation("bytes", 2.0, "B")
            >>> Derivation("time", 1.0, "s", formula="B / BW", inputs=(read,)).to_pandas()["depth"]
            0    0
            1    1
            Name: depth, dtype: int64
        """
        import pandas as pd

        fields = ("name", "value", "unit", "formula", "substituted", "basis", "source", "note")
        rows = [
            {"depth": depth} | {key: getattr(entry, key) for key in fields}
            for depth, entry in self.walk()
        ]
        return pd.DataFrame(rows)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Derivation"]]:
        """Entry and all under it, each before its inputs, with their depth."""
        yield depth, self
        for entry in self.inputs:
            yield from entry.walk(depth + 1)

    def __str__(self) -> str:
        """Tree as a terminal shows it."""
        return _text(self, whole=True)

    def _repr_html_(self) -> str:
        """Tree as a notebook shows it."""
        return _notebook().html(self)


class Result(Struct, frozen=True):
    """Answer to one question: tables, the derivation of headline figures, and how it was asked.

    Headline figures are attributes: ``result.tpot.value``; ``dir(result)`` lists them.

    Attributes:
        kind: Which question: ``"analyze"``, ``"compare"``.
        tables: Named tables in the order they are meant to be read.
        derivations: By metric name.
        notes: What a reader must know to read the numbers right, one sentence each.
        metadata: Plain values: the inputs as resolved, versions, names.
    """

    kind: str
    tables: Mapping[str, Table]
    derivations: Mapping[str, Derivation] = {}
    notes: Sequence[str] = ()
    metadata: Mapping[str, Any] = {}

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Headline figures by name: ``"tpot_s"``, of traffic also ``"tpot_s_p99"``."""
        found: dict[str, Estimate] = {}
        for figures in self._figures():
            found |= figures | found  # the headline comes first
        return found

    def _figures(self) -> Iterator[dict[str, Estimate]]:
        """Figures of one table after the other."""
        if verdict := self.tables.get("verdict"):
            for name, column in verdict.columns.items():
                for value in column.values:
                    yield {name: Estimate(value, unit=column.unit, basis=column.basis)}
        for entry in self.tables.values():
            if {"metric", "unit"} <= set(entry.columns):
                for row in entry.rows():
                    yield _estimates(row)

    def __getattr__(self, name: str) -> Estimate:
        """Headline figure, with or without the unit in its name."""
        if name.startswith("_") or hasattr(Result, name):
            raise AttributeError(name)
        stem, _, percentile = name.rpartition("_")
        endings = (f"{name}_s", f"{name}_tok_s", f"{name}_tokens", f"{stem}_s_{percentile}")
        for figures in self._figures():
            for spelled in (name, *endings):
                if spelled in figures:
                    return figures[spelled]
        known = ", ".join(self.estimates)
        raise AttributeError(f"a result of {self.kind} has no {name!r}; it has {known}")

    def __dir__(self) -> list[str]:
        """Attributes, and the headline figures by their short names."""
        short = {name.removesuffix("_tok_s").removesuffix("_s") for name in self.estimates}
        return sorted({*object.__dir__(self), *short})

    def __repr__(self) -> str:
        """Sentences of the answer and its first table, in a screenful."""
        return _text(self, whole=False)

    def __str__(self) -> str:
        """Answer as a terminal shows it."""
        return _text(self, whole=True)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Rows of a table as plain Python values; none where there is no such table."""
        return list(self.tables[name].rows()) if name in self.tables else []

    def to_pandas(self) -> "dict[str, pandas.DataFrame]":
        """Each table as a data frame, by name."""
        return {name: entry.to_pandas() for name, entry in self.tables.items()}

    def plot(self, name: str = "") -> "plotly.graph_objects.Figure":
        """A figure of the report, to look at in a notebook or to change.

        Args:
            name: Which: ``"roofline-chart"``; empty for the first. The result in a notebook names
                them.

        Raises:
            InputError: No figure is drawn of such results.
            UnknownNameError: None has that name.
        """
        return _notebook().plot(self, name)

    def page(self, height: int = 800) -> Page:
        """The report inline in a notebook, as ``--report`` writes it: figures, controls, tables.

        Args:
            height: Height of the frame that it is in. [px]

        Raises:
            InputError: It is no whole number of at least 1.
        """
        return _notebook().page(self, height)

    def _repr_html_(self) -> str:
        """Result as a notebook shows it: what it says, its tables, its notes."""
        return _notebook().html(self)


STATISTICS = ("mean", "p50", "p90", "p95", "p99")
"""Statistics of a latency under traffic."""


def _estimates(row: Mapping[str, Any]) -> dict[str, Estimate]:
    """Figures of a row that is about one metric: its value, or each of its statistics."""
    name, unit, basis = row["metric"], row["unit"], row.get("basis", "")
    value = row.get("value", row.get("reported"))
    found = {name: Estimate(value, row.get("low"), row.get("high"), unit, basis)}
    for each in STATISTICS:
        if each in row:
            ends = row.get(f"{each}_low"), row.get(f"{each}_high")
            found[f"{name}_{each}"] = Estimate(row[each], *ends, unit, basis)
    return found
