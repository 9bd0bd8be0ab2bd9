"""``roofline calibrate``: measure this machine, fit the model to it, say how good the fit is."""

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from roofline.cli.render import Format, clean, echo, print_json, print_rows, wrap
from roofline.errors import InputError

if TYPE_CHECKING:
    from roofline.bench.calibrating import Fitted
    from roofline.bench.campaign import Run
    from roofline.bench.engine import Measurement
    from roofline.bench.profile import Profile
    from roofline.bench.records import Records


class BackendName(StrEnum):
    """Array module that probes run on."""

    NUMPY = "numpy"
    CUPY = "cupy"


_DURATION: Final = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*(s|sec|min|m|h)?\s*")
_SECONDS: Final = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LEAST_BUDGET_S: Final = 5.0
_EVERY_S: Final = 5.0
"""Between two lines of progress, where a line cannot be written over."""
_THREADS: Final = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

BackendOf: TypeAlias = Annotated[
    BackendName, typer.Option("--backend", help="numpy: this processor; cupy: a GPU.")
]
Threads: TypeAlias = Annotated[
    int, typer.Option(help="Threads that NumPy computes with; times of one leave out other users.")
]
Budget: TypeAlias = Annotated[str, typer.Option(help="Time for everything: 90s, 3min.")]
RecordsOf: TypeAlias = Annotated[
    Path | None,
    typer.Option("--records", help="Folder for the measurements; goes on with those in it."),
]


def calibrate(
    budget: Budget = "3min",
    backend: BackendOf = BackendName.NUMPY,
    threads: Threads = 1,
    records: RecordsOf = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write; else one in the folder for your own.")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Measure this machine's kernels, fit the model to them, and keep the result."""
    seconds = duration(budget)
    with_threads(threads)
    from roofline.bench import campaign
    from roofline.bench.probe import probes

    where = campaign.place(backend.value)
    folder = records or campaign.folder_for(where)
    said(f"{where.environment['processor']}, {where.environment['threads']} thread(s)")
    done = campaign.measure(where, probes(), seconds, folder, progress())
    found, notes, path = fitted(done.records, out)
    report(found, [*notes_of(done), *notes], format_)
    said(f"measurements in {folder}")
    said(f"wrote {path}")


def duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``3min`` or ``1h``.

    Raises
    ------
    InputError
        It is no time, or too short to measure anything.

    Examples
    --------
    >>> duration("1.5min")
    90.0
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InputError(f"--budget {text!r} is no time", hint="write it like 90s or 3min")
    seconds = float(found[1]) * _SECONDS[found[2] or ""]
    if seconds < _LEAST_BUDGET_S:
        raise InputError(
            f"nothing can be measured in {seconds:g} s", hint="give --budget at least 5s"
        )
    return seconds


def with_threads(count: int) -> None:
    """Have NumPy compute with so many threads; it reads that once, when it is loaded.

    Raises
    ------
    InputError
        Less than one, or NumPy is loaded with another number.
    """
    if count < 1:
        raise InputError(f"{count} threads cannot compute", hint="give --threads at least 1")
    if "numpy" in sys.modules:
        from roofline.bench.clock import threads

        if threads() != count:
            raise InputError(
                f"NumPy is loaded already, with {threads()} threads",
                hint=f"set {_THREADS[0]}={count} before Python starts",
            )
    for name in _THREADS:
        os.environ[name] = str(count)


def progress() -> "Callable[[int, int, Measurement], None]":
    """Says on stderr how far it is: on one line of a terminal, now and then elsewhere."""
    terminal = sys.stderr.isatty()
    last = 0.0

    def show(index: int, total: int, measurement: "Measurement") -> None:
        nonlocal last
        now = time.monotonic()
        if index < total and now - last < (0.1 if terminal else _EVERY_S):
            return
        last = now
        line = f"{index}/{total} {measurement.point.name}"
        end = "" if terminal and index < total else "\n"
        sys.stderr.write(f"\r\x1b[K{clean(line)}{end}" if terminal else f"{clean(line)}\n")
        sys.stderr.flush()

    return show


def fitted(records: "Records", out: Path | None) -> "tuple[Profile, list[str], Path]":
    """Fit a run, write the calibration and read it back."""
    from roofline.bench.calibrating import fit_records
    from roofline.bench.campaign import published
    from roofline.bench.profile import profile, write
    from roofline.bench.profile_file import folders, load

    machine, datasheet = published(records)
    fits, notes = fit_records(records, machine)
    made = profile(records, fits, machine, datasheet)
    path = out or folders()[0] / f"{made.name}.yaml"
    write(made, path)
    return load(path), notes, path


def notes_of(run: "Run") -> list[str]:
    """What a reader must know about a run."""
    from roofline.bench.campaign import LEFT_OUT

    notes = [f"{len(run.records.rows)} points were measured in {run.seconds:.0f} s."]
    noises = [noise for noise in (run.before, run.after) if noise is not None]
    for noise in noises[-1:] if all(n.calm for n in noises) else [n for n in noises if not n.calm]:
        state = "calm" if noise.calm else "disturbed: calibrate again when it is calm"
        notes.append(f"The machine was {state}; {noise}.")
    loose = sum(row.stopped != "converged" for row in run.records.rows)
    notes.append(f"{loose} of them stopped before their median was known to 1%, out of time.")
    if run.dropped:
        counts = Counter(entry.point.probe.name for entry in run.dropped)
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        notes.append(
            f"{len(run.dropped)} points were left out for lack of time or memory: {listed}. "
            f"{LEFT_OUT} in the folder of the measurements lists them with the reason."
        )
    notes += run.records.notes
    return notes


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
        echo(clean(f"{found.name}: {found.provider} on {found.environment['processor']}\n"))
    header = ["kernel", "constant", "measured", f"of {found.source}", "what it is"]
    rows = [[c["kernel"], c["constant"], c["measured"], c["share"], c["meaning"]] for c in changes]
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
    from roofline.units import show

    published = {"FLOP/s": found.machine.flops_per_s, "B/s": found.machine.hbm_bytes_per_s}
    out = []
    for name, fitted in found.fits.items():
        for constant in fitted.model.form.constants:
            value = fitted.model.constants[constant.name]
            whole = published.get(constant.unit)
            out.append(
                {
                    "kernel": name,
                    "constant": constant.name,
                    "value": value,
                    "unit": constant.unit,
                    "measured": show(value, constant.unit),
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
        "datasheet": fitted.datasheet and fitted.datasheet.median,
        "inside": fitted.inside,
    }


def said(text: str) -> None:
    """Print to stderr."""
    sys.stderr.write(clean(text) + "\n")
