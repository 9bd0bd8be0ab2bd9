"""Measured kernels of each device, engine and number format, with their errors.

``python -m roofline.bench.shipping.coverage`` prints the summary of ``hwspecs/README.md``.
"""

import statistics
import sys
from collections.abc import Iterator, Sequence

from roofline.bench import arguments
from roofline.bench.shipping.files import IndexEntry, entries
from roofline.cost.calibration.kernel import MEASURED
from roofline.table import Column, Table


def measured(device: str) -> Table:
    """Fits of a device: whose kernels, of which kind and formats, and their errors.

    Errors are of shapes that the fit did not see, as shares of the measured time. [1]
    """
    found = [entry for entry in entries().values() if entry.device == device]
    names = ("provider", "kind", "variant", "version", "rows", "median", "p90", "inside")
    return Table({name: Column(tuple(getattr(each, name) for each in found)) for name in names})


def summary() -> Iterator[str]:
    """Lines of a Markdown table: kinds by device, typical errors of their groups."""
    devices = list(MEASURED)
    yield " | ".join(("| kernel", *devices)) + " |"
    yield "|---" * (len(devices) + 1) + "|"
    every = entries().values()
    for kind in sorted({entry.kind for entry in every}):
        cells = [
            _cell([each for each in every if (each.kind, each.device) == (kind, device)])
            for device in devices
        ]
        yield " | ".join((f"| {kind}", *cells)) + " |"


def _cell(found: Sequence[IndexEntry]) -> str:
    """Groups, and the middle one of their errors, median / 90th percentile, and rows inside. [%]"""
    if not found:
        return "–"
    median, p90, inside = (
        statistics.median(100.0 * getattr(each, name) for each in found)
        for name in ("median", "p90", "inside")
    )
    return f"{len(found)}: {median:.1f} / {p90:.0f}, {inside:.0f}"


if __name__ == "__main__":
    arguments.parser("roofline.bench.shipping.coverage", __doc__).parse_args()
    sys.stdout.writelines(f"{line}\n" for line in summary())
