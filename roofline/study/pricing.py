"""The work of a chunk: its lanes priced, its rows judged, the best of them kept."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from roofline.study import long_run, pointwise
from roofline.study.grid import Grid, Name
from roofline.study.keeping import Keep
from roofline.study.rows import rows
from roofline.study.scenario.lane import Lane
from roofline.study.scenario.scenario import Scenario
from roofline.study.store.chunk import Chunk
from roofline.study.store.parts import TALLY

if TYPE_CHECKING:
    import pyarrow as pa

FEASIBLE = "feasible"
"""Under which configurations are counted that miss nothing."""


ONE_BY_ONE: Final = 256
"""Configurations of a chunk where each is priced by itself."""
LANES: Final = 4
"""Lanes of a chunk of traffic, of which each takes a second or two."""


def chunk_size(scenario: Scenario, grid: Grid) -> int:
    """Configurations of a chunk: some seconds of work."""
    return LANES * grid.points if scenario.kind == "traffic" else ONE_BY_ONE


@dataclass(frozen=True, slots=True)
class Pricing:
    """Prices the configurations of a chunk; can be sent to another process.

    Attributes
    ----------
    scenario, grid
        What was asked.
    lanes
        From the names of a lane to what is priced.
    keep
        Which rows are kept.
    """

    scenario: Scenario
    grid: Grid
    lanes: Callable[[Mapping[str, Name]], Lane]
    keep: Keep

    def __call__(self, chunk: Chunk) -> "pa.Table":
        """Rows of a chunk that are kept; its metadata counts all of them by what they miss."""
        import pyarrow as pa

        tally: Counter[str] = Counter()
        kept = []
        for table in self._tables(chunk):
            counts = table["limit"].value_counts().to_pylist()
            tally.update({each["values"] or FEASIBLE: each["counts"] for each in counts})
            kept.append(self.keep(table))
        together = self.keep(pa.concat_tables(kept).unify_dictionaries())
        return together.replace_schema_metadata({TALLY: json.dumps(dict(sorted(tally.items())))})

    def _tables(self, chunk: Chunk) -> Iterator["pa.Table"]:
        for number, start, stop in self.grid.spans(chunk.start, chunk.stop):
            lane = self.lanes(self.grid.lane(number))
            numbers = self.grid.numbers(start, stop)
            if self.scenario.kind == "traffic":
                priced = long_run.points(lane, numbers, self.scenario.seed)
            else:
                priced = pointwise.points(lane, numbers)
            yield rows(self.scenario, lane, number * self.grid.points + start, numbers, *priced)
