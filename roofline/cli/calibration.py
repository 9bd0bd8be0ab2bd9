"""What a calibration found, as people read it: notes, what changed, errors."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from roofline.cli.render import Format, clean, echo, print_json, print_rows, wrap

if TYPE_CHECKING:
    from roofline.bench.calibrating import Fitted
    from roofline.bench.campaign import Run
    from roofline.bench.profile import Profile
    from roofline.bench.records import Record

STARTS: Final = ("start", "launch", "each", "start_0")
"""Constants of a GPU that are printed beside its rates; the file has all of them."""


def notes_of(run: "Run") -> list[str]:
    """What a reader must know about a run."""
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
    if slow:
        notes.append(
            f"{slow} of them were measured with the clock held down all the time "
            f"({_held(run.records.rows)}): that is what the device gives within its limits."
        )
    if aside := sum(sum(row.dropped.values()) for row in run.records.rows if row.stopped != SLOWED):
        notes.append(f"{aside} samples do not count, since the driver held the clock down.")
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


def _held(rows: "Sequence[Record]") -> str:
    """Reasons for which clocks were held down, the most frequent first."""
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.dropped)
    return ", ".join(reason for reason, _ in reasons.most_common())


def report(found: "Profile", notes: Sequence[str], style: Format) -> None:
    """Print what a calibration says, against the published figures."""
    changes = against(found)
    errors = [_errors(fitted) for fitted in found.fits.values()]
    if style is Format.JSON:
        result = {
            "name": found.name,
            "device": found.device,
            "digest": found.digest,
            "datasheet": found.source,
            "changes": changes,
            "kernels": errors,
        }
        print_json("calibrate", result, notes)
        return
    if style is Format.TABLE:
        device = found.environment.get("title") or found.environment.get("processor", found.device)
        echo(clean(f"{found.name}: {found.provider} on {device}\n"))
    header = ["kernel", "constant", "measured", f"of {found.source}", "what it is"]
    told = [c for c in changes if c["share"] or c["constant"] in STARTS or not found.rates]
    rows = [[c["kernel"], c["constant"], c["measured"], c["share"], c["meaning"]] for c in told]
    print_rows(rows, header, style, "Against the published figures")
    header = ["kernel", "points", "median", "p90", "roofline", "interval holds"]
    percent = [
        [
            *(e["kernel"], str(e["points"])),
            *(f"{e[name]:.1%}" for name in ("median", "p90", "datasheet")),
            f"{e['inside']:.0%}",
        ]
        for e in errors
    ]
    print_rows(percent, header, style, "Errors on shapes that the fit did not see")
    if style is Format.TABLE:
        echo("roofline: the median error of published rates, on the same points.")
        for note in notes:
            said(wrap(note, "  "))


def against(found: "Profile") -> list[dict[str, Any]]:
    """Each fitted constant, as a share of the published rate where there is one."""
    from roofline.bench.forms import rate_of
    from roofline.units import show

    out = []
    for name, fitted in found.fits.items():
        machine = found.of(fitted.arithmetic)
        for constant in fitted.model.form.constants:
            value, unit = fitted.model.constants[constant.name], constant.unit
            whole, of = rate_of(constant, machine)
            if whole and unit == "1":  # a share: shown as the rate that it is
                value, unit = value * whole, of
            out.append(
                {
                    "kernel": name,
                    "constant": constant.name,
                    "value": value,
                    "unit": unit,
                    "measured": show(value, "" if unit == "1" else unit),
                    "share": f"{value / whole:.0%}" if whole else "",
                    "meaning": constant.meaning,
                }
            )
    return out


def _errors(fitted: "Fitted") -> dict[str, Any]:
    return {
        "kernel": fitted.probe,
        "points": fitted.model.rows,
        "median": fitted.errors.median,
        "p90": fitted.errors.p90,
        "datasheet": fitted.datasheet.median,
        "inside": fitted.inside,
    }


def said(text: str) -> None:
    """Print to stderr."""
    sys.stderr.write(clean(text) + "\n")
