"""The best rows of a sweep: of a table, or of a file without all of it in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from roofline.study.grounds import COLUMNS, bounds
from roofline.study.sweep.keep import Objective, losses

if TYPE_CHECKING:
    import pyarrow as pa

FEASIBLE = "feasible"


def order(
    rows: "pa.Table | None", path: Path | None, wanted: Sequence[Objective]
) -> NDArray[np.intp]:
    """Places of rows by the objectives, the first one first; bounds come after forecasts.

    Those that miss something are last.

    Parameters
    ----------
    rows, path
        The table, or the file that has it: of which only the columns wanted are read.
    wanted
        Objectives in their order.
    """
    import pyarrow.parquet as pq

    there = (pq.read_schema(path) if rows is None else rows.schema).names
    about = [name for name in COLUMNS if name in there]
    names = list(dict.fromkeys([FEASIBLE, *(each.column for each in wanted), *about]))
    keys = pq.read_table(path, columns=names) if rows is None else rows.select(names)
    by = [bounds(keys), ~keys[FEASIBLE].to_numpy()]
    if wanted:
        figures = {each.column: keys[each.column].to_numpy() for each in wanted}
        by = [*losses(figures, wanted).T[::-1], *by]
    return np.lexsort(by)


def taken(rows: "pa.Table | None", path: Path | None, places: NDArray[np.intp]) -> "pa.Table":
    """Rows at some places, in their order; of a file one group of rows after the other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if rows is not None:
        return rows.take(places)
    ordered, parts, start = np.sort(places), [], 0
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            stop = start + file.metadata.row_group(number).num_rows
            here = ordered[(ordered >= start) & (ordered < stop)]
            if len(here):
                parts.append(file.read_row_group(number).take(here - start))
            start = stop
        table = pa.concat_tables(parts or [file.schema_arrow.empty_table()])
    return table.take(np.argsort(np.argsort(places)))
