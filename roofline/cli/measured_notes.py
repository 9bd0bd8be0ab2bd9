"""Notes on a run of measurements, one sentence each."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.bench.campaign import Run
    from roofline.bench.records import Record


def notes_of(run: "Run") -> list[str]:
    """Notes on a run: noise, points that were not finished, slowed down or left out."""
    from roofline.bench.calibrating import with_others
    from roofline.bench.campaign import LEFT_OUT
    from roofline.bench.stopping import CONVERGED, SLOWED

    notes = [f"{len(run.records.rows)} points were measured in {run.seconds:.0f} s."]
    noises = [noise for noise in (run.before, run.after) if noise is not None]
    for noise in noises[-1:] if all(n.calm for n in noises) else [n for n in noises if not n.calm]:
        state = "calm" if noise.calm else "disturbed: calibrate again when it is calm"
        notes.append(f"The machine was {state}; {noise}.")
    reasons = Counter(row.stopped for row in run.records.rows)
    slow = reasons.pop(SLOWED, 0)
    loose = sum(count for reason, count in reasons.items() if reason != CONVERGED)
    notes.append(f"{loose} of them stopped before their median was known to 1%, out of time.")
    others = [row for row in run.records.rows if with_others(row)]
    if slow := slow - len(others):
        notes.append(
            f"{slow} of them were measured with the clock held down all the time "
            f"({_held(run.records.rows)}): that is what the device gives within its limits."
        )
    if others:
        notes.append(
            f"{len(others)} of them were slowed down by others all the time, and count only where "
            "there are too few points without them."
        )
    if aside := sum(sum(row.dropped.values()) for row in run.records.rows if row.stopped != SLOWED):
        held = _held(row for row in run.records.rows if row.stopped != SLOWED)
        notes.append(f"{aside} samples do not count, since the device was slowed down: {held}.")
    if run.dropped:
        counts = Counter(entry.point.probe.name for entry in run.dropped)
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        why = Counter(entry.reason for entry in run.dropped).most_common(2)
        most = "; ".join(f"{reason} ({count})" for reason, count in why)
        notes.append(
            f"{len(run.dropped)} points were left out: {listed}. Most often: {most}. "
            f"{LEFT_OUT} in the folder of the measurements lists them with the reason."
        )
    notes += run.records.notes
    return notes


def _held(rows: "Iterable[Record]") -> str:
    """Reasons for which the device was slowed down, the most frequent first."""
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.dropped)
    return ", ".join(reason for reason, _ in reasons.most_common())
