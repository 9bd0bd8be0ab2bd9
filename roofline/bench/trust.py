"""Measurements that contradict the machine they are said to be of: told, and kept out of fits."""

from collections import Counter
from typing import Final

from roofline.bench.published import Published
from roofline.bench.records import Record, Records
from roofline.bench.stopping import SLOWED
from roofline.cost.kernels.form import Machine
from roofline.errors import InputError

FASTER: Final = 4.0
"""Times the published rates that nothing reaches; what stands in for those of processors, which
raise their clocks, is reached twice. Assumed."""
SLOWER: Final = 1e4
LONGEST_S: Final = 1.0
"""Times the published rates, and beyond that, in which any kernel ends; assumed."""
CLOCK: Final = 0.5
"""Share of the usual clock of a run below which something held a device down; assumed."""
FAULTY: Final = frozenset(
    {"hardware slowdown", "temperature", "hardware temperature", "power brake"}
)
"""Reasons of a driver for a lower clock that are of a room or a cable, not of a product."""


def trusted(records: Records, published: Published) -> tuple[list[Record], list[str]]:
    """Rows that a fit may take, and a sentence about the others.

    Args:
        records: Of a run.
        published: Rates of where it was measured.

    Raises:
        InputError: All of it was measured on a part of a device.
    """
    about = records.header.environment
    have, whole = float(about.get("multiprocessors", 0)), published.machine.multiprocessors
    if about.get("mig") == "on" and have < whole:
        raise InputError(
            f"the run is of a slice with {have:.0f} of the {whole:.0f} multiprocessors of "
            f"{published.source} (MIG is on)",
            hint="measure with MIG off, or name a GPU file of the slice with --gpu",
        )
    clocks = sorted(clock for row in records.rows if (clock := row.clocks.get("sm_hz", 0.0)) > 0)
    usual = clocks[len(clocks) // 2] if clocks else 0.0
    doubts = [_doubt(row, published.of(row.arithmetic), usual) for row in records.rows]
    notes = []
    if counts := Counter(filter(None, doubts)):
        why = ", ".join(f"{count} {reason}" for reason, count in counts.most_common())
        notes = [f"{counts.total()} points are kept out of the fit: {why}."]
    if about.get("ecc", "unknown") != "unknown":
        notes.append(f"Memory was measured with ECC {about['ecc']}.")
    return [row for row, doubt in zip(records.rows, doubts, strict=True) if not doubt], notes


def _doubt(row: Record, machine: Machine, usual_hz: float) -> str:
    """Why a fit must not take a row; empty where it may."""
    moved = sum(size for name, size in row.work.items() if name != "flops")
    compute = row.work["flops"] / machine.flops_per_s
    # What is in a cache of unknown rate may come at any.
    cached = moved / max(machine.l2_bytes_per_s, machine.hbm_bytes_per_s)
    least = max(compute, cached if machine.l2_bytes_per_s else 0.0)
    most = max(compute, moved / machine.hbm_bytes_per_s)
    seconds = row.median.value
    if seconds < least / FASTER:
        return "faster than the device can be"
    if seconds > LONGEST_S + SLOWER * most:
        return "slower than any kernel is"
    if row.clocks.get("others", 0.0) > 0:
        return "measured beside other processes"
    if row.stopped == SLOWED and FAULTY & set(", ".join(row.dropped).split(", ")):
        return "throttled by heat or by the board"
    if row.clocks.get("sm_hz", usual_hz) < CLOCK * usual_hz and row.stopped != SLOWED:
        return "at a clock that nothing explains"
    return ""
